"""The contract of a trainer: batches of material in, steps out; then figures, the finished weights and their card.

A trainer knows no store. The stage `train` (tasks/train.py) gives it the rows to learn from, asks it for one step after
the other, keeps its checkpoints, and writes what it has finished. Any network fits, and any material: a batch is
whatever `step` takes. What a step comes to may depend on nothing but the state, the batch and the step's number, so
that a training that was killed goes on from its checkpoint to the same bytes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa
from torch import Tensor

from configs.training import TrainConfig

BatchT = TypeVar("BatchT")

Tick = Callable[[int, int], None]
"""Called with how many more rows are measured, and how many tokens were read for it."""


@dataclass(frozen=True)
class Tables:
    """The rows that a training learns from: `questions` (schemas.QUESTIONS) and `passages` (schemas.PASSAGES), those of
    the questions' own data sets first."""

    questions: pa.Table
    passages: pa.Table


@dataclass(frozen=True, slots=True)
class Step:
    """What a step was made of and came to. `tokens`: padding apart; `losses`: losses and rates by name."""

    rows: int
    tokens: int
    lr: float
    losses: Mapping[str, float]


@dataclass(frozen=True)
class State:
    """All that the next step depends on: tensors, and what is no tensor, as JSON has it."""

    tensors: Mapping[str, Tensor]
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Finished:
    """What is told of the best weights: `figures`, rows of numbers by name; `files` to lie beside them, by name."""

    figures: Sequence[Mapping[str, Any]]
    files: Mapping[str, bytes]


class Trainer(ABC, Generic[BatchT]):
    """A class that has `Options`, a TrainConfig with what can be set of it besides, and is made of an instance of them.

    Making one is cheap, so that names and settings are checked before anything runs; `begin` gets it ready to learn.
    """

    Options: ClassVar[type[TrainConfig]]
    version: ClassVar[str] = "1"
    """Part of the fingerprint: raise it when the same material would give other weights."""
    use: ClassVar[str]
    """The setting that takes the directory of finished weights: generate.model."""
    headings: ClassVar[Mapping[str, str]] = {}
    """How a figure is headed, by its name, where that does not say it."""
    uses_gpu: bool = False

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`. Raises what a user has to mend of them."""
        self.options = options

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What decides the weights besides settings and material: class, version, device and precision, and the
        checksums of the weights that it begins from."""

    @property
    def passes(self) -> int:
        """Passes over the material, at most."""
        epochs: int = self.options.epochs
        return epochs

    @abstractmethod
    def begin(self, tables: Tables) -> None:
        """Get ready to learn from these rows. Raises InputError and ConfigError where they cannot be learnt from."""

    @abstractmethod
    def batches(self, epoch: int) -> Sequence[BatchT]:
        """The material of a pass (from 0), a batch a step; the same for the same pass."""

    @abstractmethod
    def step(self, batch: BatchT, number: int, done: float) -> Step:
        """Learn from a batch. `number`: of the step in the training, from 0; `done`: share of it that is over."""

    @abstractmethod
    def state(self) -> State:
        """For a checkpoint."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Go back to a checkpoint: its tensors (on any device) and notes."""

    @abstractmethod
    def weights(self) -> dict[str, bytes]:
        """The files of the weights as they are now, by name: what inference reads."""

    @abstractmethod
    def quality(self, directory: Path) -> float:
        """How good the weights in a directory are on the part that chooses among passes; more is better."""

    @abstractmethod
    def finish(self, directory: Path, tick: Tick) -> Finished:
        """Measure the best weights, which lie in a directory, on what was held out, and say what they are."""
