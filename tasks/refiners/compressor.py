"""A refiner that drops hits, and then tokens of what is kept: what `llmlingua` and `longllmlingua` have in common."""

from abc import abstractmethod
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Literal

from pydantic import Field

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.configs.options import CausalModel
from vitalfew.tasks.models.causal.surprise import Running, Surprise
from vitalfew.tasks.models.ticks import Tick, TokensAlone, no_tick
from vitalfew.tasks.refiners.base import Hit, Refined, Vectors
from vitalfew.tasks.refiners.cut import Cut
from vitalfew.tasks.refiners.model import ModelRefiner
from vitalfew.tasks.refiners.tokens import (
    Floats,
    Reading,
    Rule,
    Text,
    compress,
    evidence,
    fill,
    joined,
    read_as,
    reading,
)
from vitalfew.tasks.splitters.tokens import count_tokens, count_words

BETWEEN = "\n\n"
"""Stands between two hits."""
NATURAL = 0.5
"""The share that is left where neither it nor a budget is named."""


class Compressing(CausalModel, RefineConfig):
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
        """Whether a budget says how much is left."""
        return self.rate is None and self.has_budget

    def share(self, hits: Sequence[Hit]) -> float:
        """Of the tokens of these hits, how much is to be left."""
        if not self.fills:
            return self.rate or NATURAL
        shown = [hit.shown(self) for hit in hits]
        allowed = ((self.max_words, sum(map(count_words, shown))), (self.max_tokens, sum(map(count_tokens, shown))))
        return min(1.0, *(budget / max(1, count) for budget, count in allowed if budget is not None))


class Compressor(ModelRefiner[Surprise]):
    """A subclass says what hits and tokens are worth."""

    reorders: bool = False
    """Whether the hits of the highest rank come first."""
    options: Any
    cut: Cut

    def __init__(self, options: Compressing) -> None:
        """Raises ConfigError, EngineUnavailable."""
        super().__init__(options, Surprise(options.model, options, "refine"))
        self.cut = Cut(options)

    @abstractmethod
    def rank(
        self, questions: Sequence[str], texts: Sequence[str], count: TokensAlone
    ) -> tuple[Sequence[Floats], Sequence[float]]:
        """Of every hit's text, with its question beside it: what its tokens are worth, and its rank, the highest the
        best."""

    def befores(self, question: str) -> list[str]:
        """What stands before the text, each time that it is read."""
        return [""]

    def worth(self, surprises: Sequence[Floats]) -> Floats:
        """What tokens are worth, by their surprise each time that they were read."""
        return surprises[0]

    def shares(self, lengths: Sequence[int], aim: float) -> list[float]:
        """Of the kept hits' tokens, that of the highest rank first, how much is to be left: `aim` together."""
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
        parts: Sequence[Reading],
        shares: Sequence[float],
        between: Sequence[int],
        count: TokensAlone,
    ) -> Text:
        """The tokens of a question's hits. A question at a time: a model's cache of it is large. `shares`: what is to
        be left of each hit; `between`: the tokens between two."""
        segment = min(self.options.segment, max(2, self.model.limit // 2))
        rule = Rule(segment, int(self.options.judge == "next"), self.options.rest == "whole", self.options.fills)
        text = joined(parts, shares, between, rule)
        rows = [Running(self.model, before, count) for before in self.model.encode(self.befores(question))]
        compress(text, rule, lambda ids, keep: self.worth([row.of(ids, keep) for row in rows]))
        return text

    def _read(
        self, questions: Sequence[str], hits: Sequence[Sequence[Hit]], count: TokensAlone
    ) -> tuple[list[list[Reading]], list[list[float]]]:
        """Every question's hits as they are read, and their ranks."""
        pairs = [(question, hit) for question, own in zip(questions, hits, strict=True) for hit in own]
        texts = [read_as(hit) for _, hit in pairs]
        worth, ranks = self.rank([question for question, _ in pairs], texts, count)
        tokens = self.model.places(texts)
        shows = self.options.shows_titles
        parts = [reading(hit, own, values, shows) for (_, hit), own, values in zip(pairs, tokens, worth, strict=True)]
        places = [slice(*ends) for ends in pairwise(accumulate(map(len, hits), initial=0))]
        return [parts[place] for place in places], [[*ranks[place]] for place in places]

    def _coarse(
        self, hits: Sequence[Hit], parts: Sequence[Reading], ranks: Sequence[float]
    ) -> tuple[list[int], list[float]]:
        """The numbers of the hits that are kept, in their order, and what is to be left of each."""
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
