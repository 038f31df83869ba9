"""`rerank`, `relevance`, `dslr` and `crag`: refiners that score texts with the question, from 0 to 1.

A cross-encoder scores, or where none is named the embedded critic's ISREL (tasks/raters/embedded.py), which costs no
download. Published cross-encoders (cross-encoder/ms-marco-MiniLM-L6-v2, BAAI/bge-reranker-base) were not at hand: tests
use tiny models. CRAG's published evaluator, a T5-large, gives -1 to 1 (models/small/pairs.py), read as 0 to 1.

`rerank` (Nogueira & Cho, 2019, arXiv 1901.04085) scores all retrieved hits as the prompt shows them, and top_k or a
budget keeps the best. Hits of equal score keep their order. A context's score is the new one.

`relevance` is CRAG's filter alone (Yan et al., 2024, arXiv 2401.15884, section 4.2), as Sparse RAG compares with it
(arXiv 2405.16178, section 5.2): the evaluator decides which hits are passed on and their order; there is no web
search, and hits are not cut into strips. The default threshold is the zero of CRAG's evaluator; Sparse RAG's is not
given. Where fewer hits than refine.at_least pass, the best are passed on all the same.

`dslr` (Hwang et al., 2024, arXiv 2407.03627): a passage is cut into sentences, all are scored with the question, those
under a threshold are dropped, and the rest are in their original order. Here the sentences are the index's, scored as
the prompt shows them, and top_k hits are read. The threshold's default is half of the scale, not the paper's. The paper
has no budget: where one is set, and no threshold, the best-scored that it takes are kept. A question of whose sentences
none passes is answered without contexts.

`crag`, Corrective RAG (arXiv 2401.15884), judges what was retrieved, and where that is of use keeps the best strips:

- Sections 4.2 and 4.3: the evaluator rates every hit. A question is correct if one of its hits reaches the upper
  threshold, incorrect if none reaches the lower one, else ambiguous.
- Section 4.4: the hits of a correct or ambiguous question are cut into strips, the same evaluator rates these, and the
  best of those that reach a threshold are kept, in the order of the hits.

The paper's settings, read as 0 to 1: 0.795 (0.59) and 0.005 (-0.99) are PopQA's thresholds; PubHealth and ARC-Challenge
have 0.75 and 0.045, Biography 0.975 and 0.045. Strips need 0.25 (-0.5), and the best 5 are kept (its appendix). Other
scorers have other scales, for which other thresholds may suit.

Deviations: there is no web search, which the paper takes for incorrect and ambiguous questions; an incorrect question
is answered without contexts, and so is one of whose strips none is kept, unless refine.at_least says otherwise. A strip
is three sentences of the index, as in the authors' code, which moreover adds sentences of up to five words to the one
before, and drops strips of fewer than four; a hit of one or two sentences is one strip, as in the paper. The authors
join strips by score, here they are in the order of the hits, as section 4.4 has it. Where a budget is set, and no
number of strips, as many are taken as it holds, the best first.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from vitalfew.configs.options import Keeping, Scoring
from vitalfew.tasks.models.readings import settled
from vitalfew.tasks.models.small.pairs import CrossEncoder, Pair, cross_encoder
from vitalfew.tasks.models.ticks import Tick, no_tick, tokens_of
from vitalfew.tasks.raters.embedded import Embedded
from vitalfew.tasks.refiners.base import Hit, ModelRefiner, Refined, Refiner, Retrieved, Vectors, answered
from vitalfew.tasks.refiners.sentences import Scored, Sentence, SentenceRefiner, contexts, ranked, sentences, shown
from vitalfew.tasks.refiners.whole_hits import Cut

CORRECT, AMBIGUOUS, INCORRECT = ACTIONS = ("correct", "ambiguous", "incorrect")
STRIPS = 5


class Scorer:
    """A cross-encoder or the embedded critic; the first pair loads it."""

    def __init__(self, options: Scoring) -> None:
        """Raises FileNotFoundError, UnsupportedModel, RaterUnavailable."""
        self.model: CrossEncoder | Embedded
        if options.model is None:
            computing = options.model_dump(include={"device", "precision", "batch_tokens"})
            self.model = Embedded(Embedded.Options(critic="embedded", **computing))
        else:
            self.model = cross_encoder(options.model, options, "refine")
        self.uses_gpu, self.workers = self.model.uses_gpu, self.model.workers

    def identity(self) -> dict[str, Any]:
        return self.model.identity()

    def read(self, pairs: Sequence[Pair], tick: Tick) -> list[float]:
        """The score of every pair of a question and a text."""
        if isinstance(self.model, Embedded):
            return self.model.relevance(pairs, tick)
        return [self.model.relevance(reading.score) for reading in self.model.read(pairs, tick)]


def _pairs(questions: Sequence[str], texts: Sequence[Sequence[str]]) -> list[list[Pair]]:
    return [[(question, text) for text in own] for question, own in zip(questions, texts, strict=True)]


class ScoringRefiner(ModelRefiner):
    """Base of refiners that score texts with the question."""

    role: ClassVar[str] = "scorer"

    def __init__(self, options: Any) -> None:
        """Raises FileNotFoundError, UnsupportedModel, RaterUnavailable."""
        super().__init__(options, Scorer(options))


class Rerank(ScoringRefiner):
    """A cross-encoder scores every hit with the question; the best come first, down to top_k or a budget."""

    class Options(Scoring, Refiner.Options):
        pass

    example: ClassVar[tuple[str, ...]] = ("refine.top_k=5",)
    cut: Cut

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.cut = Cut(options)

    def refine(
        self, questions: Sequence[str], hits: Retrieved, vectors: Vectors | None = None, tick: Tick = no_tick
    ) -> Refined:
        pairs = _pairs(questions, [[hit.shown(self.options) for hit in own] for own in hits])
        scores, tokens = answered(pairs, self.model.read, tick)
        # Rounded: a score's last bits depend on what else was read.
        exact = np.array([scores[pair] for own in pairs for pair in own], np.float32)
        rounded = iter(settled(exact).tolist())
        best = [
            ranked((scores[pair], replace(hit, score=next(rounded))) for pair, hit in zip(of_own, own, strict=True))
            for of_own, own in zip(pairs, hits, strict=True)
        ]
        kept = [[hit for _, hit in own[: self.most(own)]] for own in best]
        return Refined(self.cut.refine(questions, kept).contexts, tokens, self.notes(best))

    def most(self, scored: Sequence[tuple[float, Hit]]) -> int | None:
        """The number of hits to pass on, of those of a question, the best first."""
        return None

    def notes(self, scored: Sequence[Sequence[tuple[float, Hit]]]) -> dict[str, int]:
        """Counts for the manifest."""
        return {}


class Relevance(Rerank):
    """An evaluator rates every hit and drops those below a threshold; the best come first (CRAG)."""

    class Options(Scoring, Keeping, Refiner.Options):
        threshold: float = Field(0.5, ge=0, le=1, description="Lowest score of a hit to keep.")

    example: ClassVar[tuple[str, ...]] = ("refine.threshold=0.3",)

    def passing(self, scored: Sequence[tuple[float, Hit]]) -> int:
        return sum(score >= self.options.threshold for score, _ in scored)

    def most(self, scored: Sequence[tuple[float, Hit]]) -> int | None:
        return max(self.passing(scored), self.options.at_least)

    def notes(self, scored: Sequence[Sequence[tuple[float, Hit]]]) -> dict[str, int]:
        return {"hits": sum(map(len, scored)), "passed": sum(map(self.passing, scored))}


class Dslr(ScoringRefiner, SentenceRefiner):
    """A cross-encoder drops the sentences of the hits below a threshold; the others keep their order (DSLR)."""

    class Options(Scoring, Refiner.Options):
        threshold: float | None = Field(
            None,
            ge=0,
            le=1,
            description="Lowest score of a sentence to keep. Default: 0.5, or none if a budget is set.",
        )

    example: ClassVar[tuple[str, ...]] = ("refine.threshold=0.1",)
    natural = 0.5
    reads_blanks = True

    def requests(self, question: str, hits: Sequence[Hit], units: Sequence[Sentence]) -> list[Pair]:
        return [(question, text) for text in shown(hits, units, self.options)]


class Crag(ScoringRefiner):
    """An evaluator decides if the hits are useful at all, and keeps their useful strips (CRAG)."""

    class Options(Scoring, Refiner.Options):
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
            description="A question counts as incorrect if all of its hits score below this (for PopQA: -0.99).",
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
    needs_sentences = True

    def refine(
        self, questions: Sequence[str], hits: Retrieved, vectors: Vectors | None = None, tick: Tick = no_tick
    ) -> Refined:
        read = [[hit for hit in own[: self.options.top_k] if hit.text.strip()] for own in hits]
        pairs = _pairs(questions, [[hit.shown(self.options) for hit in own] for own in read])
        scores, of_hits = answered(pairs, self.model.read, tokens_of(tick))
        actions = [self._action([scores[pair] for pair in own]) for own in pairs]
        strips = [self._strips(own, action) for own, action in zip(read, actions, strict=True)]
        pairs = _pairs(questions, [shown(*of_question, self.options) for of_question in zip(read, strips, strict=True)])
        due = [[pair for pair in own if pair not in scores] for own in pairs]  # a short hit is one strip
        new, of_strips = answered(due, self.model.read, tick)
        scores |= new
        kept = [
            self._kept([(scores[pair], strip) for pair, strip in zip(own, of_own, strict=True)], action)
            for own, of_own, action in zip(pairs, strips, actions, strict=True)
        ]
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

    def _kept(self, rated: Sequence[Scored], action: str) -> list[Sentence]:
        """The strips of a question that are kept, the best first."""
        passing = 0 if action == INCORRECT else sum(score >= self.options.strip_threshold for score, _ in rated)
        most = self.options.strips or (passing if self.options.has_budget else STRIPS)
        return [strip for _, strip in ranked(rated)[: max(min(passing, most), self.options.at_least)]]


def _joined(hit: Hit, parts: Sequence[Sentence]) -> Sentence:
    """Join sentences of a hit that follow one another, with the text between them."""
    if len(parts) == 1:
        return parts[0]
    start, end = parts[0].span[0], parts[-1].span[1]
    return Sentence(parts[0].hit, (start, end), hit.text[start - hit.start : end - hit.start])
