"""Whether labels are as the gold passages have it (Sparse RAG, arXiv 2405.16178, tables 2 and 13).

A passage is relevant (1) if it is a gold passage of its question, as people said; a label of at least 0.5 is 1.
Accuracy, F1 of either label and their mean, over the labelled passages of all questions together. The paper's people
labelled every passage; a data set names those that it knows of. A question without gold passages or labels is left out.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from vitalfew.tasks.metrics.assessment import OfAllLabels, f1_of_labels
from vitalfew.tasks.metrics.base import GOLD_PASSAGES, LABELS, Case, Column, Summary

_NEEDS = (GOLD_PASSAGES, LABELS)
_COLUMNS = (
    Column("label_accuracy", "accuracy of labels", needs=_NEEDS),
    Column("label_f1_0", "F1 of label 0", needs=_NEEDS),
    Column("label_f1_1", "F1 of label 1", needs=_NEEDS),
    Column("label_f1", "average F1 of labels", needs=_NEEDS),
    Column("label_relevant", "labelled relevant", direction="neither", needs=_NEEDS, detail=True),
)


class Agreement(OfAllLabels):
    """A labeller's labels against the gold passages: accuracy, F1 of either label, and their mean."""

    shown = _COLUMNS

    def summary(self, cases: Sequence[Case]) -> Mapping[str, Summary]:
        pairs = [(number in case.gold_passages, label >= 0.5) for case in cases for number, label in _labels(case)]
        left_out = sum(not _labels(case) for case in cases)
        gold, said = np.array(pairs, bool).reshape(-1, 2).T
        accuracy, relevant = (float((gold == said).mean()), float(said.mean())) if pairs else (None, None)
        figures = (accuracy, *f1_of_labels(gold, said), relevant)
        return {column.name: Summary(value, left_out) for column, value in zip(_COLUMNS, figures, strict=True)}


def _labels(case: Case) -> tuple[tuple[int, float], ...]:
    return case.labels if case.gold_passages else ()
