"""`llmlingua`: a small language model keeps the hits, and in them the tokens, that it would guess least (LLMLingua).

Jiang et al., 2023 (arXiv 2310.05736), with hits for demonstrations:

- Budget controller (section 4.1, algorithm 1): hits in descending order of their perplexity are kept until they have
  more than refine.coarse (k) times the tokens that are to be left. What is kept stands in the order of retrieval.
- Token-level compression (section 4.2, algorithm 2): what was kept is read in segments, each after the compressed text
  so far, and of its tokens those with the highest perplexity stay (tasks/refiners/tokens.py, with what the authors'
  package does otherwise: so does this refiner).

With refine.rest=whole the tokens that stay are those of the package (llmlingua 0.2.2) with the same `rate`,
`iterative_size` for refine.segment and `context_budget="*2"` for refine.coarse=2, but for a few: the package gives the
model no start token, and of several hits it reads each after those before it, where here each is read alone at first.

Deviations: instruction and question are the generator's, who reads them whole, so they get no budget; the share that
is left of a segment makes up for what the first step dropped, so that all together come to refine.rate; the small model
is not aligned with the one that answers (section 4.3).

Perplexity is that of a hit after its title. A title that is shown stays whole. A hit longer than the model is read in
parts, and of a row that is longer the beginning is forgotten. max_words and max_tokens cut what was compressed at its
end.

`longllmlingua`: LLMLingua that knows the question: of hits and tokens, those stay that have to do with it.

Jiang et al., 2024 (arXiv 2310.06839), whose sections are:

- Coarse (4.1): r_k = 1/N Σ ln p(x_i | hit k, x_<i) over the N tokens of the question and of a sentence behind it that
  says that the answer is in the text above. The hits with the highest r_k are kept until they have more than
  refine.coarse times the tokens that are to be left.
- Fine (4.1): as LLMLingua, but a token's worth is its contrastive perplexity, what the
  question before the text takes from its surprise: ln p(x_i | question, x_<i) − ln p(x_i | x_<i).
- Reordering (4.2): the hits stand in descending order of r_k.
- Dynamic ratio (4.3): of the i-th of K kept hits, i from 0, the share τ + δ (1 − 2 i / (K − 1)), held to 0 to 1, is
  left. The paper divides by K; so that the shares are τ in the mean, the authors' package (llmlingua 0.2.2) and this
  refiner divide by K − 1.

Deviations: instruction and question are the generator's, who reads them whole, and get no budget. The sentence behind
the question is of our own wording. Where a budget is to be filled, τ is such that the shares fill it. The last step of
the paper (4.4, subsequence recovery) mends names in the answer, and is left out: a refiner sees no answer.

The model reads a segment twice, with the question and
without it; what depends on a question and a single hit is remembered, so that further budgets cost the segments alone.
"""

from abc import abstractmethod
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from vitalfew.configs.options import CausalModel
from vitalfew.tasks.models.causal.surprise import Running, Surprise
from vitalfew.tasks.models.ticks import Tick, TokensAlone, no_tick
from vitalfew.tasks.refiners.base import Hit, ModelRefiner, Refined, Refiner, Vectors
from vitalfew.tasks.refiners.tokens import (
    Floats,
    ReadHit,
    Rule,
    TokenRow,
    compress,
    evidence,
    fill,
    joined,
    reading,
)
from vitalfew.tasks.refiners.whole_hits import Cut
from vitalfew.tasks.splitters.tokens import count_tokens, count_words

BETWEEN = "\n\n"
"""Stands between two hits."""
NATURAL = 0.5
"""The share that is left where neither it nor a budget is named."""
RESTRICTION = " The text above holds the answer to this question."


class Compressing(CausalModel, Refiner.Options):
    """Settings of compression at the level of tokens."""

    rate: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Share of the hits' tokens to keep. Default: 0.5, or none if max_words or max_tokens is set, "
        "which is then filled.",
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
        """Let a budget decide how much is left."""
        return self.rate is None and self.has_budget

    def share(self, hits: Sequence[Hit]) -> float:
        """Return the share of these hits' tokens to keep."""
        if not self.fills:
            return self.rate or NATURAL
        shown = [hit.shown(self) for hit in hits]
        allowed = ((self.max_words, sum(map(count_words, shown))), (self.max_tokens, sum(map(count_tokens, shown))))
        return min(1.0, *(budget / max(1, count) for budget, count in allowed if budget is not None))


class TokenCompressor(ModelRefiner[Surprise]):
    """Base of refiners that drop hits, and then tokens of the kept hits; a subclass rates both."""

    reorders: bool = False
    """Put the hits of the highest rank first."""
    cut: Cut

    def __init__(self, options: Compressing) -> None:
        """Raises ConfigError, EngineUnavailable."""
        super().__init__(options, Surprise(options.model, options, "refine"))
        self.cut = Cut(options)

    @abstractmethod
    def rank(
        self, questions: Sequence[str], texts: Sequence[str], count: TokensAlone
    ) -> tuple[Sequence[Floats], Sequence[float]]:
        """Rate the texts of hits, with their questions beside them: the worth of the tokens, and the rank of every hit,
        the highest the best."""

    def befores(self, question: str) -> list[str]:
        """Return the texts before the hits, one for every pass that reads them."""
        return [""]

    def worth(self, surprises: Sequence[Floats]) -> Floats:
        """Return the worth of tokens, by their surprise in every pass."""
        return surprises[0]

    def shares(self, lengths: Sequence[int], aim: float) -> list[float]:
        """Return the share of tokens to keep of every kept hit, the highest rank first: together `aim` tokens."""
        return [min(1.0, aim / max(1, sum(lengths)))] * len(lengths)

    def refine(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        vectors: Vectors | None = None,
        tick: Tick = no_tick,
    ) -> Refined:
        # A hit of white space has nothing to leave.
        read = [[hit for hit in own[: self.options.top_k] if hit.text.strip()] for own in hits]
        count = TokensAlone(tick)
        if not any(read):
            tick(len(questions), 0)
            return Refined([[] for _ in questions], notes={"tokens": 0, "left": 0})
        parts, ranks = self._read(questions, read, count)
        chosen = [self._coarse(*of_question) for of_question in zip(read, parts, ranks, strict=True)]
        [between] = self.model.encode([BETWEEN])
        texts = [
            self._compressed(question, [own[number] for number in numbers], shares, between, count)
            for question, own, (numbers, shares) in zip(questions, parts, chosen, strict=True)
        ]
        kept = [[own[number] for number in numbers] for own, (numbers, _) in zip(read, chosen, strict=True)]
        for own, text in zip(kept, texts, strict=True) if self.options.fills else ():
            fill(own, text, self.options)
        contexts = [evidence(own, text, self.cut) for own, text in zip(kept, texts, strict=True)]
        tick(len(questions), 0)
        notes = {
            "tokens": sum(len(part.ids) for own in parts for part in own),
            "left": sum(int(text.left.sum()) for text in texts),
        }
        return Refined(contexts, count.tokens, notes)

    def _compressed(
        self,
        question: str,
        parts: Sequence[ReadHit],
        shares: Sequence[float],
        between: Sequence[int],
        count: TokensAlone,
    ) -> TokenRow:
        """The tokens of a question's hits. A question at a time: a model's cache of it is large. `shares`: the
        share of every hit to keep; `between`: the tokens between two."""
        segment = min(self.options.segment, max(2, self.model.limit // 2))
        rule = Rule(segment, int(self.options.judge == "next"), self.options.rest == "whole", self.options.fills)
        text = joined(parts, shares, between, rule)
        rows = [Running(self.model, before, count) for before in self.model.encode(self.befores(question))]
        compress(text, rule, lambda ids, keep: self.worth([row.of(ids, keep) for row in rows]))
        return text

    def _read(
        self, questions: Sequence[str], hits: Sequence[Sequence[Hit]], count: TokensAlone
    ) -> tuple[list[list[ReadHit]], list[list[float]]]:
        """Every question's hits as they are read, and their ranks."""
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
        self, questions: Sequence[str], texts: Sequence[str], count: TokensAlone
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
        self, questions: Sequence[str], texts: Sequence[str], count: TokensAlone
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
