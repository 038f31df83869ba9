"""`relevance`: an evaluator rates every hit, the irrelevant ones are dropped, and the best come first (CRAG's filter).

Corrective RAG (Yan et al., 2024, arXiv 2401.15884, section 4.2), as Sparse RAG compares with it (arXiv 2405.16178,
section 5.2): the evaluator decides which hits are passed on and their order; there is no web search, and hits are not
cut into strips. The published evaluator, a T5-large, gives -1 to 1 (tasks/models/evaluator.py), which is read as 0 to
1: the default threshold is its zero, by whose sign the authors tell relevant from not. Any cross-encoder can take its
place; without a model, the embedded critic's ISREL rates.

Sparse RAG's threshold for CRAG is not given. Where fewer hits than refine.at_least pass, the best are passed on all the
same, as generator `sparse_rag` does.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import ConfigDict, Field

from configs.evaluation import RefineConfig
from configs.options import Keeping, Scoring
from tasks.refiners.base import Hit, Refined, Tick, Vectors, no_tick
from tasks.refiners.cut import Cut
from tasks.refiners.scorer import Scorer


class Relevance:
    """An evaluator rates each hit; those under a threshold are dropped, the best of the others come first (CRAG)."""

    class Options(Scoring, Keeping, RefineConfig):
        model_config = ConfigDict(extra="forbid")

        threshold: float = Field(0.5, ge=0, le=1, description="Hits of a lower score are dropped.")

    example: ClassVar[tuple[str, ...]] = ("refine.threshold=0.3",)
    version: ClassVar[str] = "1"
    needs_vectors = False
    needs_sentences = False

    def __init__(self, options: Options) -> None:
        """Raises FileNotFoundError, UnsupportedModel, CriticUnavailable."""
        self.options = options
        self.scorer, self.cut = Scorer(options), Cut(options)
        self.uses_gpu = self.scorer.uses_gpu
        self.workers = self.scorer.workers

    def identity(self) -> dict[str, Any]:
        own = {"class": type(self).__name__, "version": self.version, "cut": self.cut.identity()}
        return {**own, "scorer": self.scorer.identity()}

    def refine(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        vectors: Vectors | None = None,
        tick: Tick = no_tick,
    ) -> Refined:
        shown = [[hit.label(self.options) + hit.text.strip() for hit in own] for own in hits]
        scores, tokens = self.scorer.scores(questions, shown, tick)
        kept, passed = [], 0
        for own, scored in zip(hits, scores, strict=True):
            order = sorted(range(len(own)), key=scored.__getitem__, reverse=True)
            passing = sum(score >= self.options.threshold for score in scored)
            kept.append([own[place] for place in order[: max(passing, self.options.at_least)]])
            passed += passing
        notes = {"hits": sum(map(len, hits)), "passed": passed}
        return Refined(self.cut.refine(questions, kept).contexts, tokens, notes)
