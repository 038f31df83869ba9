"""`refine.first`: a refiner that reads what another one made, as Oreo reads the spans of `spans`.

The contexts of the first are the hits of the second. Such a hit has the title of its passage apart, so that a prompt
shows it once, the score of the context, the likelihood of its rank, and, where the second asks for them, the sentences
of the hits that the context still has. The contexts of a question stand one below the other in a text, and the places
of such hits are places in that, since a context may have gaps. What the second keeps is led back from there to the
passages, so that origins are those of the hits. A context that a model wrote has no place, and neither has what is made
from it. Both have a budget: the first limits what the second reads, the second what a prompt shows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.ticks import Tick, no_tick, tokens_of
from vitalfew.tasks.refiners.base import Context, Hit, Refined, Refiner, Retrieved, Span, Vectors, likelihood

Origin = tuple[int, int, int]
"""Passage id and a range of characters in the passage."""


class Chained(Refiner):
    """Two refiners, of which the second reads what the first made."""

    def __init__(self, first: Refiner, second: Refiner) -> None:
        """Raises ConfigError where the second cannot read contexts."""
        super().__init__(second.options)
        if second.needs_vectors:
            raise ConfigError(
                f"refine.refiner={self.options.refiner} compares the index's vectors of hits, which the contexts of "
                "refine.first do not have; for mmr set refine.vectors=minilm"
            )
        self.first, self.second = first, second
        self.needs_vectors = first.needs_vectors
        self.needs_sentences = first.needs_sentences or second.needs_sentences
        self.compares_scores = first.compares_scores
        self.uses_gpu = first.uses_gpu or second.uses_gpu
        self.workers = min((each.workers for each in (first, second) if each.workers is not None), default=None)

    def identity(self) -> dict[str, Any]:
        return {**self.second.identity(), "first": self.first.identity()}

    def refine(
        self, questions: Sequence[str], hits: Retrieved, vectors: Vectors | None = None, tick: Tick = no_tick
    ) -> Refined:
        made = self.first.refine(questions, hits, vectors, tokens_of(tick))
        read = [_Contexts(contexts, own, self.first.options) for contexts, own in zip(made.contexts, hits, strict=True)]
        refined = self.second.refine(questions, [own.hits for own in read], None, tick)
        contexts = [
            [own.led_back(each) for each in of_question]
            for own, of_question in zip(read, refined.contexts, strict=True)
        ]
        notes = {**{f"first_{name}": count for name, count in made.notes.items()}, **refined.notes}
        return Refined(contexts, made.tokens + refined.tokens, notes, refined.writings or made.writings)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a context that is in a passage: its place in the text of all contexts, and its origin."""

    start: int
    origin: Origin

    @property
    def end(self) -> int:
        return self.start + self.origin[2] - self.origin[1]

    def within(self, start: int, end: int) -> Origin | None:
        """The origin of the part of it that is in a range of the text of all contexts."""
        passage, begin, _ = self.origin
        first, last = max(start, self.start), min(end, self.end)
        return (passage, begin + first - self.start, begin + last - self.start) if first < last else None

    def sentences(self, spans: Sequence[Span]) -> Iterator[Span]:
        """The parts of sentences of its passage that it has, by their places in the text of all contexts."""
        _, begin, end = self.origin
        for first, last in spans:
            if max(first, begin) < min(last, end):
                yield self.start + max(first, begin) - begin, self.start + min(last, end) - begin


@dataclass(slots=True)
class _Contexts:
    """A question's contexts as hits. `given`: the hits that they were made from."""

    contexts: Sequence[Context]
    given: Sequence[Hit]
    options: Any
    hits: list[Hit] = field(default_factory=list)
    pieces: list[_Piece] = field(default_factory=list)

    def __post_init__(self) -> None:
        known = {hit.passage_id: hit for hit in reversed(self.given)}
        at = 0
        for rank, context in enumerate(self.contexts, 1):
            own = known.get(context.origin[0][0]) if context.origin else None
            text = context.text.removeprefix(own.label(self.options)) if own else context.text
            pieces = [*self._pieces(text, context.origin, at)]
            place = (at, at + len(text)) if pieces else (at, at)
            spans = sorted({*chain(*(piece.sentences(self._sentences(piece)) for piece in pieces))})
            title, passage = (own.title, own.passage_id) if own else ("", -1)
            gold = any(hit.is_gold for hit in self.given if hit.passage_id == passage)
            score, likely = context.score or 0.0, likelihood(0.0, rank, None)
            self.hits.append(Hit(title, text, passage, *place, tuple(spans), gold, score, likely))
            self.pieces += pieces
            at += len(text) + 1  # contexts are no neighbours

    def _pieces(self, text: str, origin: Sequence[Origin], at: int) -> Iterator[_Piece]:
        """The parts of a context that are in passages. `at`: its place in the text of all contexts."""
        behind = 0
        for passage, start, end in origin:
            whole = self._text(passage, start, end)
            part = whole.strip()
            place = text.find(part, behind) if part else -1
            if place >= 0:
                begin = start + whole.index(part)
                yield _Piece(at + place, (passage, begin, begin + len(part)))
                behind = place + len(part)

    def _text(self, passage: int, start: int, end: int) -> str:
        """Return the text of a passage in a range that hits cover."""
        text = ""
        while (place := start + len(text)) < end:
            there = (hit for hit in self.given if hit.passage_id == passage and hit.start <= place < hit.end)
            if not (more := next((hit.text[place - hit.start : end - hit.start] for hit in there), "")):
                break
            text += more
        return text

    def _sentences(self, piece: _Piece) -> list[Span]:
        return sorted({span for hit in self.given if hit.passage_id == piece.origin[0] for span in hit.sentences})

    def led_back(self, context: Context) -> Context:
        """A context of the second refiner, whose origins are in the passages. It has no score if one that it may come
        from lacks a score."""
        found = [
            origin
            for _, start, end in context.origin
            for piece in self.pieces
            if (origin := piece.within(start, end)) is not None
        ]
        known = all(each.score is not None for each in self.contexts)
        return replace(context, origin=tuple(found), score=context.score if known else None)
