"""Our counterparts of a paper's figures, with intervals: values, differences and ratios over the same questions."""

from collections.abc import Iterable, Mapping

import numpy as np

from vitalfew.configs.paper import Ours
from vitalfew.tasks.reports.question_scores import QuestionScores
from vitalfew.tasks.reports.statistics.bootstrap import Interval, mean_interval, ratio_interval
from vitalfew.tasks.reports.statistics.paired import paired_bootstrap


def counterparts(wanted: Iterable[Ours], scores: Mapping[str, QuestionScores]) -> dict[Ours, Interval]:
    """Of those that are of single questions. What the costs say is one measurement, MAUVE is of all answers together:
    neither has an interval. `scores`: by method."""
    return {ours: found for ours in wanted if (found := _counterpart(ours, scores)) is not None}


def _counterpart(ours: Ours, scores: Mapping[str, QuestionScores]) -> Interval | None:
    sides = [scores.get(name) for name in (ours.method, ours.minus or ours.over) if name]
    if not sides or any(side is None or ours.metric not in side.values for side in sides):
        return None
    ids = next(side.ids for side in sides if side)
    values, *others = (side.of(ours.metric, ids) for side in sides if side)
    if ours.over:
        return ratio_interval(values, others[0])
    if ours.minus:
        [difference] = paired_bootstrap(others[0], values[np.newaxis])
        return Interval(difference.mean_difference, difference.low, difference.high, difference.questions)
    return mean_interval(values[np.newaxis])[0]
