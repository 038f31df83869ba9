"""The contract of an appraiser: how faithful to its hits is a refined context, and how complete? 0 to 10 each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from vitalfew.tasks.models.ticks import Tick


@dataclass(frozen=True, slots=True)
class Refined:
    """A question with the hits that its refiner was given, each with its title, and the context that came of them."""

    question: str
    hits: tuple[str, ...]
    context: str


@dataclass(frozen=True, slots=True)
class Appraisal:
    """`faithfulness` and `completeness`: 0 to 10, None where there is an error; `explanation`: why; `error`: why there
    is none."""

    faithfulness: float | None
    completeness: float | None
    explanation: str = ""
    error: str = ""


class Appraiser(Protocol):
    """A class that has `Options`, an AppraiseConfig with what can be set of it besides, and is made of an instance of
    them. `version`: raise it when the same context would be rated otherwise."""

    version: ClassVar[str]
    uses_gpu: bool
    workers: int | None

    def __init__(self, options: Any) -> None: ...

    def identity(self) -> dict[str, Any]: ...

    def appraise(self, batch: Sequence[Refined], tick: Tick) -> list[Appraisal]:
        """One for each, in their order."""
        ...
