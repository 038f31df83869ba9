"""`weighted_sum`: Self-RAG's choice (Asai et al., 2023, arXiv 2310.11511, section 3.3): the greatest weighted sum.

score = w_rel · ISREL + w_sup · ISSUP + w_use · ISUSE, with ISUSE on Self-RAG's scale from −1 to 1 (2 · ISUSE − 1) or on
PFE's from 0 to 1. With `sequence_probability` the geometric mean of the answer's token probabilities is added, as
Self-RAG's program does on request; an answer whose probability is unknown adds nothing. With `add_equal` the scores of
equal answers add up, and the one that scores best alone stands for them: a vote, which Self-RAG's program holds in
closed tasks alone (multiple choice, claims). Equal means equal as exact match compares.
"""

from typing import ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field

from vitalfew.configs.evaluation import SelectConfig
from vitalfew.tasks.selectors.base import Chosen, Critiqued, best


class WeightedSum:
    """Self-RAG: the answer with the greatest weighted sum of the three scores; in closed tasks equal answers add up."""

    class Options(SelectConfig):
        model_config = ConfigDict(extra="forbid")

        weight_isrel: float = Field(1.0, ge=0, description="Weight of ISREL.")
        weight_issup: float = Field(1.0, ge=0, description="Weight of ISSUP.")
        weight_isuse: float = Field(0.5, ge=0, description="Weight of ISUSE.")
        utility: Literal["self_rag", "pfe"] = Field(
            "self_rag", description="Scale of ISUSE. self_rag: -1 to 1; pfe: 0 to 1."
        )
        add_equal: bool = Field(
            False, description="Add up the scores of equal answers, as Self-RAG does for multiple choice and claims."
        )
        sequence_probability: bool = Field(False, description="Add the answer's probability per token to its score.")

    version: ClassVar[str] = "1"

    def __init__(self, options: Options) -> None:
        self.options = options

    def select(self, candidates: Critiqued) -> Chosen:
        options, usable = self.options, candidates.usable
        utility = candidates.isuse if options.utility == "pfe" else 2 * candidates.isuse - 1
        score = options.weight_isrel * candidates.isrel + options.weight_issup * candidates.issup
        score = score + options.weight_isuse * utility
        if options.sequence_probability:
            score = score + np.nan_to_num(np.exp(candidates.logprob))
        if not options.add_equal:
            return best(score, usable)
        own = np.where(usable, score, 0.0)
        equal = candidates.same[:, :, None] == candidates.same[:, None, :]
        together = (equal * own[:, None, :]).sum(axis=2)
        top = np.where(usable, together, -np.inf)
        leaders = usable & (top == top.max(axis=1, initial=-np.inf, keepdims=True))
        return Chosen(best(score, leaders).answers, together)
