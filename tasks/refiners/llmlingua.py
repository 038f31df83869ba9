"""`llmlingua`: a small language model keeps the hits, and in them the tokens, that it would guess least (LLMLingua).

Jiang et al., 2023 (arXiv 2310.05736), with hits for demonstrations:

- Budget controller (section 4.1, algorithm 1): hits in descending order of their perplexity are kept until they have
  more than refine.coarse (k) times the tokens that are to be left. What is kept stands in the order of retrieval.
- Token-level compression (section 4.2, algorithm 2): what was kept is read in segments, each after the compressed text
  so far, and of its tokens those with the highest perplexity stay.

Deviations: instruction and question are the generator's, who reads them whole, so they get no budget; the share that
is left of a segment makes up for what the first step dropped, so that all together come to refine.rate; the number of
tokens to leave is exact in the place of a threshold on their perplexity, and what rounding adds or takes is made good
by the next segment; the small model is not aligned with the one that answers (section 4.3).

Titles that are shown are read and compressed with their hits. A hit longer than the model is read in parts for its
perplexity. max_words and max_tokens cut what was compressed at its end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from configs.evaluation import RefineConfig
from configs.options import CausalModel
from tasks.models.surprise import Surprise
from tasks.refiners.base import Hit, Refined, Tick, Vectors, no_tick
from tasks.refiners.cut import Cut
from tasks.refiners.model import ModelRefiner
from tasks.refiners.progress import Counted

Place = tuple[int, int]
"""A token of a question: the number of its hit, and its id."""


@dataclass(slots=True)
class _Text:
    """A question's tokens on the way. `share`: of `tokens`, to be left; `done`: tokens decided; `left`: of those."""

    tokens: list[Place]
    share: float
    done: int = 0
    left: list[Place] = field(default_factory=list)

    def next(self, size: int) -> list[int]:
        return [token for _, token in self.tokens[self.done : self.done + size]]

    def decide(self, surprise: NDArray[np.float32]) -> None:
        """Leave the most surprising of the next tokens, in their order; of equal ones the first."""
        end = self.done + len(surprise)
        count = min(len(surprise), max(0, round(self.share * end) - len(self.left)))
        kept = sorted(np.argsort(-surprise, kind="stable")[:count].tolist())
        self.left += [self.tokens[self.done + place] for place in kept]
        self.done = end


class LLMLingua(ModelRefiner[Surprise]):
    """A small causal model drops the hits and tokens that it could have guessed, down to a share (LLMLingua)."""

    class Options(CausalModel, RefineConfig):
        model_config = ConfigDict(extra="forbid")

        rate: float = Field(0.5, gt=0, le=1, description="Share of the hits' tokens that is left.")
        coarse: float = Field(
            2.0, ge=1, description="Whole hits are kept up to so many times the tokens to be left (the paper's k)."
        )
        segment: int = Field(100, ge=1, description="Tokens that are compressed at once.")

    example: ClassVar[tuple[str, ...]] = ("refine.model=vicuna-7b", "refine.rate=0.4")
    version: ClassVar[str] = "1"
    options: Options
    cut: Cut

    def __init__(self, options: Options) -> None:
        """Raises ConfigError, EngineUnavailable."""
        super().__init__(options, Surprise(options.model, options, "refine"))
        self.cut = Cut(options)

    def refine(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        vectors: Vectors | None = None,
        tick: Tick = no_tick,
    ) -> Refined:
        count = Counted(tick)
        read = [own[: self.options.top_k] for own in hits]
        # The end of a line tells the model that a hit ends; it is easily guessed, and seldom stays.
        shown = [[f"{hit.shown(self.options)}\n" for hit in own] for own in read]
        distinct = [*dict.fromkeys(text for own in shown for text in own)]
        ids = dict(zip(distinct, self.model.encode(distinct) if distinct else (), strict=True))
        perplexity = self._perplexities(ids, count)
        texts = [self._coarse([ids[text] for text in own], [perplexity[text] for text in own]) for own in shown]
        self._compress(texts, count)
        made = [self._hits(own, text.left) for own, text in zip(read, texts, strict=True)]
        notes = {
            "tokens": sum(len(ids[text]) for own in shown for text in own),
            "left": sum(len(t.left) for t in texts),
        }
        return Refined(self.cut.refine(questions, made, tick=tick).contexts, count.tokens, notes)

    def _perplexities(self, texts: dict[str, list[int]], count: Counted) -> dict[str, float]:
        """The logarithm of every text's perplexity: the mean surprise of its tokens."""
        size = self.model.limit
        parts = [(text, ids[at : at + size]) for text, ids in texts.items() for at in range(0, len(ids), size)]
        found: dict[str, list[NDArray[np.float32]]] = {}
        for (text, _), surprise in zip(parts, self.model.of([((), part) for _, part in parts], count), strict=True):
            found.setdefault(text, []).append(surprise)
        return {text: float(np.concatenate(of_text).mean()) if (of_text := found.get(text)) else 0.0 for text in texts}

    def _coarse(self, texts: Sequence[Sequence[int]], perplexity: Sequence[float]) -> _Text:
        """The hits that are kept, whole."""
        aim = self.options.rate * sum(map(len, texts))
        kept: list[int] = []
        for number in sorted(range(len(texts)), key=lambda number: -perplexity[number]):
            if sum(len(texts[each]) for each in kept) > self.options.coarse * aim:
                break
            kept.append(number)
        tokens = [(number, token) for number in sorted(kept) for token in texts[number]]
        return _Text(tokens, min(1.0, aim / len(tokens)) if tokens else 1.0)

    def _compress(self, texts: Sequence[_Text], count: Counted) -> None:
        """Segment by segment, that of every question at once."""
        size = min(self.options.segment, self.model.limit)
        while open_texts := [text for text in texts if text.done < len(text.tokens)]:
            rows = [([token for _, token in text.left], text.next(size)) for text in open_texts]
            for text, surprise in zip(open_texts, self.model.of(rows, count), strict=True):
                text.decide(surprise)

    def _hits(self, hits: Sequence[Hit], left: Sequence[Place]) -> list[Hit]:
        """What is left of each hit, which is no part of its passage any more."""
        of_hit: dict[int, list[int]] = {}
        for number, token in left:
            of_hit.setdefault(number, []).append(token)
        texts = {number: self.model.decode(tokens) for number, tokens in of_hit.items()}
        return [Hit("", text, hits[number].passage_id, 0, 0) for number, text in texts.items() if text]
