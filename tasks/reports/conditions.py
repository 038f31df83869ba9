"""Where a method pays: its difference to the baseline among questions that are alike in a condition, by thirds."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from vitalfew.tasks.metrics.conditions import COLUMNS
from vitalfew.tasks.reports.contents import Among, MethodResult
from vitalfew.tasks.reports.question_scores import QuestionScores, Values
from vitalfew.tasks.reports.statistics.paired import paired_bootstrap

GROUPS = 3


def among(
    methods: Sequence[MethodResult], scores: Mapping[str, QuestionScores], metric: str | None
) -> tuple[Among, ...]:
    """For every condition and every method that has a baseline, its differences in `metric`, group by group.

    The condition is the baseline's, so that a group has the same questions whatever a method retrieved. None where the
    conditions were not scored, or all questions are alike in them.
    """
    return tuple(
        each
        for column in COLUMNS
        for method in methods
        if metric and method.against is not None
        for each in _among(scores[method.name], scores[methods[method.against].name], column.name, method.name, metric)
    )


def _among(own: QuestionScores, baseline: QuestionScores, condition: str, method: str, metric: str) -> Iterator[Among]:
    conditions = baseline.of(condition, own.ids)
    values, references = own.of(metric, own.ids), baseline.of(metric, own.ids)
    for members in grouped(np.where(np.isnan(values) | np.isnan(references), np.nan, conditions)):
        [difference] = paired_bootstrap(references[members], values[np.newaxis, members])
        inside = conditions[members]
        yield Among(condition, method, float(inside.min()), float(inside.max()), difference)


def grouped(values: Values) -> list[NDArray[np.bool_]]:
    """Which questions are in which group, the lowest values first: one for each value where there are three at most,
    else thirds; equal values are never parted. [] where all are alike. `values`: NaN is in no group."""
    known = values[~np.isnan(values)]
    distinct = np.unique(known)
    if len(distinct) < 2:
        return []
    edges = distinct[:-1] if len(distinct) <= GROUPS else np.quantile(known, np.arange(1, GROUPS) / GROUPS)
    group = np.where(np.isnan(values), -1, np.searchsorted(edges, values))
    return [group == number for number in range(len(edges) + 1) if (group == number).any()]
