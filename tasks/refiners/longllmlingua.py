"""`longllmlingua`: LLMLingua that knows the question: of hits and tokens, those stay that have to do with it.

Jiang et al., 2024 (arXiv 2310.06839), whose sections are:

- Coarse (4.1): r_k = 1/N Σ ln p(x_i | hit k, x_<i) over the N tokens of the question and of a sentence behind it that
  says that the answer is in the text above. The hits with the highest r_k are kept until they have more than
  refine.coarse times the tokens that are to be left.
- Fine (4.1): as LLMLingua (tasks/refiners/tokens.py), but a token's worth is its contrastive perplexity, what the
  question before the text takes from its surprise: ln p(x_i | question, x_<i) − ln p(x_i | x_<i).
- Reordering (4.2): the hits stand in descending order of r_k.
- Dynamic ratio (4.3): of the i-th of K kept hits, i from 0, the share τ + δ (1 − 2 i / (K − 1)), held to 0 to 1, is
  left. The paper divides by K; so that the shares are τ in the mean, the authors' package (llmlingua 0.2.2) and this
  refiner divide by K − 1.

Deviations: instruction and question are the generator's, who reads them whole, and get no budget. The sentence behind
the question is of our own wording. Where a budget is to be filled, τ is such that the shares fill it. The last step of
the paper (4.4, subsequence recovery) mends names in the answer, and is left out: a refiner sees no answer.

Titles, texts that are too long and budgets: as in `llmlingua`. The model reads a segment twice, with the question and
without it; what depends on a question and a single hit is remembered, so that further budgets cost the segments alone.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import ConfigDict, Field

from vitalfew.tasks.models.ticks import TokensAlone
from vitalfew.tasks.refiners.compressor import BETWEEN, Compressing, Compressor
from vitalfew.tasks.refiners.tokens import Floats

RESTRICTION = " The text above holds the answer to this question."


class LongLLMLingua(Compressor):
    """A small causal model keeps the hits and tokens that relate to the question (LongLLMLingua)."""

    class Options(Compressing):
        model_config = ConfigDict(extra="forbid")

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
    version: ClassVar[str] = "1"
    options: Options

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
