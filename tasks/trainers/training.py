"""train: what every training does: its passes, its checkpoint, and the choice of the best weights.

After each pass the questions of the choosing articles tell how good the weights are, and the best so far lie in the
output directory. A run that was killed goes on from its checkpoint, to the same end.
"""

import os
import random
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

import torch
from safetensors import safe_open

from configs.loading import ConfigError
from configs.training import Train
from storage.artifacts import fingerprint
from storage.files import checksum
from tasks.datasets.base import Record
from tasks.datasets.specification import parse_dataset
from tasks.models.device import choose_device, choose_dtype
from tasks.models.tuned import ADAPTER, SETTINGS, write_weights
from tasks.stage import Progress
from tasks.trainers.articles import read_material, split_articles
from tasks.trainers.steps import Learner, ModelT, RowT, shuffled_batches

CHECKPOINT, CANDIDATE = "checkpoint.safetensors", "candidate"
DROPOUT = 0.1
SAVE_EVERY = 100
"""Steps between checkpoints."""

Expect = Callable[[int], Any]


@dataclass
class Position:
    """How far a training is: the pass, the batch in it, and the best quality of a finished pass."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    best: float = -1.0


class Training(ABC, Generic[ModelT, RowT]):
    """One training: its material, its learner and where it stands.

    A subclass sets `passes`, `base` (the name of the encoder that the weights are laid over) and `learner`.
    """

    passes: int
    base: str
    learner: Learner[ModelT, RowT]

    def __init__(self, parameters: Train) -> None:
        self.out = parameters.out
        self.settings = parameters
        self.device = choose_device(parameters.device)
        self.dtype = choose_dtype(parameters.precision, self.device)
        self.threads = parameters.threads or os.cpu_count() or 1
        self.whole = read_material(_records(parameters.datasets), _records(parameters.passages))
        self.held_out, self.choosing = split_articles(
            self.whole, parameters.held_out, parameters.choosing, parameters.seed
        )
        self.learnt = self.whole.without([*self.held_out, *self.choosing])
        self.position = Position()

    @abstractmethod
    def rows(self, epoch: int) -> list[RowT]:
        """What a pass learns from."""

    @abstractmethod
    def quality(self, directory: Path) -> float:
        """How good weights are on the choosing articles; more is better."""

    @property
    def checkpoint(self) -> Path:
        return self.out / CHECKPOINT

    def identity(self) -> dict[str, Any]:
        """What decides the weights: a checkpoint of anything else is of no use."""
        datasets = [parse_dataset(each)[1] for each in (*self.settings.datasets, *self.settings.passages)]
        files = [checksum(file) for dataset in datasets for file in dataset.files()]
        config = self.settings.model_dump(mode="json", exclude={"out", "threads", "device", "precision"})
        return {"config": config, "files": files}

    def resume(self) -> None:
        """Go on from the checkpoint, where there is one. Raises ConfigError where it is of another training."""
        if not self.checkpoint.exists():
            return
        with safe_open(self.checkpoint, "pt") as file:
            notes = file.metadata()
        if notes["identity"] != fingerprint(**self.identity()):
            raise ConfigError(
                f"{self.checkpoint} is of a training with other settings or data; name another directory with --out, "
                "or remove it to begin anew"
            )
        self.learner.restore(self.checkpoint)
        self.position = Position(int(notes["epoch"]), int(notes["batch"]), int(notes["step"]), float(notes["best"]))

    def save(self) -> None:
        notes = {name: str(value) for name, value in vars(self.position).items()}
        self.learner.save(self.checkpoint, {**notes, "identity": fingerprint(**self.identity())})

    def run(self, progress: Progress, expect: Expect) -> None:
        """All passes that are left; `progress` counts windows of the pass under way."""
        while self.position.epoch < self.passes and not self._spent():
            self._pass(progress, expect)
            self._choose()
            self.position = Position(self.position.epoch + 1, 0, self.position.step, self.position.best)
            self.save()

    def _spent(self) -> bool:
        """Whether the steps that were allowed are taken."""
        return self.settings.steps is not None and self.position.step >= self.settings.steps

    def _pass(self, progress: Progress, expect: Expect) -> None:
        epoch = self.position.epoch
        rows = self.rows(epoch)
        torch.set_num_threads(self.threads)
        draw = random.Random(f"{self.settings.seed}/{epoch}/batches")
        steps = shuffled_batches(rows, self.settings.batch_tokens, draw)
        expect(len(rows))
        for number, batch in enumerate(steps):
            if self._spent():
                return
            if number >= self.position.batch:
                done = (epoch + number / len(steps)) / self.passes
                if self.settings.steps:
                    done = max(done, self.position.step / self.settings.steps)
                self.learner.step(batch, len(rows) / len(steps), done, self.position.step)
                self.position.batch, self.position.step = number + 1, self.position.step + 1
                if self.position.step % SAVE_EVERY == 0:
                    self.save()
            progress(len(batch), sum(len(row.window.ids) for row in batch))

    def _choose(self) -> None:
        """Keep the weights if they are better on the choosing articles than any before."""
        candidate = self.out / CANDIDATE
        write_weights(candidate, self.learner.model, self.base)
        quality = self.quality(candidate)
        if quality >= self.position.best:
            self.position.best = quality
            for name in (ADAPTER, SETTINGS):
                (candidate / name).replace(self.out / name)
        shutil.rmtree(candidate)


def _records(specifications: Sequence[str]) -> Iterator[Record]:
    for each in specifications:
        for _, record in parse_dataset(each)[1].records():
            yield record
