"""`rerank`: a cross-encoder puts the hits in a new order, and top_k or a budget keeps the best.

Nogueira & Cho, 2019 (arXiv 1901.04085). What is scored is what the prompt shows, the title included. Hits of equal
score keep their order. All retrieved hits are scored: retrieve.top_k says among how many the best are looked for.

Published cross-encoders (cross-encoder/ms-marco-MiniLM-L6-v2, BAAI/bge-reranker-base) were not at hand: the loading
code was run with tiny models of their architectures. Without a model, the embedded critic scores.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, ClassVar

from pydantic import ConfigDict

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.configs.options import Scoring
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.refiners.base import Hit, Refined, Vectors
from vitalfew.tasks.refiners.cut import Cut
from vitalfew.tasks.refiners.model import ModelRefiner
from vitalfew.tasks.refiners.scorer import Scorer


class Rerank(ModelRefiner[Scorer]):
    """A cross-encoder scores every hit with the question; the best come first, down to top_k or a budget."""

    class Options(Scoring, RefineConfig):
        model_config = ConfigDict(extra="forbid")

    example: ClassVar[tuple[str, ...]] = ("refine.top_k=5",)
    version: ClassVar[str] = "1"
    role: ClassVar[str] = "scorer"
    cut: Cut

    def __init__(self, options: Any) -> None:
        """Raises FileNotFoundError, UnsupportedModel, CriticUnavailable."""
        super().__init__(options, Scorer(options))
        self.cut = Cut(options)

    def ordered(
        self, questions: Sequence[str], hits: Sequence[Sequence[Hit]], tick: Tick
    ) -> tuple[list[list[tuple[float, Hit]]], int]:
        """Every question's hits with their scores, the best first, and the tokens that were computed."""
        shown = [[hit.shown(self.options) for hit in own] for own in hits]
        scores, tokens = self.model.scores(questions, shown, tick)
        scored = [list(zip(of_own, own, strict=True)) for own, of_own in zip(hits, scores, strict=True)]
        return [sorted(own, key=itemgetter(0), reverse=True) for own in scored], tokens

    def refine(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        vectors: Vectors | None = None,
        tick: Tick = no_tick,
    ) -> Refined:
        ordered, tokens = self.ordered(questions, hits, tick)
        kept = [[hit for _, hit in own] for own in ordered]
        return Refined(self.cut.refine(questions, kept).contexts, tokens)
