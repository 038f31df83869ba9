"""`dslr`: sentences of the hits that a cross-encoder finds irrelevant are dropped, the others put together again.

DSLR (Hwang et al., 2024, arXiv 2407.03627): a passage is cut into sentences, each is scored with the question, those
under a threshold are dropped, and the rest stand in their original order. Here the sentences are the index's, a
sentence is scored as the prompt shows it, with its passage's title, and top_k hits are read. The scorer is any
cross-encoder, or the embedded critic, and the threshold's default is half of the scale, not the paper's.

The paper has no budget. Where one is set, no threshold drops a sentence unless it is set too, and the best-scored that
the budget takes are kept. A question of whose sentences none passes is answered without contexts.
"""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import ConfigDict, Field

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.configs.options import Scoring
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.refiners.base import Hit, Refined, Vectors
from vitalfew.tasks.refiners.model import ModelRefiner
from vitalfew.tasks.refiners.scorer import Scorer
from vitalfew.tasks.refiners.sentences import contexts, sentences

NATURAL = 0.5
"""The threshold where neither it nor a budget is set."""


class Dslr(ModelRefiner[Scorer]):
    """A cross-encoder drops the sentences of the hits below a threshold; the others keep their order (DSLR)."""

    class Options(Scoring, RefineConfig):
        model_config = ConfigDict(extra="forbid")

        threshold: float | None = Field(
            None,
            ge=0,
            le=1,
            description="Lowest score of a sentence to keep. Default: 0.5, or none if a budget is set.",
        )

    example: ClassVar[tuple[str, ...]] = ("refine.threshold=0.1",)
    version: ClassVar[str] = "1"
    role: ClassVar[str] = "scorer"
    needs_sentences = True
    options: Options

    def __init__(self, options: Options) -> None:
        """Raises FileNotFoundError, UnsupportedModel, CriticUnavailable."""
        super().__init__(options, Scorer(options))

    def refine(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        vectors: Vectors | None = None,
        tick: Tick = no_tick,
    ) -> Refined:
        read = [own[: self.options.top_k] for own in hits]
        cut = [[each for number, hit in enumerate(own) for each in sentences(hit, number)] for own in read]
        shown = [
            [own[each.hit].label(self.options) + each.text.strip() for each in of_own]
            for own, of_own in zip(read, cut, strict=True)
        ]
        scores, tokens = self.model.scores(questions, shown, tick)
        made, passed = [], 0
        threshold = self.options.threshold
        if threshold is None:
            threshold = 0.0 if self.options.has_budget else NATURAL
        for own, of_own, scored in zip(read, cut, scores, strict=True):
            order = sorted(range(len(of_own)), key=scored.__getitem__, reverse=True)
            kept = [of_own[place] for place in order if scored[place] >= threshold]
            passed += len(kept)
            made.append(contexts(own, kept, self.options))
        notes = {"sentences": sum(map(len, cut)), "passed": passed, "empty": sum(not each for each in made)}
        return Refined(made, tokens, notes)
