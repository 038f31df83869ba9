"""A tiny reader, and examples of Oreo's in a store, for tests of its trainings."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.fakes import FirstWords
from tests.support.towns import TOWNS
from tests.support.training import Fated, random_weights
from vitalfew.configs.training import TrainConfig
from vitalfew.storage import files, schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.tasks.collect import CHOOSE, HELD_OUT, split_file
from vitalfew.tasks.generators.base import Prompt
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.small.copied import CopiedRun
from vitalfew.tasks.models.small.reader import ReaderModel
from vitalfew.tasks.stage import Progress, ShardResult, Stage
from vitalfew.tasks.trainers.oreo.ppo import OreoPpo
from vitalfew.tasks.trainers.oreo.training import OreoSft

SMALL: dict[str, Any] = {
    "batch": 2, "batch_tokens": 256, "check_questions": 2, "precision": "fp32", "threads": 1, "checkpoint_every": 2,
    "max_new_tokens": 12, "generator": {"generator": "tests.support.oreo:LastWord"}, "learning_rate": 0.003,
}  # fmt: skip


class LastWord(FirstWords):
    """Answers with the last word of the evidence text."""

    def _answer(self, prompt: Prompt) -> Completion:
        words = " ".join(prompt.contexts).replace(".", " ").split()
        return replace(super()._answer(prompt), text=words[-1] if words else "")


def reader(directory: Path) -> Path:
    """Weights of a reader over a tiny BERT."""
    return random_weights(directory, ReaderModel)


def rows() -> list[dict[str, Any]]:
    """An example per town: the clause with the year, out of two chunks."""
    made = []
    for number, town in enumerate(TOWNS):
        year = str(1700 + 7 * number)
        texts = [f"{town} lies on a river.", f"The mill was built in {year}, near the bridge."]
        start = len(town) + 2 + texts[1].index("built")
        copied = CopiedRun(1, start, start + len(f"built in {year}"))
        made.append(
            {
                "question_id": number,
                "question": f"When was the mill of {town} built?",
                "answers": [year],
                "chunks": [{"passage_id": number, "title": town, "text": text} for text in texts],
                "target": f"built in {year}",
                "copied": [copied._asdict()],
                "attempt": 0,
                "split": ("learn", "learn", "learn", "learn", "choose", "held_out")[number],
            }
        )
    return made


class Given(Stage):
    """Writes examples as the stage `collect` does."""

    name = "collect"
    table = "oreo_examples"
    section = "collect"

    def __init__(self, store: Path, given: Sequence[dict[str, Any]]) -> None:
        self.given = list(given)
        super().__init__(store, {}, TrainConfig(trainer="given"))

    def method_identity(self) -> dict[str, Any]:
        return {"rows": repr(self.given)}

    def prepare(self, progress: Progress) -> None:
        files.write_json(split_file(self.artifact), {HELD_OUT: [TOWNS[5]], CHOOSE: [TOWNS[4]]})

    def prepared(self) -> list[Path]:
        return [split_file(self.artifact)]

    def shards(self) -> list[int]:
        return [0]

    def total_rows(self) -> int:
        return len(self.given)

    def work(self, shard: int, progress: Progress) -> ShardResult:
        table = pa.Table.from_pylist(self.given, schemas.OREO_EXAMPLES)
        return ShardResult(len(self.given), {self.table: table})


def examples(store: Path) -> Artifact:
    stage = Given(store, rows())
    stage.run("test")
    return stage.artifact


class MortalPpo(Fated, OreoPpo):
    """A reinforcement learning that can be ended."""


class DivergingSft(OreoSft):
    """A fine-tuning whose second step has a loss that is no number."""

    def finite(self, loss: float, number: int, batch: Sequence[Any]) -> float:
        return super().finite(float("nan") if number == 1 else loss, number, batch)
