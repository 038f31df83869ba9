"""Methods set against one another, question by question: which with which, by how much, and how sure that is."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from vitalfew.tasks.metrics.base import Column
from vitalfew.tasks.reports.contents import BestAlpha, MethodResult, Pair
from vitalfew.tasks.reports.families import ALPHA, alpha_of, families
from vitalfew.tasks.reports.runs import QuestionScores
from vitalfew.tasks.reports.shown.columns import costs
from vitalfew.tasks.reports.statistics.bootstrap import best_row
from vitalfew.tasks.reports.statistics.paired import Difference, corrected, paired_bootstrap


def opponents(settings: Sequence[Mapping[str, Any]], baselines: Sequence[int]) -> list[int | None]:
    """For every method the place of the baseline that it is compared with; None for the baselines themselves.

    Where a grid made several of the baseline it is the one that has most settings in common with the method: top-k 20
    against top-k 20. Only settings in which baselines differ count; of equals, the first.
    """
    keys = [key for key in settings[baselines[0]] if len({repr(settings[place].get(key)) for place in baselines}) > 1]

    def unlike(place: int, method: int) -> int:
        return sum(settings[place].get(key) != settings[method].get(key) for key in keys)

    return [
        None if method in baselines else min(baselines, key=lambda place: (unlike(place, method), place))
        for method in range(len(settings))
    ]


def differences(
    scores: Sequence[QuestionScores], against: Sequence[int | None], columns: Sequence[Column], primary: str | None
) -> list[dict[str, Difference]]:
    """For every method its differences to its baseline, metric by metric; Holm's correction is over the methods in
    `primary`, and over all differences in any other metric that is no cost."""
    of_methods: list[dict[str, Difference]] = [{} for _ in scores]
    pairs = [(place, other) for place, other in enumerate(against) if other is not None]
    ids = scores[0].ids
    for column in columns if pairs else ():
        values = np.stack([scores[place].of(column.name, ids) for place, _ in pairs])
        baselines = np.stack([scores[other].of(column.name, ids) for _, other in pairs])
        for (place, _), difference in zip(pairs, paired_bootstrap(baselines, values), strict=True):
            if difference.questions:
                of_methods[place][column.name] = difference
    return corrected(of_methods, primary, costs(columns))


def pairs(scores: Sequence[QuestionScores], places: Sequence[int], column: str) -> list[Pair]:
    """All pairs of these methods, in a column; Holm's correction is over all of them."""
    both = [*combinations(places, 2)]
    if not both:
        return []
    ids = scores[0].ids
    of_place = {place: scores[place].of(column, ids) for place in places}
    ones, others = (np.stack([of_place[place] for place in side]) for side in zip(*both, strict=True))
    adjusted = corrected([{column: each} for each in paired_bootstrap(others, ones)], column)
    return [Pair(one, other, own[column]) for (one, other), own in zip(both, adjusted, strict=True)]


def best_alphas(results: Sequence[MethodResult], scores: Sequence[QuestionScores]) -> Iterator[BestAlpha]:
    """For every metric that is better the higher, of every family of three and more that differ in alpha alone."""
    places = {id(result): place for place, result in enumerate(results)}
    for name, methods in families(ALPHA, results).items():
        members = [places[id(method)] for method in methods]
        alphas = [alpha for method in methods if (alpha := alpha_of(method)) is not None]
        if len(alphas) < 3 or len(alphas) < len(members):
            continue
        for column, summary in results[members[0]].summaries.items():
            values = np.stack([scores[place].of(column, scores[place].ids) for place in members])
            if summary.column.direction == "higher" and (best := best_row(values)):
                low, high = alphas[best.low], alphas[best.high]
                yield BestAlpha(column, name, alphas[best.row], min(low, high), max(low, high))
