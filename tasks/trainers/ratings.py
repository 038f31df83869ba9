"""How well a tuned model rates contexts, and how near it comes to the gold answers, from one pass for each question."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.metrics import f1_score, roc_auc_score
from torch import Tensor
from torch.nn.functional import cross_entropy

from vitalfew.tasks.trainers.packed import Packed


@dataclass(frozen=True, slots=True)
class Ratings:
    """Of one question: the probability of "yes" of each context and whether it should be; losses in nats, the answer's
    per token; `exact`: whether the most probable tokens are the answer, so that greedy decoding writes it."""

    scores: list[float]
    relevant: list[bool]
    rating_loss: float | None
    answer_loss: float
    exact: bool

    @classmethod
    def of(cls, packed: Packed, logits: Tensor, yes: int) -> "Ratings":
        """`logits`: at the places of the ratings, then of the answer, (places, vocabulary)."""
        wanted = torch.tensor([token for _, token in (*packed.ratings, *packed.answer)], device=logits.device)
        rated = len(packed.ratings)
        return cls(
            torch.softmax(logits[:rated], dim=1)[:, yes].tolist(),
            [token == yes for _, token in packed.ratings],
            cross_entropy(logits[:rated], wanted[:rated]).item() if rated else None,
            cross_entropy(logits[rated:], wanted[rated:]).item(),
            bool((logits[rated:].argmax(1) == wanted[rated:]).all()),
        )


@dataclass(frozen=True, slots=True)
class Rated:
    """Means over questions. `auc`: area under the ROC curve of all contexts' ratings; `f1`: of those above 0.5. Both,
    and `rating_loss`, are None without ratings, and AUC where all contexts have one label. `exact` in percent."""

    questions: int
    contexts: int
    auc: float | None
    f1: float | None
    rating_loss: float | None
    answer_loss: float
    exact: float


def measured(found: Sequence[Ratings], contexts: int) -> Rated:
    scores = [score for each in found for score in each.scores]
    truth = [relevant for each in found for relevant in each.relevant]
    losses = [each.rating_loss for each in found if each.rating_loss is not None]
    return Rated(
        len(found),
        contexts,
        round(float(roc_auc_score(truth, scores)), 4) if len(set(truth)) == 2 else None,
        round(float(f1_score(truth, [score > 0.5 for score in scores], zero_division=0.0)), 4) if truth else None,
        round(float(np.mean(losses)), 4) if losses else None,
        round(float(np.mean([each.answer_loss for each in found])), 4),
        round(100 * float(np.mean([each.exact for each in found])), 2),
    )
