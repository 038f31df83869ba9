"""Iterative compression at the level of tokens, which `llmlingua` and `longllmlingua` have in common.

A question's hits are one row of tokens, with an empty line between two. It is decided on segment by segment: the model
reads a segment after what is left of those before, and the tokens that are worth most stay. A token's worth is up to
the refiner that asks (LLMLingua: its surprise, minus the logarithm of its probability).

As the authors' package has it (llmlingua 0.2.2), and its paper does not:

- What decides on a token is the next token's worth, and the last token stays. `judge: own` is the paper's equation.
- A token stays whose worth exceeds a threshold: the worth that the share to be left has of the whole row, what is left
  so far and what has not been read yet included. Of the latter the worth is taken that it has in its hit alone (in the
  package, that after all text before it). Where a segment reaches into several hits, each has its own threshold.
- The first segment is one token shorter, and decided on by the reading of its hit alone.
- `rest: whole` leaves what is shorter than a segment as it is, the whole row too. The authors know of it as a fault
  that they left in (github.com/microsoft/LLMLingua, issues 73 and 196), so that the default here is not theirs.

Where a budget is to be filled, the share of a segment's tokens is exact in the place of a threshold, by which fewer
stay than it aims at, and what rounding adds or takes is made good by the next. A budget counts words, and a word may
lose a part of its tokens alone: so in the end the tokens worth least are dropped too, or those worth most taken back,
until the budget is used.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.tasks.models.readings import settled
from vitalfew.tasks.refiners.base import Evidence, Hit, Span
from vitalfew.tasks.refiners.whole_hits import Cut
from vitalfew.tasks.splitters.tokens import count_tokens, count_words

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ReadHit:
    """A hit as the model reads it, its title before it, of which only what is shown is a token here. `spans`: of every
    token in the hit's text; empty: it is of the title. `worth`: of every token in its hit alone."""

    ids: list[int]
    spans: list[Span]
    worth: Floats


def reading(hit: Hit, tokens: tuple[list[int], list[int]], worth: Floats, shows_titles: bool) -> ReadHit:
    """`tokens`: their ids, and where in the hit as it is read each ends; `worth`: of every token."""
    ids, ends = tokens
    lead = len(hit.titled) - len(hit.text)
    inside = [max(0, end - lead) for end in ends]
    first = 0 if shows_titles else bisect_right(ends, lead)
    return ReadHit(ids[first:], [*zip([0, *inside], inside, strict=False)][first:], worth[first:])


@dataclass(slots=True)
class TokenRow:
    """A question's tokens on the way. `hits`: the number of each one's hit, from 0; `spans`: its place in that hit's
    text; `share`: of tokens like it, to be left; `worth`: infinite, if it stays in any case; `done`: tokens decided;
    `again`: tokens that are left of the segment before, which are read again."""

    ids: NDArray[np.int64]
    hits: NDArray[np.int64]
    spans: list[Span]
    share: Floats
    worth: Floats
    stays: NDArray[np.bool_]
    left: NDArray[np.bool_] = field(init=False)
    done: int = 0
    again: int = 0

    def __post_init__(self) -> None:
        self.left = np.ones(len(self.ids), np.bool_)
        self.worth[self.stays] = np.inf

    def places(self, size: int) -> NDArray[np.int64]:
        """Return the places of the tokens that are read to decide on the next ones; those to read again come first."""
        before = np.flatnonzero(self.left[: self.done])
        return np.concatenate([before[len(before) - self.again :], np.arange(self.done, self.done + size)])

    def learn(self, places: NDArray[np.int64], worth: Floats) -> None:
        self.worth[places] = worth
        self.worth[self.stays] = np.inf

    def decide(self, size: int, exact: bool) -> None:
        """Which of the next tokens stay, hit by hit."""
        end = self.done + size
        begin = self.done
        for _, same in groupby(range(begin, end), key=lambda place: self.hits[place]):
            count = len([*same])
            piece = slice(self.done, self.done + count)
            self.left[piece] = self.stays[piece] | (self._best(piece) if exact else self._above(piece))
            self.done += count
        self.again = int(self.left[begin:end].sum())

    def _best(self, piece: slice) -> NDArray[np.bool_]:
        """Keep as many as the share demands; of equal ones the first."""
        due = round(float(self.share[: piece.stop].sum())) - int(self.left[: piece.start].sum())
        best = np.argsort(-self.worth[piece], kind="stable")[: max(0, due)]
        return np.isin(np.arange(piece.stop - piece.start), best)

    def _above(self, piece: slice) -> NDArray[np.bool_]:
        """Those above the threshold."""
        share = float(self.share[piece.start])
        of_row = np.concatenate([self.worth[: piece.start][self.left[: piece.start]], self.worth[piece.start :]])
        of_row = np.sort(of_row[np.isfinite(of_row)])[::-1]
        if share >= 1 or not len(of_row):
            return np.ones(piece.stop - piece.start, np.bool_)
        place = min(max(int(len(of_row) * share) - 1, 0), len(of_row) - 1)
        return np.asarray(self.worth[piece] > of_row[place])


@dataclass(frozen=True, slots=True)
class Rule:
    """How it is decided. `segment`: tokens at once; `ahead`: 1 if the next token's worth decides on a token, 0 if its
    own; `whole`: whether what is shorter than a segment stays; `exact`: whether the share is exact."""

    segment: int
    ahead: int
    whole: bool
    exact: bool

    def size(self, text: TokenRow) -> int:
        """Return the size of the next segment of a text."""
        rest = len(text.ids) - text.done
        return 0 if self.whole and rest < self.segment else min(rest, max(1, self.segment - (text.done == 0)))


def joined(parts: Sequence[ReadHit], shares: Sequence[float], between: Sequence[int], rule: Rule) -> TokenRow:
    """The tokens of a question's hits in this order. `between`: the tokens between two hits."""
    ids: list[int] = []
    hits: list[int] = []
    spans: list[Span] = []
    worth: list[float] = []
    for number, part in enumerate(parts):
        gap = [] if number == len(parts) - 1 else [*between]
        ids += [*part.ids, *gap]
        hits += [number] * (len(part.ids) + len(gap))
        spans += [*part.spans, *([(0, 0)] * len(gap))]
        worth += [*part.worth.tolist(), *([0.0] * len(gap))]
    stays = np.zeros(len(ids), np.bool_)
    at = 0
    for number, part in enumerate(parts):
        stays[at : at + sum(end == 0 for _, end in part.spans)] = True  # its title
        at += hits.count(number)
    if rule.ahead and ids:
        worth = [*worth[1:], 0.0]
        stays[-1] = True
    share = np.array([shares[number] for number in hits], np.float32)
    return TokenRow(np.array(ids, np.int64), np.array(hits, np.int64), spans, share, np.array(worth, np.float32), stays)


def compress(text: TokenRow, rule: Rule, read: Callable[[Sequence[int], int], Floats]) -> None:
    """Segment by segment. `read`: of tokens behind those that it was told to keep, what they are worth, and how many
    of them, from the first on, are to be kept."""
    while size := rule.size(text):
        if text.done:
            places = text.places(size)
            worth = read(text.ids[places].tolist(), text.again)
            text.learn(places[: len(places) - rule.ahead], settled(worth[rule.ahead :]))
        text.decide(size, rule.exact)


def fill(hits: Sequence[Hit], text: TokenRow, options: RefineConfig) -> None:
    """Leave as many tokens as the budgets take: of what was left, or of what was dropped too, those worth most."""
    order = np.lexsort((-text.worth, ~text.left))
    fits, most = 0, len(order)
    while fits < most:
        count = (fits + most + 1) // 2
        text.left = np.isin(np.arange(len(order)), order[:count])
        shown = [made.shown(options) for made, _, _ in _hits(hits, text)]
        words, tokens = sum(map(count_words, shown)), sum(map(count_tokens, shown))
        if words <= (options.max_words or words) and tokens <= (options.max_tokens or tokens):
            fits = count
        else:
            most = count - 1
    text.left = np.isin(np.arange(len(order)), order[:fits])


def evidence(hits: Sequence[Hit], text: TokenRow, cut: Cut) -> list[Evidence]:
    """Return the contexts of the tokens that are left, within the budgets."""
    left = _hits(hits, text)
    contexts = cut.best([made for made, _, _ in left])
    return [
        Evidence(context.text, context.tokens, _origin(hit, spans, context.origin[0][1:]))
        for context, (_, hit, spans) in zip(contexts, left, strict=False)
    ]


def _hits(hits: Sequence[Hit], text: TokenRow) -> list[tuple[Hit, Hit, list[Span]]]:
    """Return hits of the text that is left, with the hits that they come from, and their places in these."""
    found = []
    for number, hit in enumerate(hits):
        spans = _runs([text.spans[place] for place in np.flatnonzero((text.hits == number) & text.left)])
        left = "".join(hit.text[start:end] for start, end in spans)
        if left.strip():
            found.append((Hit(hit.title, left, hit.passage_id, 0, len(left)), hit, spans))
    return found


def _runs(spans: Sequence[Span]) -> list[Span]:
    """Ascending spans, adjacent ones as one, empty ones left out."""
    runs: list[Span] = []
    for start, end in spans:
        if runs and runs[-1][1] == start:
            runs[-1] = runs[-1][0], end
        elif start < end:
            runs.append((start, end))
    return runs


def _origin(hit: Hit, spans: Sequence[Span], shown: Span) -> tuple[tuple[int, int, int], ...]:
    """Where in its passage that part of a hit's spans stands; `shown`: in the text that they are together."""
    found = []
    before = 0
    for start, end in spans:
        first, last = max(start, start + shown[0] - before), min(end, start + shown[1] - before)
        if first < last and hit.start < hit.end:
            found.append((hit.passage_id, hit.start + first, hit.start + last))
        before += end - start
    return tuple(found)
