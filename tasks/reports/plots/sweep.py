"""Methods that belong together: families that differ in α alone, and their recall as lines over α."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tasks.reports.contents import MethodResult, Report
from tasks.reports.shown.columns import heading
from tasks.reports.shown.tables import setting_text
from tasks.reports.shown.text import one_line

_RECALLS = ("passage_recall", "answer_recall")
_LEVELS = 3
"""Methods without an α that are drawn beside the lines, at most."""
Points = tuple[tuple[float, float, float, float], ...]
"""α, recall, and the ends of its interval (the recall itself where there is none)."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes: `lines` by name, by rising α; `levels`: recall of methods without an α."""

    title: str
    lines: Mapping[str, Points]
    levels: Mapping[str, float] = field(default_factory=dict)


def families(methods: Sequence[MethodResult]) -> tuple[list[str], list[int]]:
    """Names of the groups of methods that differ in α alone, and the group of each method."""
    rests = [_rest(method) for method in methods]
    groups = [*{repr(rest): rest for rest in rests}.values()]
    return family_names(groups), [groups.index(rest) for rest in rests]


def panels(report: Report) -> list[Panel]:
    """A panel per k, a line per setting of everything else; one panel with a line per k where there is but one such.

    Empty unless two methods with a recall differ in α alone. Lines that are the same throughout (two generators behind
    one retrieval) are one, named after what its methods share.
    """
    recalls = _recalls(report)
    lines = _lines(report, recalls)
    levels = _levels(report, recalls)
    if len(lines) == 1 and not levels:
        (points,) = lines.values()
        name = recalls[0].partition("@")[0]
        return [Panel(heading(f"{name}@k"), {f"k = {m.partition('@')[2]}": points[m] for m in recalls if points[m]})]
    found = (
        Panel(
            heading(metric),
            {name: points[metric] for name, points in lines.items() if points[metric]},
            {name: values[metric] for name, values in levels.items() if metric in values},
        )
        for metric in recalls
    )
    return [panel for panel in found if panel.lines]


def _recalls(report: Report) -> list[str]:
    """The passage recalls where any method has one, else the answer recalls, by rising k."""
    for name in _RECALLS:
        found = [metric for metric in report.metrics() if metric.partition("@")[0] == name and "@" in metric]
        if found := [metric for metric in found if any(value is not None for value in report.values(metric))]:
            return sorted(found, key=lambda metric: (len(metric), metric))
    return []


def _lines(report: Report, recalls: Sequence[str]) -> dict[str, dict[str, Points]]:
    groups: dict[str, list[MethodResult]] = {}
    for method in report.methods:
        if alpha_of(method) is not None:
            groups.setdefault(repr(_rest(method)), []).append(method)
    merged: dict[tuple[Points, ...], dict[str, Any]] = {}
    for methods in groups.values():
        points = tuple(_points(report, methods, metric) for metric in recalls)
        if any(len(line) > 1 for line in points):
            rest = _rest(methods[0])
            shared = merged.get(points, rest)
            merged[points] = {key: value for key, value in rest.items() if shared.get(key, rest) == value}
    names = family_names([*merged.values()])
    return {name: dict(zip(recalls, points, strict=True)) for name, points in zip(names, merged, strict=True)}


def _points(report: Report, methods: Sequence[MethodResult], metric: str) -> Points:
    """The group's recall over α; empty unless there are two to join."""
    found = {}
    for method in methods:
        alpha, summary = alpha_of(method), report.measures(method).get(metric)
        if alpha is not None and summary and summary.value is not None:
            value = summary.value
            low, high = (value if end is None else end for end in (summary.low, summary.high))
            found[alpha] = (alpha, value, low, high)
    return tuple(found[alpha] for alpha in sorted(found)) if len(found) > 1 else ()


def _levels(report: Report, recalls: Sequence[str]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for method in report.methods:
        measures = report.measures(method)
        values = {m: measures[m].value for m in recalls if m in measures}
        known = {metric: value for metric, value in values.items() if value is not None}
        if alpha_of(method) is None and known and known not in found.values():
            found[method.label] = known
    return dict([*found.items()][:_LEVELS])


def alpha_of(method: MethodResult) -> float | None:
    value = next((value for key, value in method.settings.items() if _is_alpha(key)), None)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _rest(method: MethodResult) -> dict[str, Any]:
    return {key: value for key, value in sorted(method.settings.items()) if not _is_alpha(key)}


def _is_alpha(key: str) -> bool:
    return key.rpartition(".")[2] == "alpha"


def family_names(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for each group: the settings in which they differ. '' where there is but one; never one name twice."""
    keys = [*dict.fromkeys(key for group in groups for key in group)]
    differing = [key for key in keys if len({repr(group.get(key)) for group in groups}) > 1]
    names: list[str] = []
    for group in groups:
        settings = ((key.rpartition(".")[2], setting_text(group.get(key)) or "none") for key in differing)
        name = one_line(", ".join(f"{key}={value}" for key, value in settings))
        names.append(name if name not in names else f"{name} ({len(names) + 1})")
    return names
