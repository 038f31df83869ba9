"""The contract of a refiner: the hits of a batch of questions in, the contexts of each prompt out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

Tick = Callable[[int, int], None]
"""Called with how many more questions are done and how many more tokens a model computed for them."""


def no_tick(questions: int, tokens: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved text, with its place in its passage (code points, half-open); start = end: it was rewritten from that
    passage and has none."""

    title: str
    text: str
    passage_id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """A context of a prompt. `origin`: (passage id, start, end) of what it was taken from; empty: it was rewritten."""

    text: str
    tokens: int
    origin: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Vectors:
    """Embeddings by one encoder: `questions` float32 (n, d), and `hits`, for each question float32 (its hits, d)."""

    questions: NDArray[np.float32]
    hits: Sequence[NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Refined:
    """The contexts of each question, best first; tokens that a model computed; counts for the manifest."""

    contexts: list[list[Evidence]]
    tokens: int = 0
    notes: Mapping[str, int] = field(default_factory=dict)


class Refiner(Protocol):
    """A class that has `Options`, a RefineConfig with what can be set of it besides, and is made of an instance of
    them.

    `version`: raise it when the same hits would give other contexts; `needs_vectors`: whether `refine` wants those of
    the index. A model is loaded by the first `refine`, not on construction, and kept.
    """

    version: ClassVar[str]
    uses_gpu: bool
    workers: int | None
    """How many of it a machine bears: None, one a core; 1 for a model that uses all cores itself."""
    needs_vectors: bool

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`."""
        ...

    def identity(self) -> dict[str, Any]:
        """What its contexts depend on besides the options that are in the fingerprint: its model and that one's
        settings. Known without loading the model."""
        ...

    def refine(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        vectors: Vectors | None = None,
        tick: Tick = ...,
    ) -> Refined:
        """The contexts of each question from its hits, best first."""
        ...
