"""The contract of a critic: generated answers in, for each what it thinks of its context and of the answer out.

A critic knows neither files nor tables. It is made from its `Options`, loads its model by its first
`critique`, and keeps it. No candidate ends a batch: one that cannot be judged comes back with its `error`.

The three scores are Self-RAG's (Asai et al., 2023, arXiv 2310.11511, section 3.1), as probabilities or expectations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from vitalfew.tasks.models.ticks import Tick


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer to be judged. `context`: what its prompt had, several contexts with a blank line between them; empty
    where it had none. `probabilities`: of the tokens that its generator kept them of (`self_rag`)."""

    question: str
    context: str
    answer: str
    probabilities: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judgement:
    """`isrel`: whether the context is of use for the question; `issup`: whether the context supports the answer;
    `isuse`: how useful the answer is; each from 0 to 1. Where `error` is not empty they are 0 and mean nothing."""

    isrel: float
    issup: float
    isuse: float
    error: str = ""


class Critic(Protocol):
    """A class that has `Options`, a CritiqueConfig with what can be set of it besides, and is made of an instance of
    them. `version`: raise it when the same candidate would get other scores."""

    version: ClassVar[str]
    uses_gpu: bool
    workers: int | None
    """How many of it a machine bears: None, one a core; 1 for a model that uses all cores itself."""

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`. Cheap: raises CriticUnavailable, EngineUnavailable, ConfigError
        where the model or the library is missing, with the remedy."""
        ...

    def identity(self) -> dict[str, Any]:
        """What a critique depends on besides the options: the class, its version, checksums of the weights.

        Known without loading the model. {"class": "Embedded", "version": "1", "files": {"adapter.safetensors": "…"}}
        """
        ...

    def critique(self, batch: Sequence[Candidate], tick: Tick = ...) -> list[Judgement]:
        """A judgement of each candidate, in their order."""
        ...


class CriticUnavailable(ValueError):
    """A critic cannot work here: the message says what is missing and how to provide it."""


def uncritical(error: str) -> Judgement:
    """The row of a candidate that could not be judged."""
    return Judgement(0.0, 0.0, 0.0, error)
