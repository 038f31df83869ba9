"""`weighted_sum`: Self-RAG's choice (Asai et al., 2023, arXiv 2310.11511, section 3.3): the greatest weighted sum.

score = w_rel · ISREL + w_sup · ISSUP + w_use · ISUSE, with ISUSE on Self-RAG's scale from −1 to 1 (2 · ISUSE − 1) or on
PFE's from 0 to 1. With `sequence_probability` the geometric mean of the answer's token probabilities is added, as
Self-RAG's program does on request; an answer whose probability is unknown adds nothing. With `add_equal` the scores of
equal answers add up, and the one that scores best alone stands for them. Self-RAG's program does so for
multiple choice; here it is done for every answer, equal meaning equal as exact match compares.
"""

from typing import ClassVar

import numpy as np

from configs.evaluation import SelectConfig
from tasks.selectors.base import Chosen, Critiqued, best


class WeightedSum:
    """Self-RAG: the greatest weighted sum of the three scores; equal answers add up."""

    version: ClassVar[str] = "1"
    settings: ClassVar[frozenset[str]] = frozenset(
        {"weight_isrel", "weight_issup", "weight_isuse", "utility", "add_equal", "sequence_probability"}
    )

    def __init__(self, config: SelectConfig) -> None:
        self.config = config

    def select(self, candidates: Critiqued) -> Chosen:
        config, usable = self.config, candidates.usable
        utility = candidates.isuse if config.utility == "pfe" else 2 * candidates.isuse - 1
        score = config.weight_isrel * candidates.isrel + config.weight_issup * candidates.issup
        score = score + config.weight_isuse * utility
        if config.sequence_probability:
            score = score + np.nan_to_num(np.exp(candidates.logprob))
        if not config.add_equal:
            return best(score, usable)
        own = np.where(usable, score, 0.0)
        equal = candidates.same[:, :, None] == candidates.same[:, None, :]
        together = (equal * own[:, None, :]).sum(axis=2)
        top = np.where(usable, together, -np.inf)
        leaders = usable & (top == top.max(axis=1, initial=-np.inf, keepdims=True))
        return Chosen(best(score, leaders).answers, together)
