"""`gold`: of the hits those of the question's gold passages, as the data set says: an upper bound of every filter.

Sparse RAG's gold labels in the place of its own ratings (arXiv 2405.16178, table 10): what perfect assessment of what
was retrieved would come to. A gold passage that was not retrieved is not passed on. Where none was, and where the data
set names none, the best hits are passed on as they are, refine.at_least of them.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import ConfigDict

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.configs.options import Keeping
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.refiners.base import Hit, Refined, Vectors
from vitalfew.tasks.refiners.cut import Cut


class Gold:
    """Only the hits from the question's gold passages, as the data set marks them: an upper bound, not a method."""

    class Options(Keeping, RefineConfig):
        model_config = ConfigDict(extra="forbid")

    version: ClassVar[str] = "1"
    uses_gpu = False
    workers = None
    needs_vectors = False
    needs_sentences = False

    def __init__(self, options: Options) -> None:
        self.options, self.cut = options, Cut(options)

    def identity(self) -> dict[str, Any]:
        return {"class": type(self).__name__, "version": self.version, "cut": self.cut.identity()}

    def refine(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        vectors: Vectors | None = None,
        tick: Tick = no_tick,
    ) -> Refined:
        gold = [[hit for hit in own if hit.is_gold] for own in hits]
        kept = [of_own or own[: self.options.at_least] for own, of_own in zip(hits, gold, strict=True)]
        notes = {"without_gold": sum(not of_own for of_own in gold)}
        return Refined(self.cut.refine(questions, kept, tick=tick).contexts, notes=notes)
