"""Short ways for tests to train something small."""

import os
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from tests.support.stages import staged
from tests.support.tiny_models import bert
from vitalfew.configs.schema import LoadConfig
from vitalfew.configs.training import TrainConfig
from vitalfew.storage.artifacts import Artifact
from vitalfew.tasks.load import Load
from vitalfew.tasks.models.small.tuned_encoder import TunedEncoder, weight_files
from vitalfew.tasks.train import Train
from vitalfew.tasks.trainers.reader import ReaderTrainer

SMALL: dict[str, Any] = {"held_out": 1, "choosing": 1, "batch_tokens": 256, "precision": "fp32", "threads": 1}
"""For the articles of tests/support/towns.py."""


def train_stage(store: Path, squad: Path, **settings: Any) -> Train:
    """The stage `train` over a file of SQuAD's, which is loaded. None leaves a setting of SMALL out."""
    load = Load(store, (f"squad:{squad}",), LoadConfig())
    load.run("test")
    given = {name: value for name, value in {**SMALL, **settings}.items() if value is not None}
    return staged(Train, store, load.artifact, None, TrainConfig(**given))


def opened(store: Path, squad: Path, **settings: Any) -> Any:
    """A trainer that is ready to learn, as the page on extending has it."""
    stage = train_stage(store, squad, **settings)
    stage.open()
    return stage.method


def write_weights(directory: Path, model: TunedEncoder, base: str) -> None:
    """A directory of weights as inference reads it."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in weight_files(model, base).items():
        (directory / name).write_bytes(content)


def random_weights(directory: Path, kind: type[TunedEncoder]) -> Path:
    """A reader or critic with random weights on a random BERT."""
    base = bert(directory / "base", 256)
    torch.manual_seed(3)
    model = kind(base, torch.float32)
    model.prepare_for_training(4)
    for name, parameter in model.trained().items():
        if name.endswith((".b", "head.weight")):
            parameter.data.normal_(0, 0.5)
    write_weights(directory, model, str(base))
    return directory


def steps(artifact: Artifact) -> list[dict[str, Any]]:
    """The rows of `training_steps` without the time they took."""
    rows = [row for path in sorted(artifact.directory.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def contents(artifact: Artifact) -> dict[str, bytes]:
    """The files of finished weights, by name."""
    return {path.name: path.read_bytes() for path in (artifact.directory / "weights").iterdir()}


def resumed(make: Callable[[], Train], fate: str = "step:4") -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """The weights and the steps of a training that ended at its `FATE`, and then went on in another stage."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FATE", fate)
        with pytest.raises(Interrupted):
            make().run("first")
    stage = make()
    stage.run("second")
    return contents(stage.artifact), steps(stage.artifact)


class Interrupted(Exception):
    """What ends a training in the middle."""


class Fated:
    """What a test can end at a moment: `FATE` is "step:3" or "finish:1" (counted in this process)."""

    def step(self, batch: Any, number: int, done: float) -> Any:
        self._meet("step")
        return super().step(batch, number, done)  # type: ignore[misc]

    def finish(self, directory: Path, tick: Any) -> Any:
        self._meet("finish")
        return super().finish(directory, tick)  # type: ignore[misc]

    def _meet(self, moment: str) -> None:
        self.moments[moment] += 1
        if os.environ.get("FATE") == f"{moment}:{self.moments[moment]}":
            raise Interrupted

    @cached_property
    def moments(self) -> Counter[str]:
        return Counter()


class Mortal(Fated, ReaderTrainer):
    """A reader's trainer that can be ended."""
