"""The contract of a refiner: the hits of a batch of questions in, the contexts of each prompt out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

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


class Refiner(Protocol):
    version: ClassVar[str]
    uses_gpu: bool

    def __init__(self, config: Refine) -> None: ...

    def identity(self) -> dict[str, Any]:
        """What its contexts depend on besides the configuration."""
        ...

    def refine(self, questions: Sequence[str], hits: Sequence[Sequence[Hit]]) -> list[list[Evidence]]:
        """The contexts of each question, best first, from its hits, best first."""
        ...
