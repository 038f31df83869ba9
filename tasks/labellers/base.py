"""The contract of a labeller: is a passage relevant to a question? 1 or 0, by a rater and perhaps a critic.

Sparse RAG (arXiv 2405.16178, section 3) has one model rate a context and another confirm or correct that; a labeller
that asks nobody twice has no critic.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pydantic import ConfigDict

from vitalfew.configs.evaluation import LabelConfig
from vitalfew.tasks.models.ticks import Tick


@dataclass(frozen=True, slots=True)
class Labelled:
    """A passage that was retrieved for a question, with what the data set says of that."""

    question: str
    answers: tuple[str, ...]
    gold_passages: tuple[int, ...]
    facts: tuple[tuple[int, int], ...]
    """Half-open character ranges of the passage that support the answer."""
    passage_id: int
    title: str
    text: str
    gold_titles: tuple[str, ...] = ()
    """Of those gold passages that are in the corpus."""


@dataclass(frozen=True, slots=True)
class Label:
    """`rater`: 1 relevant, 0 not, or between; `critic`: what another made of that, which counts then; `error`: why
    there is none."""

    rater: float | None
    critic: float | None = None
    error: str = ""

    @property
    def label(self) -> float | None:
        if self.error:
            return None
        return self.rater if self.critic is None else self.critic


class Labeller(Protocol):
    """A class that has `Options`, a LabelConfig with what can be set of it besides, and is made of an instance of
    them."""

    version: ClassVar[str]
    uses_gpu: bool
    workers: int | None

    def __init__(self, options: Any) -> None: ...

    def identity(self) -> dict[str, Any]: ...

    def label(self, batch: Sequence[Labelled], tick: Tick) -> list[Label]:
        """One for each, in their order."""
        ...


class ModelFree:
    """What the labellers that ask no model share."""

    class Options(LabelConfig):
        model_config = ConfigDict(extra="forbid")

    version: ClassVar[str]
    uses_gpu: bool = False
    workers: int | None = None

    def __init__(self, options: Any) -> None:
        self.options = options

    def identity(self) -> dict[str, Any]:
        return {"class": type(self).__name__, "version": self.version}
