"""The contract of a refiner: the hits of a batch of questions in, the contexts of each prompt out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from configs.evaluation import Refine


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved text, with its place in its passage (code points, half-open)."""

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


class Refiner(Protocol):
    """`settings`: what of a configuration concerns it, besides top_k, max_words, max_tokens and text; `needs_vectors`:
    whether `refine` wants those of the index."""

    version: ClassVar[str]
    settings: ClassVar[frozenset[str]]
    uses_gpu: bool
    needs_vectors: bool

    def __init__(self, config: Refine) -> None: ...

    def identity(self) -> dict[str, Any]:
        """What its contexts depend on besides the configuration."""
        ...

    def refine(
        self, questions: Sequence[str], hits: Sequence[Sequence[Hit]], vectors: Vectors | None = None
    ) -> list[list[Evidence]]:
        """The contexts of each question, best first, from its hits, best first."""
        ...
