"""`crag`: an evaluator judges what was retrieved, and where that is of use keeps the best strips of it (CRAG).

Corrective RAG (Yan et al., 2024, arXiv 2401.15884):

- Sections 4.2 and 4.3: the evaluator rates every hit. A question is correct if one of its hits reaches the upper
  threshold, incorrect if none reaches the lower one, else ambiguous.
- Section 4.4: the hits of a correct or ambiguous question are cut into strips, the same evaluator rates these, and the
  best of those that reach a threshold are kept, in the order of the hits.

The paper's T5-large gives -1 to 1 (models/small/evaluator.py), which is read as 0 to 1. Its settings, so read: 0.795
(0.59) and 0.005 (-0.99) are PopQA's thresholds; PubHealth and ARC-Challenge have 0.75 and 0.045, Biography 0.975 and
0.045. Strips need 0.25 (-0.5), and the best 5 are kept (its appendix). Any cross-encoder can take the T5's place;
without a model, the embedded critic's ISREL rates. Their scales are others, so that other thresholds may suit them.

Deviations: there is no web search, which the paper takes for incorrect questions alone and for ambiguous ones too; an
incorrect question is answered without contexts, and so is one of whose strips none is kept, unless refine.at_least says
otherwise. A strip is three sentences of the index, as in the authors' code, which moreover adds sentences of up to five
words to the one before, and drops strips of fewer than four; so a hit of one or two sentences is one strip, as the
paper has it. The authors join strips by score, here they stand in the order of the hits, as section 4.4 has it. Where a
budget is set, and no number of strips, as many are taken as it holds, the best first.

`relevance` is the first half alone: hits are dropped, and none is cut.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import ClassVar, Self

from pydantic import ConfigDict, Field, model_validator

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.configs.options import Scoring
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.refiners.base import Hit, Refined, Vectors
from vitalfew.tasks.refiners.model import ModelRefiner
from vitalfew.tasks.refiners.scorer import Scorer
from vitalfew.tasks.refiners.sentences import Sentence, contexts, sentences

CORRECT, AMBIGUOUS, INCORRECT = ACTIONS = ("correct", "ambiguous", "incorrect")
STRIPS = 5
Rated = tuple[float, Sentence]
"""A strip with its score before it."""


class Crag(ModelRefiner[Scorer]):
    """An evaluator decides if the hits are useful at all, and keeps their useful strips (CRAG)."""

    class Options(Scoring, RefineConfig):
        model_config = ConfigDict(extra="forbid")

        upper: float = Field(
            0.795,
            ge=0,
            le=1,
            description="Score that one hit must reach for a question to be correct (for PopQA: 0.59).",
        )
        lower: float = Field(
            0.005,
            ge=0,
            le=1,
            description="Score below which all hits must be for a question to be incorrect (for PopQA: -0.99).",
        )
        strip_sentences: int = Field(3, ge=1, description="Sentences per strip.")
        strip_threshold: float = Field(
            0.25, ge=0, le=1, description="Lowest score of a strip to keep (in the paper: -0.5)."
        )
        strips: int | None = Field(
            None,
            ge=1,
            description="Maximum number of strips to keep. Default: 5; with max_words or max_tokens, as many as "
            "these allow.",
        )
        at_least: int = Field(0, ge=0, description="Number of best strips to keep in any case.")

        @model_validator(mode="after")
        def _ordered(self) -> Self:
            if self.lower > self.upper:
                raise ValueError(f"lower must be at most upper, got lower={self.lower} and upper={self.upper}")
            if self.at_least > (self.strips or self.at_least):
                raise ValueError(
                    f"at_least must be at most strips, got at_least={self.at_least} and strips={self.strips}"
                )
            return self

    example: ClassVar[tuple[str, ...]] = ("refine.upper=0.5", "refine.lower=0.1")
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
        read = [[hit for hit in own[: self.options.top_k] if hit.text.strip()] for own in hits]
        shown = [[hit.shown(self.options) for hit in own] for own in read]
        scores, of_hits = self.model.scores(questions, shown, lambda _, tokens: tick(0, tokens))
        actions = [self._action(own) for own in scores]
        strips = [self._strips(own, action) for own, action in zip(read, actions, strict=True)]
        known = [dict(zip(texts, own, strict=True)) for texts, own in zip(shown, scores, strict=True)]
        rated, of_strips = self._rated(questions, read, strips, known, tick)
        kept = [self._kept(own, action) for own, action in zip(rated, actions, strict=True)]
        made = [contexts(own, of_own, self.options) for own, of_own in zip(read, kept, strict=True)]
        notes = {action: actions.count(action) for action in ACTIONS}
        notes |= {"strips": sum(map(len, strips)), "passed": sum(map(len, kept))}
        return Refined(made, of_hits + of_strips, notes | {"empty": sum(not each for each in made)})

    def _action(self, scores: Sequence[float]) -> str:
        best = max(scores, default=-1.0)  # without hits there is nothing of use
        if best >= self.options.upper:
            return CORRECT
        return AMBIGUOUS if best >= self.options.lower else INCORRECT

    def _strips(self, hits: Sequence[Hit], action: str) -> list[Sentence]:
        """The strips of a question's hits, in their order; none where none would be kept."""
        if action == INCORRECT and not self.options.at_least:
            return []
        size = self.options.strip_sentences
        strips = []
        for number, hit in enumerate(hits):
            own = [each for each in sentences(hit, number) if each.text.strip()]
            strips += [_joined(hit, own[start : start + size]) for start in range(0, len(own), size)]
        return strips

    def _rated(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        strips: Sequence[Sequence[Sentence]],
        known: Sequence[Mapping[str, float]],
        tick: Tick,
    ) -> tuple[list[list[Rated]], int]:
        """Every question's strips with their scores, and the tokens computed. `known`: the scores of its hits, of which
        a short one is its own strip."""
        texts = [
            [own[strip.hit].label(self.options) + strip.text.strip() for strip in of_own]
            for own, of_own in zip(hits, strips, strict=True)
        ]
        new = [[text for text in own if text not in told] for own, told in zip(texts, known, strict=True)]
        found, tokens = self.model.scores(questions, new, tick)
        scores = [
            {**told, **dict(zip(asked, own, strict=True))} for told, asked, own in zip(known, new, found, strict=True)
        ]
        rated = [
            [(told[text], strip) for text, strip in zip(own, of_own, strict=True)]
            for told, own, of_own in zip(scores, texts, strips, strict=True)
        ]
        return rated, tokens

    def _kept(self, rated: Sequence[Rated], action: str) -> list[Sentence]:
        """The strips of a question that are kept, the best first."""
        passing = 0 if action == INCORRECT else sum(score >= self.options.strip_threshold for score, _ in rated)
        most = self.options.strips or (passing if self.options.has_budget else STRIPS)
        best = sorted(rated, key=itemgetter(0), reverse=True)
        return [strip for _, strip in best[: max(min(passing, most), self.options.at_least)]]


def _joined(hit: Hit, parts: Sequence[Sentence]) -> Sentence:
    """Sentences of a hit that follow one another, and what stands between them, as one."""
    if len(parts) == 1:
        return parts[0]
    start, end = parts[0].span[0], parts[-1].span[1]
    return Sentence(parts[0].hit, (start, end), hit.text[start - hit.start : end - hit.start])
