"""How much a refiner leaves of what was retrieved, and how long a question takes with it (Oreo, arXiv 2502.13019, 4.2).

The context share is the length of the contexts by that of all hits as a prompt would show them, in words and
punctuation marks, whatever the model: 1 where all are passed on. The paper compares whole prompts, in the tokens of the
generator: that is the metric `tokens`. The seconds of a question are those of its refiner and its generator, models
loaded; in a batch a question has its share of the time, and what was read for another ratio counts with what it took
then. Retrieval is the same for every refiner and is left out.
"""

from collections.abc import Sequence
from typing import ClassVar

from vitalfew.tasks.metrics.base import ANSWER, REFINEMENTS, Case, Column, PerQuestion, Values


class Compression(PerQuestion):
    """Context tokens as a share of the retrieved tokens, seconds of the refiner, and of refiner and generator."""

    version: ClassVar[str] = "2"  # since 2, the processors' seconds

    def columns(self) -> tuple[Column, ...]:
        return (
            Column("context_share", "context share", direction="lower", needs=(REFINEMENTS,)),
            Column("refine_seconds", "refine seconds", "s", "lower", (REFINEMENTS,)),
            Column("refine_cpu_seconds", "refine processor seconds", "s", "lower", (REFINEMENTS,), detail=True),
            Column("total_seconds", "refine and answer seconds", "s", "lower", (REFINEMENTS, ANSWER)),
        )

    def score(self, cases: Sequence[Case]) -> Values:
        return {
            "context_share": [_share(case) for case in cases],
            "refine_seconds": [case.refinement.seconds if case.refinement else None for case in cases],
            "refine_cpu_seconds": [case.refinement.cpu_seconds if case.refinement else None for case in cases],
            "total_seconds": [_seconds(case) for case in cases],
        }


def _share(case: Case) -> float | None:
    """None where nothing was retrieved."""
    done = case.refinement
    return done.output_tokens / done.input_tokens if done and done.input_tokens else None


def _seconds(case: Case) -> float | None:
    return case.refinement.seconds + case.answer.seconds if case.refinement and case.answer else None
