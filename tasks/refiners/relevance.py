"""`relevance`: an evaluator rates every hit, the irrelevant ones are dropped, and the best come first (CRAG's filter).

Corrective RAG (Yan et al., 2024, arXiv 2401.15884, section 4.2), as Sparse RAG compares with it (arXiv 2405.16178,
section 5.2): the evaluator decides which hits are passed on and their order; there is no web search, and hits are not
cut into strips. The published evaluator, a T5-large, gives -1 to 1 (models/small/evaluator.py), which is read as 0 to
1: the default threshold is its zero, by whose sign the authors tell relevant from not. Any cross-encoder can take its
place; without a model, the embedded critic's ISREL rates.

Sparse RAG's threshold for CRAG is not given. Where fewer hits than refine.at_least pass, the best are passed on all the
same, as generator `sparse_rag` does.
"""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import ConfigDict, Field

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.configs.options import Keeping, Scoring
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.refiners.base import Hit, Refined, Vectors
from vitalfew.tasks.refiners.rerank import Rerank


class Relevance(Rerank):
    """An evaluator rates every hit and drops those below a threshold; the best come first (CRAG)."""

    class Options(Scoring, Keeping, RefineConfig):
        model_config = ConfigDict(extra="forbid")

        threshold: float = Field(0.5, ge=0, le=1, description="Lowest score of a hit to keep.")

    example: ClassVar[tuple[str, ...]] = ("refine.threshold=0.3",)
    version: ClassVar[str] = "1"

    def refine(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        vectors: Vectors | None = None,
        tick: Tick = no_tick,
    ) -> Refined:
        ordered, tokens = self.ordered(questions, hits, tick)
        passing = [sum(score >= self.options.threshold for score, _ in of_own) for of_own in ordered]
        kept = [
            [hit for _, hit in of_own[: max(count, self.options.at_least)]]
            for of_own, count in zip(ordered, passing, strict=True)
        ]
        notes = {"hits": sum(map(len, hits)), "passed": sum(passing)}
        return Refined(self.cut.refine(questions, kept).contexts, tokens, notes)
