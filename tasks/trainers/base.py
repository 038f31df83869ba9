"""The contract of a trainer: it takes batches of material, makes steps, and gives figures, weights and their card.

A trainer knows no store. The stage `train` (tasks/train.py) gives it the rows to learn from, asks it for one step after
another, keeps its checkpoints, and writes the finished weights. Any material fits: a batch is whatever `step` takes.
The result of a step depends only on the state, the batch and the step's number, so that a training that was killed goes
on from its checkpoint to the same bytes.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa
import torch
from torch import Tensor

from vitalfew.configs.training import TrainConfig
from vitalfew.tasks.datasets.base import Passage, Question, Record, Span
from vitalfew.tasks.models.device import OnDevice, require_device
from vitalfew.tasks.models.ticks import Tick
from vitalfew.tasks.trainers.card import NO_SOURCES, Sources, card_files
from vitalfew.tasks.trainers.splits import Apart, TrainingSplit, question_group
from vitalfew.tasks.trainers.updates import Updates

BatchT = TypeVar("BatchT")


@dataclass(frozen=True)
class Tables:
    """The rows that a training learns from: `questions` (schemas.QUESTIONS) and `passages` (schemas.PASSAGES).

    The passages of the questions' data sets come first. `apart`: which of them are of data sets that are not learnt
    from; `labels` (schemas.LABELS): which passages are relevant, if a run says that. For Oreo: `examples`
    (schemas.OREO_EXAMPLES), the directory of the `weights` of an earlier training, and the `split` of the examples.
    """

    questions: pa.Table = field(default_factory=lambda: pa.table({}))
    passages: pa.Table = field(default_factory=lambda: pa.table({}))
    examples: pa.Table = field(default_factory=lambda: pa.table({}))
    weights: Path | None = None
    split: TrainingSplit | None = None
    apart: Apart = field(default_factory=Apart)
    labels: pa.Table | None = None

    def records(self) -> Iterator[Record]:
        """Yield the dataset records that the rows of `passages` and `questions` come from."""
        for row in self.passages.to_pylist():
            yield Passage(row["title"], row["text"], row["source_id"])
        for row in self.questions.to_pylist():
            facts = tuple(Span(**fact) for fact in row["supporting_facts"])
            yield Question(row["text"], tuple(row["answers"]), tuple(row["gold_passages"]), facts, row["source_id"])

    def sources(self) -> Sources:
        """Return the data sets to learn from."""
        texts, passages = self.questions["text"].to_pylist(), self.passages["passage_id"].to_pylist()
        asked = _sources(self.questions, [question_group(text) not in self.apart.questions for text in texts])
        others = _sources(self.passages, [number not in self.apart.passages for number in passages])
        return Sources(sorted(asked), sorted(others - asked))


def _sources(rows: pa.Table, kept: Sequence[bool]) -> set[str]:
    return {source for source, is_kept in zip(rows["source"].to_pylist(), kept, strict=True) if is_kept}


@dataclass(frozen=True, slots=True)
class Step:
    """The size and the result of a step. `tokens`: without padding; `losses`: losses and rates by name; `records`: rows
    of further tables, by table."""

    rows: int
    tokens: int
    lr: float
    losses: Mapping[str, float]
    records: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """Everything that the next step depends on: tensors, and `notes`, values that JSON can hold."""

    tensors: Mapping[str, Tensor]
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Finished:
    """A description of the best weights: `figures`, rows of numbers by name; `files` to store beside them, by name."""

    figures: Sequence[Mapping[str, Any]]
    files: Mapping[str, bytes]


class Trainer(OnDevice, ABC, Generic[BatchT]):
    """Trains one network: a class with `Options`, a TrainConfig with the trainer's own settings.

    Construction is cheap, so that names and settings are checked before anything runs; `begin` prepares the training.
    """

    Options: ClassVar[type[TrainConfig]]
    version: ClassVar[str] = "1"
    """Part of the fingerprint: raise it when the same material would give different weights."""
    use: ClassVar[str]
    """The setting that takes the directory of finished weights: generate.model."""
    headings: ClassVar[Mapping[str, str]] = {}
    """The heading of a figure, by its name, where the name is not clear enough."""
    takes_labels: ClassVar[bool] = False
    """True if the labels of a run (`Tables.labels`) can say what is relevant."""
    updates: Updates
    """The optimiser of the network's weights, which `begin` makes."""
    curve: list[dict[str, Any]] | None = None
    """The figures of every pass on the articles that choose, where a trainer keeps them."""
    split: TrainingSplit
    sources: Sources = NO_SOURCES
    whole: Any
    """The material; `learnt` is the part to learn from. `begin` sets both, and `split`, for the card."""
    learnt: Any

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`. Raises the errors that a user has to correct in them."""
        super().__init__(options)
        self.options = options
        self.threads = options.threads or os.cpu_count() or 1
        self.computing = {"device": options.device, "precision": options.precision}

    @abstractmethod
    def begins_from(self) -> dict[str, Any]:
        """Return the checksums of the weights that the training starts from."""

    def identity(self) -> dict[str, Any]:
        """Return everything that determines the weights besides settings and material."""
        return {**super().identity(), "begins_from": self.begins_from()}

    @property
    def passes(self) -> int:
        """The maximal number of passes over the material."""
        epochs: int = self.options.epochs
        return epochs

    def begin(self, tables: Tables) -> None:
        """Prepare to learn from these rows. Raises InputError and ConfigError if they are unfit for training."""
        require_device(self.device, self.dtype, "train")

    @abstractmethod
    def batches(self, epoch: int) -> Sequence[BatchT]:
        """Return the material of a pass (from 0), one batch for every step; the same for the same pass."""

    @abstractmethod
    def step(self, batch: BatchT, number: int, done: float) -> Step:
        """Learn from a batch. `number`: of the step in the training, from 0; `done`: share of the training so far."""

    def seed_step(self, number: int) -> None:
        """Seed PyTorch for a step, so that a resumed training draws the same numbers."""
        torch.manual_seed(self.options.seed * 1_000_003 + number)

    def state(self) -> State:
        """Return the state for a checkpoint."""
        return State(self.updates.tensors(), {} if self.curve is None else {"curve": self.curve})

    def restore(self, state: State) -> None:
        """Go back to a checkpoint: its tensors (on any device) and notes."""
        self.updates.restore(state.tensors)
        if self.curve is not None:
            self.curve = list(state.notes["curve"])

    @abstractmethod
    def weights(self) -> dict[str, bytes]:
        """Return the files of the current weights, by name, as inference reads them."""

    @abstractmethod
    def quality(self, directory: Path) -> float:
        """Return the quality of the weights in a directory on the articles that choose; higher is better."""

    @abstractmethod
    def finish(self, directory: Path, tick: Tick) -> Finished:
        """Measure the best weights, which are in a directory, on the held-out part, and describe them."""

    def described(
        self,
        template: str,
        figures: Sequence[Mapping[str, Any]],
        more: Mapping[str, Any] | None = None,
        files: Mapping[str, bytes] | None = None,
        **shown: Any,
    ) -> Finished:
        """Return the figures, `files`, and the other files beside the weights, card and recipe among them (card.py)."""
        curve = {} if self.curve is None else {"curve": self.curve}
        card = card_files(template, self, {"figures": figures, **(more or {}), **curve}, shown)
        return Finished(figures, {**card, **(files or {})})
