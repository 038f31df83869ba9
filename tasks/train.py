"""train: questions and passages → the steps of a training, and its weights.

A shard is a pass over the material; the last shard measures the best weights and writes them with their card. A pass
writes checkpoints, so that a killed training resumes from the latest one. Every pass starts from the checkpoint of the
one before, read from its file even if the same process wrote it: a training gives the same bytes, however often it was
killed.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pyarrow as pa

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.training import TrainConfig
from vitalfew.storage import files, schemas
from vitalfew.storage.artifacts import WEIGHTS, Artifact
from vitalfew.tasks.collect import read_apart, read_split, read_whole
from vitalfew.tasks.models.ticks import Counted, Share, tokens_of
from vitalfew.tasks.stage import MethodStage, Progress, ShardResult
from vitalfew.tasks.trainers.base import State, Tables, Trainer

CHECKPOINT = "checkpoint.safetensors"


@dataclass
class Position:
    """The progress of a training: the pass (from 0), the batch in it, the steps taken, whether the pass is finished,
    and the pass with the best weights so far."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    finished: bool = False
    best: int = -1
    quality: float = 0.0


class Train(MethodStage):
    """Stage `train` over the questions of a load artifact, and the passages of this artifact and of another."""

    name: ClassVar[str] = "train"
    table: ClassVar[str] = "training_steps"
    section: ClassVar[str] = ""
    role: ClassVar[str | None] = "trainer"
    workers = 1

    def __init__(
        self,
        store: Path,
        questions: Artifact,
        passages: Artifact | None,
        config: TrainConfig,
        more: Mapping[str, Artifact] = MappingProxyType({}),
    ) -> None:
        """`more`: the load artifacts of the data sets that are not learnt from (`held_out`, `choosing`), which are in
        `questions` too; the artifact of `labels`. Raises UnknownName, ConfigError, and the trainer's errors about its
        settings."""
        others = {"passages": passages} if passages else {}
        super().__init__(store, {"questions": questions, **others, **more}, config)
        if "labels" in more and not self.method.takes_labels:
            raise ConfigError(f"labels: trainer {config.trainer} learns from no labels; leave them out")

    shared: ClassVar[bool] = False  # a trainer is what it has learnt so far
    config: TrainConfig
    method: Trainer[Any]

    def shards(self) -> list[int]:
        """One for every pass, and the last for the figures."""
        return list(range(self.method.passes + 1))

    def total_rows(self) -> int:
        """The questions, counted once per shard: the rows of a pass are known only when it begins."""
        return self._questions() * len(self.shards())

    def _questions(self) -> int:
        return self.inputs["questions"].completed().rows["questions"]

    def pending(self) -> list[int]:
        """All shards from the first one that is missing; all shards from 0 if the checkpoint is gone."""
        shards = self.shards()
        first = next((shard for shard in shards if self.artifact.record(shard) is None), len(shards))
        if first < len(shards) and not self._leads_to(self._position(), first):
            first = 0
        return shards[first:]

    @staticmethod
    def _leads_to(position: Position | None, shard: int) -> bool:
        """Whether a shard can begin, or resume, from a checkpoint."""
        if position is None:
            return shard == 0
        return position.epoch == shard or (position.epoch == shard - 1 and position.finished)

    def open(self) -> None:
        self.method.begin(self._tables())
        if self.pending()[:1] == [0] and not self._leads_to(self._position(), 0):
            files.remove_tree(self.staging)
        if self._position() is None:
            self._save(Position(), [])

    def _tables(self) -> Tables:
        """The passages of the questions' data sets come first. Raises ConfigError if there are no questions."""
        if not (questions := read_whole(self.inputs["questions"], "questions")).num_rows:
            raise ConfigError("no questions to learn from: name data sets with questions (see `vitalfew datasets`)")
        sources = [self.inputs[role] for role in ("questions", "passages") if role in self.inputs]
        passages = [read_whole(source, "passages") for source in sources]
        labels = read_whole(self.inputs["labels"], "labels") if "labels" in self.inputs else None
        return Tables(questions, pa.concat_tables(passages), apart=read_apart(self.inputs), labels=labels)

    def work(self, shard: int, progress: Progress) -> ShardResult:
        position, rows = self._restore()
        if shard == self.method.passes:
            return self._measured(position, progress)
        if position.finished and position.epoch == shard - 1:
            position, rows = replace(position, epoch=shard, batch=0, finished=False), []
        if not position.finished:
            self._learn(position, rows, Share(self._questions(), progress))
        tables = {self.table: pa.Table.from_pylist(rows, schemas.TRAINING_STEPS)}
        for name in dict.fromkeys(name for row in rows for name in row["records"]):
            records = [record for row in rows for record in row["records"].get(name, [])]
            tables[name] = pa.Table.from_pylist(records, schemas.TABLES[name])
        tokens = sum(row["tokens"] for row in rows)
        return ShardResult(sum(row["rows"] for row in rows), tables, tokens=tokens)

    def _learn(self, position: Position, rows: list[dict[str, Any]], share: Share) -> None:
        """Finish the rest of a pass; adds to `rows`, those of `training_steps`."""
        batches = self.method.batches(position.epoch)
        due, steps = len(batches), self.config.steps
        if steps is not None:
            due = min(due, position.batch + max(0, steps - position.step))
        for number, batch in enumerate(batches[:due]):
            tokens = 0
            if number >= position.batch:
                rows.append(self._step(batch, position, (position.epoch + number / len(batches)) / self.method.passes))
                tokens = rows[-1]["tokens"]
                if position.step % self.config.checkpoint_every == 0:
                    self._save(position, rows)
            share.reach((number + 1) / due, tokens)
        if position.batch:
            self._choose(position, rows)
        position.finished = True
        self._save(position, rows)
        share.reach(1.0)

    def _step(self, batch: Any, position: Position, done: float) -> dict[str, Any]:
        """Take a step and return its row; `done`: share of all passes."""
        began = time.perf_counter()
        if self.config.steps:
            done = max(done, position.step / self.config.steps)
        step = self.method.step(batch, position.step, done)
        position.batch, position.step = position.batch + 1, position.step + 1
        return {
            "stage": self.config.trainer,
            "step": position.step,
            "epoch": position.epoch + 1,
            "rows": step.rows,
            "tokens": step.tokens,
            "seconds": time.perf_counter() - began,
            "lr": step.lr,
            "losses": list(step.losses.items()),
            "quality": None,
            "records": {table: [dict(row) for row in records] for table, records in step.records.items()},
        }

    def _choose(self, position: Position, rows: list[dict[str, Any]]) -> None:
        """Store the weights of this pass; they become the best ones if no earlier pass is better."""
        directory = self._pass(position.epoch)
        for name, content in self.method.weights().items():
            files.write_bytes(directory / name, content)
        quality = self.method.quality(files.local(directory))
        if rows:
            rows[-1]["quality"] = quality
        if position.best < 0 or quality >= position.quality:
            position.best, position.quality = position.epoch, quality

    def _pass(self, epoch: int) -> Path:
        """The directory with the weights of a pass."""
        return self.staging / f"pass-{epoch:05d}"

    def _measured(self, position: Position, progress: Progress) -> ShardResult:
        """Figures, card and weights of the best pass. Their files are part of the artifact."""
        if position.best < 0:
            raise ConfigError(
                f"trainer {self.config.trainer} found nothing to learn from in these data sets. What it learns from: "
                f"vitalfew methods {self.config.trainer}"
            )
        best, count = self._pass(position.best), Counted(tokens_of(progress))
        beside = self.method.finish(files.local(best), count)
        contents = {path.name: files.read_bytes(path) for path in files.find(best)} | beside
        written = []
        for name, content in sorted(contents.items()):
            path = self.artifact.directory / WEIGHTS / name
            files.write_bytes(path, content)
            written.append(self.artifact.describe(path, WEIGHTS, 0))
        progress(self._questions(), 0)
        return ShardResult(0, files=written, tokens=count.tokens)

    def _save(self, position: Position, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the checkpoint, and remove the weights of passes that it does not name."""
        state = self.method.state()
        notes = {"position": asdict(position), "rows": rows, "trainer": state.notes}
        files.write_tensors(self.staging / CHECKPOINT, state.tensors, notes)
        for directory in files.find(self.staging, "pass-*") if position.finished else ():
            if directory != self._pass(position.best):
                files.remove_tree(directory)

    def _restore(self) -> tuple[Position, list[dict[str, Any]]]:
        """Restore the checkpoint; returns its position, and the rows of its pass so far."""
        path = self.staging / CHECKPOINT
        notes = files.read_notes(path)
        self.method.restore(State(files.read_tensors(path), notes["trainer"]))
        rows = [{**row, "losses": [(name, value) for name, value in row["losses"]]} for row in notes["rows"]]
        return Position(**notes["position"]), rows

    def _position(self) -> Position | None:
        """The checkpoint's position; None if there is no readable checkpoint, or if its best weights are gone."""
        try:
            position = Position(**files.read_notes(self.staging / CHECKPOINT)["position"])
        except (FileNotFoundError, files.DamagedRecord):
            return None
        return position if position.best < 0 or files.is_folder(self._pass(position.best)) else None


class TrainOnExamples(Train):
    """A training of Oreo: its material is `oreo_examples`, and it begins with the weights of another training, if that
    is given. Every training has a stage of its name, so that they follow one another."""

    def __init__(self, store: Path, examples: Artifact, earlier: Artifact | None, config: TrainConfig) -> None:
        """`examples`: of the stage `collect`; `earlier`: a training. Raises as `Train` does."""
        inputs = {"examples": examples} | ({"weights": earlier} if earlier else {})
        MethodStage.__init__(self, store, inputs, config)

    def _questions(self) -> int:
        return self.inputs["examples"].completed().rows["oreo_examples"]

    def _tables(self) -> Tables:
        earlier, examples = self.inputs.get("weights"), read_whole(self.inputs["examples"], "oreo_examples")
        weights = files.local(earlier.directory / WEIGHTS) if earlier else None
        return Tables(examples=examples, weights=weights, split=read_split(self.inputs["examples"]))


class TrainSft(TrainOnExamples):
    """Oreo's supervised fine-tuning."""

    name, section = "train_sft", "sft"


class TrainContrastive(TrainOnExamples):
    """Oreo's contrastive multitask learning."""

    name, section = "train_contrastive", "contrastive"


class TrainPpo(TrainOnExamples):
    """Oreo's reinforcement learning."""

    name, section = "train_ppo", "ppo"
