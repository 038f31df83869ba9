"""Recall@k by α, lines over the methods that differ in α alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vitalfew.tasks.reports.contents import MethodResult, Report
from vitalfew.tasks.reports.families import alpha_of, family_names, settings_but_alpha
from vitalfew.tasks.reports.plots.drawing import COLOURS, INK, LINES, MARKERS, Plot, axes_grid, ground, legend, svg

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
        of_k = report.column(recalls[0]).heading.partition("@")[0]
        return [Panel(f"{of_k}@k", {f"k = {m.partition('@')[2]}": points[m] for m in recalls if points[m]})]
    of_metrics = (
        Panel(
            report.column(metric).heading,
            {name: points[metric] for name, points in lines.items() if points[metric]},
            {name: values[metric] for name, values in levels.items() if metric in values},
        )
        for metric in recalls
    )
    return [panel for panel in of_metrics if panel.lines]


def _recalls(report: Report) -> list[str]:
    """The passage recalls where any method has one, else the answer recalls, by rising k."""
    for name in _RECALLS:
        of_name = [metric for metric in report.metrics() if metric.partition("@")[0] == name and "@" in metric]
        if scored := [metric for metric in of_name if report.has(metric)]:
            return sorted(scored, key=lambda metric: (len(metric), metric))
    return []


def _lines(report: Report, recalls: Sequence[str]) -> dict[str, dict[str, Points]]:
    groups: dict[str, list[MethodResult]] = {}
    for method in report.methods:
        if alpha_of(method) is not None:
            groups.setdefault(repr(settings_but_alpha(method)), []).append(method)
    merged: dict[tuple[Points, ...], dict[str, Any]] = {}
    for methods in groups.values():
        points = tuple(_points(report, methods, metric) for metric in recalls)
        if any(len(line) > 1 for line in points):
            rest = settings_but_alpha(methods[0])
            shared = merged.get(points, rest)
            merged[points] = {key: value for key, value in rest.items() if shared.get(key, rest) == value}
    names = family_names([*merged.values()])
    return {name: dict(zip(recalls, points, strict=True)) for name, points in zip(names, merged, strict=True)}


def _points(report: Report, methods: Sequence[MethodResult], metric: str) -> Points:
    """The group's recall over α; empty unless there are two to join."""
    points = {}
    for method in methods:
        alpha, summary = alpha_of(method), report.measures(method).get(metric)
        if alpha is not None and summary and summary.value is not None:
            value = summary.value
            low, high = (value if end is None else end for end in (summary.low, summary.high))
            points[alpha] = (alpha, value, low, high)
    return tuple(points[alpha] for alpha in sorted(points)) if len(points) > 1 else ()


def _levels(report: Report, recalls: Sequence[str]) -> dict[str, dict[str, float]]:
    levels: dict[str, dict[str, float]] = {}
    for method in report.methods:
        measures = report.measures(method)
        values = {m: measures[m].value for m in recalls if m in measures}
        known = {metric: value for metric, value in values.items() if value is not None}
        if alpha_of(method) is None and known and known not in levels.values():
            levels[method.label] = known
    return dict([*levels.items()][:_LEVELS])


def recall_by_alpha(report: Report) -> Plot | None:
    """Recall@k by α, a line per setting of everything else; None unless some methods differ in α alone."""
    drawn = panels(report)
    if not drawn:
        return None
    with ground("alpha"):
        columns = min(3, len(drawn))
        rows = -(-len(drawn) // columns)
        drawing, places = axes_grid(rows, columns, (max(5.0, 3.3 * columns), 2.8 * rows + 0.5))
        handles: dict[str, Any] = {}
        for place, panel in zip(places, drawn, strict=False):
            handles |= _panel(place, panel, [*dict.fromkeys([*handles, *panel.lines, *panel.levels])])
        for place in places[len(drawn) :]:
            place.set_axis_off()
        if any(handles):
            legend(drawing, [*handles.values()], [name or "by alpha" for name in handles])
        title = "Recall by alpha"
        element = svg(drawing, "alpha", title, " ".join(map(_in_words, drawn)))
    caption = (
        "Alpha weighs the vector of a sentence against that of its context; at 1 only the sentence counts. "
        "Shaded: 95 % intervals."
    )
    if any(panel.levels for panel in drawn):
        caption += " A horizontal line without markers is a method without alpha."
    return Plot(title, caption, element)


def _panel(axes: Any, panel: Panel, names: Sequence[str]) -> dict[str, Any]:
    """Draw the lines; a name has the same looks in every panel. The handles by name."""
    handles = {}
    for name, points in panel.lines.items():
        kind = names.index(name)
        looks = {"marker": MARKERS[kind % len(MARKERS)], "color": COLOURS[kind % len(COLOURS)], "mfc": "none"}
        alphas, values, lows, highs = zip(*points, strict=True)
        (handles[name],) = axes.plot(alphas, values, ls=LINES[kind % len(LINES)], lw=1.4, ms=5, **looks)
        axes.fill_between(alphas, lows, highs, color=looks["color"], alpha=0.12, lw=0)
    for name, value in panel.levels.items():
        handles[name] = axes.axhline(value, ls=LINES[names.index(name) % len(LINES)], color=INK, lw=1)
    axes.set_title(panel.title)
    axes.set_xlabel("alpha")
    return handles


def _in_words(panel: Panel) -> str:
    """Where every line is highest."""
    tops = {name: max(points, key=lambda point: point[1]) for name, points in panel.lines.items()}
    lines = [f"{name or 'recall'} is highest, {top[1]:.3f}, at alpha {top[0]:g}" for name, top in tops.items()]
    levels = [f"{name} is {value:.3f}" for name, value in panel.levels.items()]
    return f"{panel.title}: {'; '.join([*lines, *levels])}."
