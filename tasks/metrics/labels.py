"""Ratings of contexts and labels of passages against the gold passages (Sparse RAG, arXiv 2405.16178).

Both are figures of all questions together, without questions that lack gold passages, ratings or labels.

**Ratings** of a generator (table 2's measures). A context is relevant (1) if it comes from a gold passage of its
question. AUC: the probability that a relevant context is rated higher than another one, ties half. F1 of either label,
where a context is taken for relevant if it was kept, and their mean.

**Labels** of a labeller (tables 2 and 13). A passage is relevant (1) if it is a gold passage of its question, as people
said; a label of at least 0.5 is 1. Accuracy, F1 of either label and their mean, over the labelled passages. The paper's
people labelled every passage; a data set names those that it knows of.
"""

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import f1_score, roc_auc_score

from vitalfew.tasks.metrics.base import CONTEXTS, GOLD_PASSAGES, LABELS, RATINGS, Case, Column, OfAllAnswers

_RATED = (GOLD_PASSAGES, CONTEXTS, RATINGS)
_LABELLED = (GOLD_PASSAGES, LABELS)


class Assessment(OfAllAnswers):
    """A generator's ratings of its contexts against the gold passages: AUC, F1 of either label, and their mean."""

    shown = (
        Column("rating_auc", "rating AUC", needs=_RATED),
        Column("rating_f1_0", "F1 of label 0", needs=_RATED, detail=True),
        Column("rating_f1_1", "F1 of label 1", needs=_RATED, detail=True),
        Column("rating_f1", "average F1 of ratings", needs=_RATED),
    )

    def figures(self, cases: Sequence[Case]) -> tuple[Sequence[float | None], int]:
        labelled = [labels(case) for case in cases]
        relevant, scores, kept = np.array([row for of_case in labelled for row in of_case], float).reshape(-1, 3).T
        left_out = sum(not of_case for of_case in labelled)
        return (auc(relevant == 1, scores), *f1_of_labels(relevant == 1, kept == 1)), left_out


def labels(case: Case) -> list[tuple[bool, float, bool]]:
    """For every rated context: whether it is relevant, its score, whether it was kept; none where that is not known."""
    if not (case.gold_passages and case.contexts and case.answer) or case.answer.error:
        return []
    gold = set(case.gold_passages)
    return [
        (bool(gold.intersection(case.contexts[rating.rank - 1].passages)), rating.score, rating.kept)
        for rating in case.answer.ratings
    ]


def auc(relevant: np.ndarray, scores: np.ndarray) -> float | None:
    """Area under the curve of true against false positives; None where one label does not occur."""
    return float(roc_auc_score(relevant, scores)) if 0 < relevant.sum() < len(relevant) else None


def f1_of_labels(true: np.ndarray, taken: np.ndarray) -> tuple[float | None, float | None, float | None]:
    """F1 of label 0, of label 1, and their mean; None where there is nothing to find and nothing was taken."""
    zero, one = _f1(~true, ~taken), _f1(true, taken)
    return zero, one, None if zero is None or one is None else (zero + one) / 2


def _f1(true: np.ndarray, taken: np.ndarray) -> float | None:
    return float(f1_score(true, taken)) if true.any() or taken.any() else None


class Agreement(OfAllAnswers):
    """A labeller's labels against the gold passages: accuracy, F1 of either label, and their mean."""

    shown = (
        Column("label_accuracy", "accuracy of labels", needs=_LABELLED),
        Column("label_f1_0", "F1 of label 0", needs=_LABELLED),
        Column("label_f1_1", "F1 of label 1", needs=_LABELLED),
        Column("label_f1", "average F1 of labels", needs=_LABELLED),
        Column("label_relevant", "labelled relevant", direction="neither", needs=_LABELLED, detail=True),
    )

    def figures(self, cases: Sequence[Case]) -> tuple[Sequence[float | None], int]:
        labelled = [case.labels if case.gold_passages else () for case in cases]
        pairs = [
            (number in case.gold_passages, label >= 0.5)
            for case, labels in zip(cases, labelled, strict=True)
            for number, label in labels
        ]
        gold, said = np.array(pairs, bool).reshape(-1, 2).T
        accuracy, relevant = (float((gold == said).mean()), float(said.mean())) if pairs else (None, None)
        return (accuracy, *f1_of_labels(gold, said), relevant), sum(not labels for labels in labelled)
