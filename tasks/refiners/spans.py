"""`spans`: from single sentences to whole passages, whichever a question needs.

The second half of a method made here; the retriever `spans` is the first. Its hits are candidates with
scores, whose softmax is the probability p that a sentence is the one that answers. Sentences are taken one by one, by
the largest p / cost^gamma under the budget. The cost is what a sentence adds to the prompt, in tokens (words and
punctuation marks): the first of a passage its title and itself, one beside a sentence that was taken only itself, any
other itself and a mark for the gap. A sentence that is taken lends its neighbours `neighbours` times its p, so that
sentences grow into windows, and windows into whole passages, where the question needs them.

It ends when the p of what was taken sum to `stop`: a question whose answer is sure takes few tokens. The budget is a
bound, not a target. The first sentence that does not fit is cut. A question with hits always gets a context.

A passage is one context, at the place where its first sentence was taken: its title once, its sentences in reading
order, neighbours as they stand in the passage, gaps as " … ". Its score is ln P(passage): the logarithm of the sum of
the p of all of its candidates, also of those that were not taken.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, model_validator

from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.refiners.base import Evidence, Hit, Refined, Refiner, Retrieved, Vectors, merged
from vitalfew.tasks.splitters.tokens import count_tokens, count_words, first

GAP = " … "
Floats = NDArray[np.float64]


class SpanRefiner(Refiner):
    """Sentences, windows or whole passages: the likeliest sentences per token, until they are enough."""

    class Options(Refiner.Options):
        model_config = ConfigDict(extra="forbid")

        gamma: float = Field(
            0.5, ge=0, le=1, description="Power of a sentence's cost that its probability is divided by."
        )
        neighbours: float = Field(
            0.3, ge=0, le=1, description="Share of a taken sentence's probability that its neighbours get."
        )
        stop: float = Field(
            0.97,
            gt=0,
            le=1,
            description="Sum of probabilities at which no more is taken; 1: as much as the budget holds.",
        )
        sharpness: float = Field(
            1, gt=0, description="Factor of the scores before the softmax: 1 for retriever spans, about 20 for cosines."
        )

        @model_validator(mode="after")
        def _has_one_measure(self) -> Self:
            if self.max_words is not None and self.max_tokens is not None:
                raise ValueError("give max_tokens or max_words, not both: a sentence has one cost")
            return self

    version: ClassVar[str] = "1"

    def refine(
        self, questions: Sequence[str], hits: Retrieved, vectors: Vectors | None = None, tick: Tick = no_tick
    ) -> Refined:
        made = []
        for own in hits:
            made.append(self._contexts(own))
            tick(1, 0)
        return Refined(made)

    def _contexts(self, hits: Sequence[Hit]) -> list[Evidence]:
        known = [hit for hit in dict.fromkeys(hits) if hit.text.strip()]
        taken: dict[int, list[Hit]] = {}
        for hit in _Selection(known, self.options).taken():
            taken.setdefault(hit.passage_id, []).append(hit)
        scores = passage_scores(known, self.options.sharpness)
        return [
            _context(sorted(own, key=lambda hit: hit.start), self.options, scores[passage])
            for passage, own in taken.items()
        ]


class _Selection:
    """The greedy choice among a question's hits."""

    def __init__(self, hits: Sequence[Hit], options: Any) -> None:
        self.hits, self.options = hits, options
        self.measure = count_tokens if options.max_words is None else count_words
        self.budget = options.max_tokens if options.max_words is None else options.max_words
        self.own = np.array([self.measure(hit.text) for hit in hits], float)
        self.labels = [hit.label(options) for hit in hits]
        self.cost = self.own + [self.measure(label) for label in self.labels]
        self.passages = np.array([hit.passage_id for hit in hits])
        self.value = softmax(np.array([hit.score for hit in hits]) * options.sharpness)
        self.beside = _neighbours(hits)

    def taken(self) -> list[Hit]:
        """The hits in the order in which they are taken; the last may be cut."""
        chosen: list[Hit] = []
        free = np.ones(len(self.hits), bool)
        likelihood, value, cost, left, due = (
            self.value,
            self.value.copy(),
            self.cost.copy(),
            self.budget,
            self.options.stop,
        )
        most = self.options.top_k or len(self.hits)
        while free.any() and len(chosen) < most and (due > 0 or not chosen):
            place = int(np.where(free, value / np.maximum(cost, 1) ** self.options.gamma, -1.0).argmax())
            hit, price = self.hits[place], cost[place]
            if left is not None and price > left:
                if part := self._cut(hit, left, chosen):
                    chosen.append(part)
                break
            chosen.append(hit)
            free[place] = False
            left = None if left is None else left - price
            due -= likelihood[place] if self.options.stop < 1 else 0.0
            cost = np.where(self.passages == hit.passage_id, np.minimum(cost, self.own + 1), cost)
            for other in self.beside[place]:
                cost[other] = self.own[other]
                value[other] += self.options.neighbours * likelihood[place]
        return chosen

    def _cut(self, hit: Hit, left: float, chosen: Sequence[Hit]) -> Hit | None:
        """The start of a hit that fits; of the very first at least a word, without its title if need be."""
        beside = [other for other in chosen if other.passage_id == hit.passage_id]
        follows = any(other.end == hit.start for other in beside)
        gaps = (not follows and any(other.start < hit.start for other in beside)) + any(
            other.start > hit.start for other in beside
        )
        title, room = hit.title, int(left - (gaps if beside else self.measure(hit.label(self.options))))
        if room < 1 and not chosen:
            title, room = "", int(left)
        limits = (None, room) if self.options.max_words is None else (room, None)
        text = first(hit.text, *limits) if room >= 1 else ""
        if not text.strip():
            return None
        end = hit.start + len(text) if hit.start < hit.end else hit.end
        return Hit(title, text, hit.passage_id, hit.start, end, score=hit.score)


def softmax(scores: Floats) -> Floats:
    """Probabilities in proportion to the exponentials of scores, (n,)."""
    if not len(scores):
        return scores
    powers = np.exp(scores - scores.max())
    whole: Floats = powers / powers.sum()
    return whole


def passage_scores(hits: Sequence[Hit], sharpness: float) -> dict[int, float]:
    """ln P(passage) by passage id: the logarithm of the sum of the probabilities of its hits, finite however small."""
    scores = np.array([hit.score for hit in hits], float) * sharpness
    passages = np.array([hit.passage_id for hit in hits], np.int64)
    whole = np.logaddexp.reduce(scores)
    return {int(each): float(np.logaddexp.reduce(scores[passages == each]) - whole) for each in np.unique(passages)}


def _neighbours(hits: Sequence[Hit]) -> list[list[int]]:
    """For every hit, the places of those that stand next to it in its passage."""
    starts = {(hit.passage_id, hit.start): place for place, hit in enumerate(hits) if hit.start < hit.end}
    beside: list[list[int]] = [[] for _ in hits]
    for place, hit in enumerate(hits):
        following = starts.get((hit.passage_id, hit.end))
        if hit.start < hit.end and following is not None:
            beside[place].append(following)
            beside[following].append(place)
    return beside


def _context(taken: Sequence[Hit], options: Any, score: float) -> Evidence:
    """One passage's sentences in reading order."""
    text, last = "", None
    for hit in taken:
        text = hit.text if last is None else text + hit.text if hit.start == last else f"{text.rstrip()}{GAP}{hit.text}"
        last = hit.end
    shown = taken[0].label(options) + text.strip()
    origin = tuple((taken[0].passage_id, *span) for span in merged((hit.start, hit.end) for hit in taken))
    return Evidence(shown, count_tokens(shown), origin, score)
