"""`spans`: from single sentences to whole passages, whichever a question needs.

The second half of a method made here; the retriever `spans` is the first. Hits are candidates: the softmax of their
likelihoods, on the scale of the retriever that scored them, is the probability p that one is the one that answers.
Another retriever's are sentences or whole passages, and what is said of a sentence here holds of either. Sentences are
taken one by one, by the largest p / cost^gamma under the budget. The cost is what a sentence adds to the prompt, in
tokens (words and punctuation marks): the first of a passage its title and itself, one beside a sentence that was taken
only itself, any other itself and a mark for the gap. A sentence that is taken lends its neighbours `neighbours` times
its p, so that sentences grow into windows, and windows into whole passages, where the question needs them.

It ends when the p of what was taken sum to `stop`: a question whose answer is sure takes few tokens. The budget is a
bound, not a target. The first sentence that does not fit is cut. A question with hits always gets a context.

A passage is one context, at the place where its first sentence was taken: its title once, its sentences in reading
order, neighbours as they are in the passage, gaps as " … ". Its score is ln P(passage): the logarithm of the sum of
the p of all of its candidates, also of those that were not taken.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.refiners.base import STOPPED, Context, Contexts, Hit, Refined, Refiner, Retrieved, Vectors
from vitalfew.tasks.splitters.tokens import count_tokens, count_words

Floats = NDArray[np.float64]


class SpanRefiner(Refiner):
    """Sentences, windows or whole passages: the likeliest sentences per token, until they are enough."""

    class Options(Refiner.Options, extra="forbid"):
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

        @model_validator(mode="after")
        def _has_one_measure(self) -> Self:
            if self.max_words is not None and self.max_tokens is not None:
                raise ValueError("give max_tokens or max_words, not both: a sentence has one cost")
            return self

    version: ClassVar[str] = "2"  # since 2, hits are as likely as their retriever says
    compares_scores = True

    def refine(
        self, questions: Sequence[str], hits: Retrieved, vectors: Vectors | None = None, tick: Tick = no_tick
    ) -> Refined:
        made, stopped = [], 0
        for own in hits:
            contexts, sure = self._contexts([hit for hit in dict.fromkeys(own) if hit.text.strip()])
            made.append(contexts)
            stopped += sure
            tick(1, 0)
        return Refined(made, notes={STOPPED: stopped})

    def _contexts(self, hits: Sequence[Hit]) -> tuple[list[Context], bool]:
        """A question's contexts, and whether they were sure enough before the budget was used up."""
        scores, made, sure = passage_scores(hits), Contexts(self.options), False
        for place, enough in _order(hits, self.options):
            hit = replace(hits[place], score=scores[hits[place].passage_id], log_likelihood=None)
            if made.add(hit, place):
                sure = enough
                continue
            if not made.parts:  # not even its title fits
                made = Contexts(self.options)
                made.add(replace(hit, title=""), place)
            return made.made(), False
        return made.made(), sure


def _order(hits: Sequence[Hit], options: Any) -> Iterator[tuple[int, bool]]:
    """The places of hits in the order in which they are taken, and whether these are enough without the others."""
    measure = count_tokens if options.max_words is None else count_words
    own = np.array([measure(hit.text) for hit in hits], float)
    cost = own + [measure(hit.label(options)) for hit in hits]
    passages = np.array([hit.passage_id for hit in hits])
    likelihood = softmax(np.array([hit.known for hit in hits]))
    value, free, due = likelihood.copy(), np.ones(len(hits), bool), options.stop
    beside = _neighbours(hits)
    for left in range(len(hits[: options.top_k]) - 1, -1, -1):
        place = int(np.where(free, value / np.maximum(cost, 1) ** options.gamma, -1.0).argmax())
        free[place] = False
        due -= likelihood[place] if options.stop < 1 else 0.0
        yield place, due <= 0 and left > 0
        if due <= 0:
            break
        if options.group == "passage":
            cost = np.where(passages == passages[place], np.minimum(cost, own + 1), cost)
            cost[beside[place]] = own[beside[place]]
        value[beside[place]] += options.neighbours * likelihood[place]


def softmax(scores: Floats) -> Floats:
    """Probabilities in proportion to the exponentials of scores, (n,)."""
    if not len(scores):
        return scores
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def passage_scores(hits: Sequence[Hit]) -> dict[int, float]:
    """ln P(passage) by passage id: the logarithm of the sum of the probabilities of its hits, finite however small."""
    scores = np.array([hit.known for hit in hits], float)
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
