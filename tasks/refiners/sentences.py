"""Sentences and other parts of a passage: how far a context reaches, and refiners that keep some sentences of the hits.

`refine.text` says how far a context reaches around the unit that was retrieved. `window` is the sentence window of
LlamaIndex and others: a hit's sentence with `refine.window` sentences on either side of it, in its passage. Windows of
one passage that overlap or adjoin become one context, and no sentence stands twice. `passage` is the parent passage:
the whole of it, once. Either way a context has the place of its best hit. A hit that is not a sentence of its passage
(a passage, a proposition) stays as it is.

A refiner that drops sentences makes a context of the kept sentences of a hit: they stay in their order, the white
space between neighbours as it was and a blank where something was left out. Contexts are in the order of the hits.
Where a budget does not take every kept sentence, the first of an order of priority are taken, and the last of them is
cut at the end of a word.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, ClassVar, TypeVar

import numpy as np

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.refiners.base import (
    Context,
    Contexts,
    Hit,
    ModelRefiner,
    Refined,
    Retrieved,
    Span,
    Vectors,
    answered,
    merged,
)

Place = tuple[int, Span]
"""Passage id, and what of it was retrieved; start = end: a model wrote it, and the passage does not contain it."""
Extent = tuple[int, Span]
"""The number of the best hit of a context, from 0, and what of its passage the context is."""


def windows(hits: Sequence[Place], sentences: Mapping[int, Sequence[Span]], reach: int) -> list[Extent]:
    """The windows of a question's hits, best first. `sentences`: of every passage, in order; `reach`: how many of them
    on either side of a hit."""
    extents: list[Extent] = []
    best: dict[int, dict[int, int]] = {}
    for number, (passage, span) in enumerate(hits):
        known = sentences.get(passage, ())
        if span not in known:
            extents.append((number, span))
            continue
        at = known.index(span)
        covered = best.setdefault(passage, {})
        for sentence in range(max(0, at - reach), min(len(known), at + reach + 1)):
            covered.setdefault(sentence, number)
    for passage, covered in best.items():
        for first, end in merged((place, place + 1) for place in sorted(covered)):
            span = sentences[passage][first][0], sentences[passage][end - 1][1]
            extents.append((min(covered[place] for place in range(first, end)), span))
    return sorted(extents)


def parents(hits: Sequence[Place], lengths: Mapping[int, int]) -> list[Extent]:
    """The whole passages of a question's hits, best first. `lengths`: of every passage, in characters."""
    first: dict[int, int] = {}
    for number, (passage, _) in enumerate(hits):
        first.setdefault(passage, number)
    return [(number, (0, lengths[passage])) for passage, number in first.items()]


def inside(sentences: Sequence[Span], span: Span) -> tuple[Span, ...]:
    """The sentences that a context has, in order."""
    return tuple(each for each in sentences if span[0] <= each[0] < each[1] <= span[1])


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a hit: the hit's number, its place in the passage and its text, white space after it included."""

    hit: int
    span: Span
    text: str


Units = Sequence[Sequence[Sentence]]
"""The sentences of every question's hits that may be kept, in order."""


def sentences(hit: Hit, number: int) -> list[Sentence]:
    """A hit's sentences in order; the hit itself if its passage does not contain it (a proposition)."""
    if not hit.sentences:
        return [Sentence(number, (hit.start, hit.end), hit.text)]
    return [Sentence(number, span, hit.text[span[0] - hit.start : span[1] - hit.start]) for span in hit.sentences]


def contexts(hits: Sequence[Hit], kept: Iterable[Sentence], options: RefineConfig) -> list[Context]:
    """The contexts, in the order of the hits, of kept sentences, which are in their order of priority."""
    made = Contexts(options, gap=" ")
    for sentence in kept:
        start, end = sentence.span
        if not made.add(replace(hits[sentence.hit], text=sentence.text, start=start, end=end), sentence.hit):
            break
    return made.made(by_hit=True)


ItemT = TypeVar("ItemT")
Scored = tuple[float, Sentence]
"""A sentence with its score before it."""


def ranked(scored: Iterable[tuple[float, ItemT]]) -> list[tuple[float, ItemT]]:
    """Scored items, the best first; equal scores keep their order."""
    return sorted(scored, key=itemgetter(0), reverse=True)


def shown(hits: Sequence[Hit], parts: Sequence[Sentence], options: RefineConfig) -> list[str]:
    """Sentences of a question's hits as a prompt shows them, with the titles of their passages."""
    return [hits[part.hit].label(options) + part.text.strip() for part in parts]


class SentenceRefiner(ModelRefiner):
    """Base of refiners whose model scores every sentence of the hits. A subclass has `requests`, which `read` of the
    model answers, or else `scores`; and perhaps `units` and `kept`."""

    needs_sentences = True
    reads_blanks: ClassVar[bool] = False
    """Also ask the model about sentences of white space."""
    natural: float = 0.0
    """The threshold where neither it nor a budget is set."""
    counted: ClassVar[tuple[str, ...]] = ("sentences", "passed", "empty")
    """The names of the notes: sentences, those that are kept, and questions without contexts."""

    def requests(self, question: str, hits: Sequence[Hit], units: Sequence[Sentence]) -> Sequence[Any]:
        """The requests to the model that give the scores of a question's sentences, in their order."""
        raise NotImplementedError

    def scores(
        self, questions: Sequence[str], hits: Retrieved, units: Units, tick: Tick
    ) -> tuple[Sequence[Sequence[float]], int]:
        """The score of every sentence of every question, and the tokens computed."""
        requests = [self.requests(*of_question) for of_question in zip(questions, hits, units, strict=True)]
        known, tokens = answered(requests, self.model.read, tick)
        return [[float(score) for each in own for score in np.atleast_1d(known[each])] for own in requests], tokens

    @property
    def threshold(self) -> float:
        """The lowest score of a sentence to keep."""
        natural = 0.0 if self.options.has_budget else self.natural
        return natural if self.options.threshold is None else self.options.threshold

    def units(self, hits: Sequence[Hit]) -> list[Sentence]:
        """The sentences of a question's hits that may be kept, in order."""
        every = (sentence for number, hit in enumerate(hits) for sentence in sentences(hit, number))
        return [sentence for sentence in every if self.reads_blanks or sentence.text.strip()]

    def kept(self, scored: Sequence[Scored]) -> list[Sentence]:
        """The sentences of a question that are kept, the best first."""
        return [sentence for score, sentence in ranked(scored) if score >= self.threshold]

    def refine(
        self, questions: Sequence[str], hits: Retrieved, vectors: Vectors | None = None, tick: Tick = no_tick
    ) -> Refined:
        read = [own[: self.options.top_k] for own in hits]
        units = [self.units(own) for own in read]
        scores, tokens = self.scores(questions, read, units, tick)
        kept = [self.kept([*zip(own, parts, strict=True)]) for own, parts in zip(scores, units, strict=True)]
        made = [contexts(own, parts, self.options) for own, parts in zip(read, kept, strict=True)]
        counts = (sum(map(len, units)), sum(map(len, kept)), sum(not own for own in made))
        return Refined(made, tokens, dict(zip(self.counted, counts, strict=False)))
