"""POST /refine: passages that a client retrieved, shortened by a refiner."""

from collections.abc import Sequence
from dataclasses import dataclass

from vitalfew.flows.pipelines.answering import RagContext
from vitalfew.flows.pipelines.refining import refine
from vitalfew.flows.serving.batching import Bounds, WaitingLine
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.registry import METHODS, UnknownName

NAMES = tuple(METHODS["refiner"])
"""A client may name these alone: another name would be the module of a class, to be imported."""


@dataclass(frozen=True)
class PassagesToRefine:
    """A question, and passages with title and text, best first. `max_tokens`: of all contexts together."""

    refiner: str
    question: str
    passages: Sequence[dict[str, str]]
    max_tokens: int | None


class RefinersLine:
    """The line before the thread that refines: models are loaded when they are first used, and kept."""

    name = "refine"

    def __init__(self) -> None:
        self.line = WaitingLine({"refine": _refined}, Bounds(), "serve refine")


def _refined(requests: Sequence[PassagesToRefine]) -> list[list[RagContext]]:
    return [_one(request) for request in requests]


def _one(request: PassagesToRefine) -> list[RagContext]:
    """Raises InputError for a refiner that is unknown, or that has no model here."""
    if request.refiner not in NAMES:
        raise InputError(str(UnknownName("refiner", request.refiner, [*NAMES])))
    try:
        return refine(request.refiner, request.question, request.passages, max_tokens=request.max_tokens)
    except (ValueError, FileNotFoundError) as error:
        raise InputError(f"{request.refiner} cannot refine here: {error}") from error
