"""Oreo's contrastive loss (arXiv 2502.13019, equation 2), and the ranks that it is about.

Every pair of candidates of a question is compared: the one that is more like the gold evidence text should be nearer to
what is read, by a margin that grows with the distance of their ranks. Pairs whose scores differ by no more than `TIE`
are left out, as in CoNT (An et al. 2022, arXiv 2205.14690), which the paper follows.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

TIE = 0.01


def pairwise_loss(similarity: Tensor, scores: Sequence[float], margin: float) -> Tensor:
    """Σ max{0, cos(−) − cos(+) + η (rank(−) − rank(+))} over the pairs of a question's candidates.

    `similarity`: cosines of the candidates with what is read, float32 (n,); `scores`: the higher the better; their
    ranks, from 1, follow from them; `margin`: η.
    """
    ranks = torch.tensor(ranked(scores), device=similarity.device, dtype=similarity.dtype)
    values = torch.tensor(scores, device=similarity.device, dtype=similarity.dtype)
    better = values[:, None] - values[None, :] > TIE
    gaps = similarity[None, :] - similarity[:, None] + margin * (ranks[None, :] - ranks[:, None])
    return gaps.clamp(min=0)[better].sum()


def ranked(scores: Sequence[float]) -> list[int]:
    """Places from 1, best first; of equals the earlier one is better."""
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    ranks = [0] * len(scores)
    for rank, place in enumerate(order, 1):
        ranks[place] = rank
    return ranks


@cache
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import DefaultTokenizer

    return RougeScorer(["rougeL"], tokenizer=DefaultTokenizer(use_stemmer=False))


def rouge_l(text: str, gold: str) -> float:
    """ROUGE-L of a text, F-measure, 0 to 1."""
    return float(_scorer().score(gold, text)["rougeL"].fmeasure)
