"""The contract of a collector: it writes the evidence text of a question, which Oreo then learns to write.

Oreo (arXiv 2502.13019, section 2.2) has a strong language model write it. What is written is curated
(tasks/trainers/oreo/curation.py), and where the answer is missing the collector is asked again, told the answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from vitalfew.tasks.encoders import titles
from vitalfew.tasks.models.small.copied import Run


@dataclass(frozen=True, slots=True)
class Chunk:
    """A retrieved text, with its place in its passage (code points, half-open); `title`: empty where none is shown."""

    passage_id: int
    start: int
    end: int
    title: str
    text: str

    @property
    def lead(self) -> str:
        return titles.lead(self.title)

    @property
    def shown(self) -> str:
        """The title and the text, as models read them."""
        return self.lead + self.text


@dataclass(frozen=True, slots=True)
class Case:
    """A question, its gold answers, what was retrieved for it, and where the data set marks what supports the answer
    (passage, start, end)."""

    question: str
    answers: tuple[str, ...]
    chunks: tuple[Chunk, ...]
    facts: tuple[tuple[int, int, int], ...] = ()

    @property
    def shown(self) -> list[str]:
        return [chunk.shown for chunk in self.chunks]


@dataclass(frozen=True, slots=True)
class Output:
    """An evidence text. `copied`: the parts of the chunks as shown that it consists of, where the collector knows
    them; `tokens` and `seconds`: what it took; `error`: why there is none."""

    text: str
    copied: tuple[Run, ...] = ()
    tokens: int = 0
    seconds: float = 0.0
    error: str = ""


class Collector(Protocol):
    """A class that has `Options`, a CollectConfig with what can be set of it besides, and is made of an instance of
    them."""

    version: ClassVar[str]
    uses_gpu: bool
    workers: int | None
    attempts: int
    """How often it is asked about a question, at most: once plainly, then told the answer."""

    def __init__(self, options: Any) -> None: ...

    def identity(self) -> dict[str, Any]: ...

    def collect(self, cases: Sequence[Case], earlier: Sequence[str | None]) -> list[Output]:
        """The evidence text of each, in their order. `earlier`: None: it is asked plainly; else what it wrote before,
        which lacks the answer: it is now told that."""
        ...
