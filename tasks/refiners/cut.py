"""`cut`: the best hits as they are, down to a number of them or a budget, for comparisons at equal input.

ParetoRAG compares at 400 words (arXiv 2502.08178, figures 4 and 5). A hit that exceeds the budget is cut at the
end of a word, and no later hit is passed on; the origin of the cut hit is the remaining part. A proposition has no
origin.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import ConfigDict

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.refiners.base import Evidence, Hit, Refined, Vectors
from vitalfew.tasks.splitters.tokens import count_tokens, count_words, first


class Cut:
    """The best hits, unchanged, down to top_k, max_words or max_tokens."""

    class Options(RefineConfig):
        model_config = ConfigDict(extra="forbid")

    version: ClassVar[str] = "2"
    uses_gpu = False
    workers = None
    needs_vectors = False
    needs_sentences = False

    def __init__(self, options: RefineConfig) -> None:
        self.options = options

    def identity(self) -> dict[str, Any]:
        return {"class": type(self).__name__, "version": self.version}

    def refine(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        vectors: Vectors | None = None,
        tick: Tick = no_tick,
    ) -> Refined:
        tick(len(questions), 0)
        return Refined([self._cut(question_hits) for question_hits in hits])

    def _cut(self, hits: Sequence[Hit]) -> list[Evidence]:
        contexts = []
        words, tokens = self.options.max_words, self.options.max_tokens
        for hit in hits[: self.options.top_k]:
            label = hit.label(self.options)
            text = hit.text.strip()
            shown = first(label + text, words, tokens)
            if len(shown) > len(label):
                start = hit.start + hit.text.index(text)
                origin = (hit.passage_id, start, start + len(shown) - len(label))
                contexts.append(Evidence(shown, count_tokens(shown), (origin,) if hit.start < hit.end else ()))
            words = None if words is None else words - count_words(shown)
            tokens = None if tokens is None else tokens - count_tokens(shown)
            if len(shown) < len(label + text):
                break
        return contexts
