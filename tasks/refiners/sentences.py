"""Hits as sentences, some of which are kept, and contexts put together of those, for refiners that drop sentences.

A context is what is left of a hit: its kept sentences in their order, the white space between neighbours as it was and
a blank where something was left out. Contexts stand in the order of the hits. Where a budget does not take every
kept sentence, the first of an order of priority are taken, and the last of them is cut at the end of a word.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.tasks.refiners.base import Evidence, Hit
from vitalfew.tasks.refiners.extents import Span
from vitalfew.tasks.splitters.tokens import count_tokens, count_words, first


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a hit: the hit's number, its place in the passage and its text, white space behind it included."""

    hit: int
    span: Span
    text: str


def sentences(hit: Hit, number: int) -> list[Sentence]:
    """A hit's sentences in order; the hit itself if it has none in its passage (a proposition)."""
    if not hit.sentences:
        return [Sentence(number, (hit.start, hit.end), hit.text)]
    return [Sentence(number, span, hit.text[span[0] - hit.start : span[1] - hit.start]) for span in hit.sentences]


def contexts(hits: Sequence[Hit], kept: Iterable[Sentence], options: RefineConfig) -> list[Evidence]:
    """The contexts of kept sentences, which are in their order of priority."""
    taken: dict[int, list[Sentence]] = {}
    for sentence in within_budget(hits, kept, options):
        taken.setdefault(sentence.hit, []).append(sentence)
    return [_context(hits[number], sorted(taken[number], key=_place), options) for number in sorted(taken)]


def within_budget(hits: Sequence[Hit], kept: Iterable[Sentence], options: RefineConfig) -> list[Sentence]:
    """The first of these sentences, as many as the budgets take with the titles of their hits."""
    words, tokens = options.max_words, options.max_tokens
    taken: list[Sentence] = []
    titled: set[int] = set()
    for sentence in kept:
        label = "" if sentence.hit in titled else hits[sentence.hit].label(options)
        whole = label + sentence.text.strip()
        shown = first(whole, words, tokens)
        if len(shown) <= len(label):
            break
        titled.add(sentence.hit)
        taken.append(sentence if shown == whole else _cut(sentence, shown[len(label) :]))
        words = None if words is None else words - count_words(shown)
        tokens = None if tokens is None else tokens - count_tokens(shown)
        if shown != whole:
            break
    return taken


def _place(sentence: Sentence) -> Span:
    return sentence.span


def _cut(sentence: Sentence, text: str) -> Sentence:
    start, end = sentence.span
    start += sentence.text.index(text) if start < end else 0
    return Sentence(sentence.hit, (start, start + len(text) if sentence.span[0] < end else end), text)


def _context(hit: Hit, kept: Sequence[Sentence], options: RefineConfig) -> Evidence:
    """One hit's kept sentences in their order. Its origin: their places, those of neighbours as one."""
    text, origin = "", list[Span]()
    for sentence in kept:
        follows = bool(origin) and origin[-1][1] == sentence.span[0]
        text += sentence.text if follows or not text or text[-1].isspace() else f" {sentence.text}"
        if follows:
            origin[-1] = origin[-1][0], sentence.span[1]
        else:
            origin.append(sentence.span)
    shown = hit.label(options) + text.strip()
    spans = tuple((hit.passage_id, *span) for span in origin if span[0] < span[1])
    return Evidence(shown, count_tokens(shown), spans)
