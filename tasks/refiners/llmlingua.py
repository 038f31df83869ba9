"""`llmlingua` and `longllmlingua`: a small causal language model drops hits, and then tokens of the kept hits.

`llmlingua` keeps the hits, and in them the tokens, that the model would guess least (LLMLingua, Jiang et al., 2023,
arXiv 2310.05736), with hits for demonstrations:

- Budget controller (section 4.1, algorithm 1): hits in descending order of their perplexity are kept until they have
  more than refine.coarse (k) times the tokens to keep. Kept hits are in the order of retrieval.
- Token-level compression (section 4.2, algorithm 2): the model reads the kept hits in segments, after the compressed
  text so far, and the tokens with the highest perplexity stay.

With refine.rest=whole the tokens that stay are those of the authors' package (llmlingua 0.2.2) with the same `rate`,
`iterative_size` for refine.segment and `context_budget="*2"` for refine.coarse=2, but that the package gives the model
no start token, and reads a hit after the hits before it, where here a hit is at first read alone.

`longllmlingua` keeps the hits and tokens that have to do with the question (LongLLMLingua, Jiang et al., 2024, arXiv
2310.06839):

- Coarse (section 4.1): r_k = 1/N Σ ln p(x_i | hit k, x_<i) over the N tokens of the question and of a sentence after
  it that says that the answer is in the text above (our wording). The hits with the highest r_k are kept until they
  have more than refine.coarse times the tokens to keep.
- Fine (4.1): as LLMLingua, but a token's worth is its contrastive perplexity, by how much the question before the text
  lowers its surprise: ln p(x_i | question, x_<i) − ln p(x_i | x_<i). The model reads a segment twice.
- Reordering (4.2): the hits are in descending order of r_k.
- Dynamic ratio (4.3): of the i-th of K kept hits, i from 0, the share τ + δ (1 − 2 i / (K − 1)), held to 0 to 1, is
  kept. The paper divides by K; by K − 1, as in the package, the mean of the shares is τ. Where a budget is to be
  filled, τ is such that the shares fill it.

Deviations: the generator reads instruction and question whole, so that they get no budget. The share of a segment makes
up for what the first step dropped. The small model is not aligned with the one that answers (LLMLingua, 4.3).
Subsequence recovery (LongLLMLingua, 4.4) mends the answer, which a refiner does not see.

Both compress tokens alike. A question's hits are one row of tokens, with an empty line between two, and a segment of
it is decided at a time: the tokens that are worth most stay (LLMLingua: those of the highest surprise, minus the
logarithm of the probability). As in the authors' package, and not in its paper:

- The next token's worth decides on a token, and the last token stays. `judge: own` is the paper's equation.
- A token stays if its worth exceeds a threshold: the worth that the share to be kept has in the whole row, of the
  tokens kept so far and of those not read yet. The latter have the worth that they have in their hit alone (in the
  package, after all text before it). Where a segment reaches into several hits, every hit has a threshold.
- The first segment is one token shorter, and decided by the reading of its hit alone.
- `rest: whole` leaves what is shorter than a segment as it is, a fault that the authors left in
  (github.com/microsoft/LLMLingua, issues 73 and 196), so that it is not the default here.

Where a budget is to be filled, the share of a segment's tokens is exact in the place of a threshold. A budget counts
words, which may lose a part of their tokens: so in the end the tokens worth least are dropped too, or those worth most
taken back, until it is used. max_words and max_tokens cut what was compressed at its end.

The perplexity of a hit is that of its text after its title. A title that is shown stays whole. A hit longer than the
model is read in parts, and the beginning of a longer row is forgotten.
"""

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, groupby, pairwise
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from vitalfew.configs.options import CausalModel
from vitalfew.tasks.models.causal.surprise import Running, Surprise
from vitalfew.tasks.models.readings import settled
from vitalfew.tasks.models.ticks import Counted, Tick, no_tick, tokens_of
from vitalfew.tasks.refiners.base import (
    Budget,
    Context,
    Hit,
    ModelRefiner,
    Refined,
    Refiner,
    Retrieved,
    Span,
    Vectors,
    merged,
)
from vitalfew.tasks.refiners.whole_hits import Cut
from vitalfew.tasks.splitters.tokens import count_tokens, count_words

Floats = NDArray[np.float32]

BETWEEN = "\n\n"
"""Stands between two hits."""
NATURAL = 0.5
"""The share that is left where neither it nor a budget is named."""
RESTRICTION = " The text above holds the answer to this question."


@dataclass(frozen=True, slots=True)
class ReadHit:
    """The tokens of a hit that are shown, those of its title first. `spans`: the places of the tokens in the hit's
    text, empty for the title; `worth`: what the tokens are worth in their hit alone."""

    ids: list[int]
    spans: list[Span]
    worth: Floats


def reading(hit: Hit, tokens: tuple[list[int], list[int]], worth: Floats, shows_titles: bool) -> ReadHit:
    """`tokens`: their ids, and where every token ends in the hit as it is read; `worth`: of every token."""
    ids, ends = tokens
    lead = len(hit.titled) - len(hit.text)
    inside = [max(0, end - lead) for end in ends]
    first = 0 if shows_titles else bisect_right(ends, lead)
    return ReadHit(ids[first:], [*zip([0, *inside], inside, strict=False)][first:], worth[first:])


@dataclass(slots=True)
class TokenRow:
    """A question's tokens on the way. `hits`: the numbers of their hits, from 0; `spans`: their places in the texts of
    these; `share`: the share of such tokens to keep; `worth`: infinite if a token stays in any case; `done`: tokens
    decided; `again`: the kept tokens of the segment before, which are read again."""

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
        """The places of the tokens that are read to decide on the next ones; those to read again come first."""
        before = np.flatnonzero(self.left[: self.done])
        return np.concatenate([before[len(before) - self.again :], np.arange(self.done, self.done + size)])

    def learn(self, places: NDArray[np.int64], worth: Floats) -> None:
        self.worth[places] = worth
        self.worth[self.stays] = np.inf

    def decide(self, size: int, exact: bool) -> None:
        """Choose which of the next tokens stay, hit by hit."""
        begin = self.done
        for _, same in groupby(self.hits[begin : begin + size]):
            piece = slice(self.done, self.done + len([*same]))
            self.left[piece] = self.stays[piece] | (self._best(piece) if exact else self._above(piece))
            self.done = piece.stop
        self.again = int(self.left[begin : self.done].sum())

    def _best(self, piece: slice) -> NDArray[np.bool_]:
        """Keep as many as the share demands; of equal ones the first."""
        due = round(float(self.share[: piece.stop].sum())) - int(self.left[: piece.start].sum())
        best = np.argsort(-self.worth[piece], kind="stable")[: max(0, due)]
        return np.isin(np.arange(piece.stop - piece.start), best)

    def _above(self, piece: slice) -> NDArray[np.bool_]:
        """Keep those above the threshold."""
        share = float(self.share[piece.start])
        of_row = np.concatenate([self.worth[: piece.start][self.left[: piece.start]], self.worth[piece.start :]])
        of_row = np.sort(of_row[np.isfinite(of_row)])[::-1]
        if share >= 1 or not len(of_row):
            return np.ones(piece.stop - piece.start, np.bool_)
        place = min(max(int(len(of_row) * share) - 1, 0), len(of_row) - 1)
        return np.asarray(self.worth[piece] > of_row[place])


def joined(parts: Sequence[ReadHit], shares: Sequence[float], between: Sequence[int], ahead: bool) -> TokenRow:
    """Put the tokens of a question's hits into one row. `between`: the tokens between two hits; `ahead`: the next
    token's worth decides on a token."""
    gap = ReadHit([*between], [(0, 0)] * len(between), np.zeros(len(between), np.float32))
    row = [(number, piece) for number, part in enumerate(parts) for piece in (part, gap)][:-1]
    pieces = [piece for _, piece in row]
    ids = np.array([*chain(*(piece.ids for piece in pieces))], np.int64)
    hits = np.array([number for number, piece in row for _ in piece.ids], np.int64)
    spans = [*chain(*(piece.spans for piece in pieces))]
    worth = np.concatenate([np.empty(0, np.float32), *(piece.worth for piece in pieces)])
    # A title stays whole.
    stays = np.array([piece is not gap and end == 0 for piece in pieces for _, end in piece.spans], np.bool_)
    if ahead and len(ids):
        worth = np.roll(worth, -1)
        stays[-1] = True
    return TokenRow(ids, hits, spans, np.array(shares, np.float32)[hits], worth, stays)


def evidence(hits: Sequence[Hit], text: TokenRow, cut: Cut) -> list[Context]:
    """The contexts of the tokens that are left, within the budgets."""
    left = _hits(hits, text)
    contexts = cut.best([made for made, _, _ in left])
    return [
        Context(context.text, context.tokens, _origin(hit, spans, context.origin[0][1:]), hit.score)
        for context, (_, hit, spans) in zip(contexts, left, strict=False)
    ]


def _hits(hits: Sequence[Hit], text: TokenRow) -> list[tuple[Hit, Hit, list[Span]]]:
    """Hits of the text that is left, with the hits that they come from, and their places in these."""
    found = []
    for number, hit in enumerate(hits):
        spans = merged(text.spans[place] for place in np.flatnonzero((text.hits == number) & text.left))
        left = "".join(hit.text[start:end] for start, end in spans)
        if left.strip():
            found.append((Hit(hit.title, left, hit.passage_id, 0, len(left)), hit, spans))
    return found


def _origin(hit: Hit, spans: Sequence[Span], shown: Span) -> tuple[tuple[int, int, int], ...]:
    """The places in the passage of a part of a hit's spans; `shown`: the part, in the text of all spans."""
    found = []
    before = 0
    for start, end in spans:
        first, last = max(start, start + shown[0] - before), min(end, start + shown[1] - before)
        if first < last and hit.start < hit.end:
            found.append((hit.passage_id, hit.start + first, hit.start + last))
        before += end - start
    return tuple(found)


class Compressing(CausalModel, Refiner.Options):
    """Settings of compression at the level of tokens."""

    rate: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Share of the hits' tokens to keep. Default: 0.5. If max_words or max_tokens is set: none, and "
        "that limit is filled.",
    )
    coarse: float = Field(
        2.0, ge=1, description="Limit on whole hits, as a multiple of the tokens to keep (the paper's k)."
    )
    segment: int = Field(200, ge=2, description="Tokens to compress at once.")
    judge: Literal["next", "own"] = Field(
        "next",
        description="Token whose surprise decides: the next one, as in the authors' package, or the token "
        "itself, as in the paper.",
    )
    rest: Literal["compressed", "whole"] = Field(
        "compressed",
        description="Treatment of the end of a text that is shorter than a segment; the authors' package leaves "
        "it whole.",
    )

    @property
    def fills(self) -> bool:
        """Whether a budget decides how much is left."""
        return self.rate is None and self.has_budget

    def share(self, hits: Sequence[Hit]) -> float:
        """The share of these hits' tokens to keep."""
        if not self.fills:
            return self.rate or NATURAL
        shown = [hit.shown(self) for hit in hits]
        allowed = ((self.max_words, sum(map(count_words, shown))), (self.max_tokens, sum(map(count_tokens, shown))))
        return min(1.0, *(budget / max(1, count) for budget, count in allowed if budget is not None))


class TokenCompressor(ModelRefiner):
    """Base of refiners that drop hits, and then tokens of the kept hits; a subclass rates both."""

    reorders: bool = False
    """Put the hits of the highest rank first."""
    cut: Cut

    def __init__(self, options: Compressing) -> None:
        """Raises ConfigError, EngineUnavailable."""
        super().__init__(options, Surprise(options.model, options, "refine"))
        self.cut = Cut(options.model_copy(update={"group": "apart"}))  # it sees places in compressed texts

    @abstractmethod
    def rank(
        self, questions: Sequence[str], texts: Sequence[str], count: Counted
    ) -> tuple[Sequence[Floats], Sequence[float]]:
        """Rate the texts of hits, with their questions beside them: the worth of the tokens, and the rank of every hit,
        the highest the best."""

    def befores(self, question: str) -> list[str]:
        """The texts before the hits, one for every pass that reads them."""
        return [""]

    def worth(self, surprises: Sequence[Floats]) -> Floats:
        """The worth of tokens, by their surprise in every pass."""
        return surprises[0]

    def shares(self, lengths: Sequence[int], aim: float) -> list[float]:
        """The share of tokens to keep of every kept hit, the highest rank first: together `aim` tokens."""
        return [min(1.0, aim / max(1, sum(lengths)))] * len(lengths)

    def refine(
        self, questions: Sequence[str], hits: Retrieved, vectors: Vectors | None = None, tick: Tick = no_tick
    ) -> Refined:
        # A hit of white space has nothing to leave.
        read = [[hit for hit in own[: self.options.top_k] if hit.text.strip()] for own in hits]
        count = Counted(tokens_of(tick))
        if not any(read):
            tick(len(questions), 0)
            return Refined([[] for _ in questions], notes={"tokens": 0, "left": 0})
        [gap] = self.model.encode([BETWEEN])
        contexts, notes = [], {"tokens": 0, "left": 0}
        parts, ranks = self._read(questions, read, count)
        for question, hits_read, own, of_hits in zip(questions, read, parts, ranks, strict=True):
            numbers, shares = self._coarse(hits_read, own, of_hits)
            text = self._compressed(question, [own[number] for number in numbers], shares, gap, count)
            kept = [hits_read[number] for number in numbers]
            if self.options.fills:
                self._fill(kept, text)
            contexts.append(evidence(kept, text, self.cut))
            notes["tokens"] += sum(len(part.ids) for part in own)
            notes["left"] += int(text.left.sum())
        tick(len(questions), 0)
        return Refined(contexts, count.tokens, notes)

    def _compressed(
        self, question: str, parts: Sequence[ReadHit], shares: Sequence[float], gap: Sequence[int], count: Counted
    ) -> TokenRow:
        """Decide on the tokens of a question's hits. A question at a time: a model's cache of it is large. `shares`:
        the share of every hit to keep; `gap`: the tokens between two hits."""
        segment = min(self.options.segment, max(2, self.model.limit // 2))
        ahead = int(self.options.judge == "next")
        text = joined(parts, shares, gap, bool(ahead))
        rows = [Running(self.model, before, count) for before in self.model.encode(self.befores(question))]
        while (rest := len(text.ids) - text.done) and not (self.options.rest == "whole" and rest < segment):
            size = min(rest, max(1, segment - (text.done == 0)))
            if text.done:
                places = text.places(size)
                ids = text.ids[places].tolist()
                worth = self.worth([row.of(ids, text.again) for row in rows])
                text.learn(places[: len(places) - ahead], settled(worth[ahead:]))
            text.decide(size, exact=self.options.fills)
        return text

    def _fill(self, hits: Sequence[Hit], text: TokenRow) -> None:
        """Leave as many tokens as the budgets take: of what was left, or of what was dropped too, those worth most."""
        order = np.lexsort((-text.worth, ~text.left))
        budget = Budget(self.options)

        def holds_without(dropped: int) -> bool:
            text.left = np.isin(np.arange(len(order)), order[: len(order) - dropped])
            return budget.holds([made.shown(self.options) for made, _, _ in _hits(hits, text)])

        holds_without(bisect_left(range(len(order)), True, key=holds_without))  # leaves the last that holds

    def _read(
        self, questions: Sequence[str], hits: Retrieved, count: Counted
    ) -> tuple[list[list[ReadHit]], list[list[float]]]:
        """Read every question's hits, and rank them."""
        pairs = [(question, hit) for question, own in zip(questions, hits, strict=True) for hit in own]
        texts = [hit.titled for _, hit in pairs]
        worth, ranks = self.rank([question for question, _ in pairs], texts, count)
        tokens = self.model.places(texts)
        shows = self.options.shows_titles
        parts = [reading(hit, own, values, shows) for (_, hit), own, values in zip(pairs, tokens, worth, strict=True)]
        places = [slice(*ends) for ends in pairwise(accumulate(map(len, hits), initial=0))]
        return [parts[place] for place in places], [[*ranks[place]] for place in places]

    def _coarse(
        self, hits: Sequence[Hit], parts: Sequence[ReadHit], ranks: Sequence[float]
    ) -> tuple[list[int], list[float]]:
        """The numbers of the kept hits, in their order, and the share of tokens to keep of them."""
        lengths = [len(part.ids) for part in parts]
        aim = self.options.share(hits) * sum(lengths)
        kept: list[int] = []
        for number in sorted(range(len(hits)), key=lambda number: -ranks[number]):
            if sum(lengths[each] for each in kept) > self.options.coarse * aim:
                break
            kept.append(number)
        shares = dict(zip(kept, self.shares([lengths[number] for number in kept], aim), strict=True))
        order = kept if self.reorders else sorted(kept)
        return order, [shares[number] for number in order]


class LLMLingua(TokenCompressor):
    """A small causal model drops the hits and tokens that it could have guessed, down to a share (LLMLingua)."""

    class Options(Compressing):
        pass

    example: ClassVar[tuple[str, ...]] = ("refine.model=vicuna-7b", "refine.rate=0.4")
    version: ClassVar[str] = "2"

    def rank(
        self, questions: Sequence[str], texts: Sequence[str], count: Counted
    ) -> tuple[Sequence[Floats], Sequence[float]]:
        found = [surprise for _, surprise in self.model.read([("", text) for text in texts], count)]
        # The logarithm of the perplexity.
        return found, [float(surprise.mean()) if len(surprise) else 0.0 for surprise in found]


class LongLLMLingua(TokenCompressor):
    """A small causal model keeps the hits and tokens that relate to the question (LongLLMLingua)."""

    class Options(Compressing):
        delta: float = Field(
            0.3,
            ge=0,
            le=1,
            description="Difference of shares: the best hit keeps this much more than the mean, the last hit this "
            "much less (the paper's δτ).",
        )
        reorder: bool = Field(
            True, description="Order of the hits. true: the most likely to answer first; false: unchanged."
        )

    example: ClassVar[tuple[str, ...]] = ("refine.model=smollm2", "refine.max_tokens=120")

    def __init__(self, options: Options) -> None:
        """Raises ConfigError, EngineUnavailable."""
        super().__init__(options)
        self.reorders = options.reorder

    def rank(
        self, questions: Sequence[str], texts: Sequence[str], count: Counted
    ) -> tuple[Sequence[Floats], Sequence[float]]:
        both = [*zip(questions, texts, strict=True)]
        alone = [("", text) for text in texts]
        informed = [(question + BETWEEN, text) for question, text in both]
        asked = [(text + BETWEEN, question + RESTRICTION) for question, text in both]
        found = [surprise for _, surprise in self.model.read([*alone, *informed, *asked], count)]
        plain, after, of_questions = (found[at : at + len(texts)] for at in range(0, len(found), len(texts)))
        worth = [one - other for one, other in zip(plain, after, strict=True)]
        return worth, [-float(surprise.mean()) for surprise in of_questions]

    def befores(self, question: str) -> list[str]:
        return ["", question + BETWEEN]

    def worth(self, surprises: Sequence[Floats]) -> Floats:
        plain, after = surprises
        return plain - after

    def shares(self, lengths: Sequence[int], aim: float) -> list[float]:
        steps = self.options.delta * np.linspace(1, -1, len(lengths)) * (len(lengths) > 1)
        if not self.options.fills:
            return [*np.clip(min(1.0, aim / max(1, sum(lengths))) + steps, 0, 1).tolist()]
        low, high = -1.0, 2.0
        for _ in range(40):  # halved until the shares' mean is as exact as float32
            mean = (low + high) / 2
            low, high = (mean, high) if np.clip(mean + steps, 0, 1) @ np.array(lengths) < aim else (low, mean)
        return [*np.clip(high + steps, 0, 1).tolist()]
