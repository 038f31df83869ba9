"""Methods set against one another, question by question: which with which, by how much, and how sure that is; and
methods that differ in one setting alone, as families with names."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from vitalfew.tasks.metrics.base import Column
from vitalfew.tasks.reports.contents import BestAlpha, MethodResult, Pair
from vitalfew.tasks.reports.runs import QuestionScores
from vitalfew.tasks.reports.shown.columns import costs
from vitalfew.tasks.reports.shown.tables import setting_text
from vitalfew.tasks.reports.shown.text import one_line
from vitalfew.tasks.reports.statistics.bootstrap import best_row
from vitalfew.tasks.reports.statistics.paired import Difference, corrected, paired_bootstrap

ALPHA = "alpha"
"""The setting of this name, in whatever section."""


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
                row, *between = (alphas[place] for place in best)
                yield BestAlpha(column, name, row, min(between), max(between))


def families(key: str, methods: Sequence[MethodResult]) -> dict[str, list[MethodResult]]:
    """Group methods that differ in the setting `key` alone, by their `family_names`, in order of first appearance."""
    groups: dict[str, list[MethodResult]] = {}
    for method in methods:
        groups.setdefault(repr(settings_but(key, method)), []).append(method)
    names = family_names([settings_but(key, members[0]) for members in groups.values()])
    return dict(zip(names, groups.values(), strict=True))


def settings_but(key: str, method: MethodResult) -> dict[str, Any]:
    """The settings of a method without one, sorted by their keys."""
    return {name: value for name, value in sorted(method.settings.items()) if not _is(name, key)}


def alpha_of(method: MethodResult) -> float | None:
    value = next((value for key, value in method.settings.items() if _is(key, ALPHA)), None)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _is(name: str, key: str) -> bool:
    """True if a setting is called `key`, in full or without its section."""
    return name == key or name.rpartition(".")[2] == key


def family_names(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name groups by the settings in which they differ: '' for a single group, and no name twice."""
    keys = [*dict.fromkeys(key for group in groups for key in group)]
    differing = [key for key in keys if len({repr(group.get(key)) for group in groups}) > 1]
    names: list[str] = []
    for group in groups:
        settings = ((key.rpartition(".")[2], setting_text(group.get(key)) or "none") for key in differing)
        name = one_line(", ".join(f"{key}={value}" for key, value in settings))
        names.append(name if name not in names else f"{name} ({len(names) + 1})")
    return names
