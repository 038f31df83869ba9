"""Plots over methods that differ in one setting alone: alpha, top-k, the threshold of the rating, the refiner."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vitalfew.tasks.reports.contents import MethodResult, MetricSummary, Report
from vitalfew.tasks.reports.families import ALPHA, alpha_of, differing_in, family_names, settings_but
from vitalfew.tasks.reports.plots.drawing import (
    HATCHES,
    INK,
    LINES,
    Plot,
    axes_grid,
    colour,
    ground,
    legend,
    line,
    marker,
    svg,
)
from vitalfew.tasks.reports.shown.columns import figure, quality_metric, sentence_case
from vitalfew.tasks.reports.shown.text import one_line, shortened

TOP_K, THRESHOLD, REFINER = "retrieve.top_k", "generate.threshold", "refine.refiner"
_KEPT = "kept"
_RECALL = "answer_recall"
_RECALLS = ("passage_recall", _RECALL)
_LEVELS = 3
"""Methods without an α that are drawn beside the lines, at most."""
_NAME = 40
_STEP = 0.28
"""Between the marks of two refiners, in rows."""

Points = tuple[tuple[float, float, float, float], ...]
"""α, recall, and the ends of its interval (the recall itself where there is none)."""
Swept = Mapping[str, Mapping[float, MetricSummary]]
"""By the name of a family, by the value of the setting."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes: `lines` by name, by rising α; `levels`: recall of methods without an α."""

    title: str
    lines: Mapping[str, Points]
    levels: Mapping[str, float] = field(default_factory=dict)


def recall_by_alpha(report: Report) -> Plot | None:
    """Recall@k by α, a line per setting of everything else; None unless some methods differ in α alone."""
    drawn = panels(report)
    if not drawn:
        return None
    title = "Recall by alpha"
    caption = (
        "Alpha weighs the vector of a sentence against that of its context; at 1 only the sentence counts. "
        "Shaded: 95 % intervals."
    )
    if any(panel.levels for panel in drawn):
        caption += " A horizontal line without markers is a method without alpha."
    with ground("alpha"):
        columns = min(3, len(drawn))
        rows = -(-len(drawn) // columns)
        drawing, places = axes_grid(rows, columns, (max(5.0, 3.3 * columns), 2.8 * rows + 0.5))
        handles: dict[str, Any] = {}
        for place, panel in zip(places, drawn, strict=False):
            handles |= _draw_panel(place, panel, [*dict.fromkeys([*handles, *panel.lines, *panel.levels])])
        for place in places[len(drawn) :]:
            place.set_axis_off()
        if any(handles):
            legend(drawing, [*handles.values()], [name or "by alpha" for name in handles])
        return Plot(title, caption, svg(drawing, "alpha", title, " ".join(map(_tops, drawn))))


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
    merged: dict[tuple[Points, ...], dict[str, Any]] = {}
    for methods in differing_in(ALPHA, [method for method in report.methods if alpha_of(method) is not None]):
        points = tuple(_points(report, methods, metric) for metric in recalls)
        if any(len(line) > 1 for line in points):
            rest = settings_but(ALPHA, methods[0])
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
            points[alpha] = (alpha, summary.value, *summary.ends())
    return tuple(points[alpha] for alpha in sorted(points)) if len(points) > 1 else ()


def _levels(report: Report, recalls: Sequence[str]) -> dict[str, dict[str, float]]:
    levels: dict[str, dict[str, float]] = {}
    for method in report.methods:
        values = {metric: report.value(method, metric) for metric in recalls}
        known = {metric: value for metric, value in values.items() if value is not None}
        if alpha_of(method) is None and known and known not in levels.values():
            levels[method.label] = known
    return dict([*levels.items()][:_LEVELS])


def _draw_panel(axes: Any, panel: Panel, names: Sequence[str]) -> dict[str, Any]:
    """Draw the lines; a name has the same looks in every panel. The handles by name."""
    handles = {}
    for name, points in panel.lines.items():
        alphas, values, *ends = zip(*points, strict=True)
        handles[name] = line(axes, names.index(name), alphas, values, ends)
    for name, value in panel.levels.items():
        handles[name] = axes.axhline(value, ls=LINES[names.index(name) % len(LINES)], color=INK, lw=1)
    axes.set_title(panel.title)
    axes.set_xlabel("alpha")
    return handles


def _tops(panel: Panel) -> str:
    """Where every line is highest."""
    tops = {name: max(points, key=lambda point: point[1]) for name, points in panel.lines.items()}
    lines = [f"{name or 'recall'} is highest, {top[1]:.3f}, at alpha {top[0]:g}" for name, top in tops.items()]
    levels = [f"{name} is {value:.3f}" for name, value in panel.levels.items()]
    return f"{panel.title}: {'; '.join([*lines, *levels])}."


def by_depth(report: Report) -> Plot | None:
    """The quality metric, and the answer recall at every method's k, as grouped bars by top-k (ParetoRAG, figure 7);
    None unless some methods differ in top-k alone."""
    quality = quality_metric(report)
    groups = differing_in(TOP_K, [method for method in report.methods if isinstance(method.settings.get(TOP_K), int)])
    rests = [{key: value for key, value in members[0].settings.items() if key != TOP_K} for members in groups]
    families = dict(zip(family_names(rests), groups, strict=True))
    panels = {}
    if quality:
        panels[report.column(quality).heading] = _swept(report, families, TOP_K, lambda _: quality)
    recall = _swept(report, families, TOP_K, lambda k: f"{_RECALL}@{k}")
    if quality and not quality.startswith(_RECALL) and any(recall.values()):
        summary = next(summary for of_depth in recall.values() for summary in of_depth.values())
        panels[f"{summary.column.heading.partition('@')[0]}@k"] = recall
    panels = {name: {family or name: row for family, row in bars.items()} for name, bars in panels.items()}
    names = [name or "all" for name in families]
    title = "Quality by number of units"
    element = _drawn("depth", title, panels, _draw_bars, "units passed on (top-k)", names)
    return Plot(title, "Means over the questions with 95 % intervals.", element) if element else None


def by_threshold(report: Report) -> Plot | None:
    """The quality metric and the number of kept contexts, a line over methods that differ in the threshold alone
    (Sparse RAG, table 4); None unless two do."""
    able = [method for method in report.methods if isinstance(method.settings.get(THRESHOLD), (int, float))]
    groups = [members for members in differing_in(THRESHOLD, able) if len(members) > 1]
    families = dict(zip(family_names([settings_but(THRESHOLD, own[0]) for own in groups]), groups, strict=True))
    panels = {}
    for metric in filter(None, (quality_metric(report), _KEPT)):
        swept = _swept(report, families, THRESHOLD, lambda _, metric=metric: metric)  # type: ignore[misc]
        panels[report.column(metric).heading] = {name: dict(sorted(row.items())) for name, row in swept.items()}
    caption = "A context rated below the threshold is dropped. Shaded: 95 % intervals."
    title = "Quality and kept contexts by rating threshold"
    names = [name or "all" for name in families] if any(families) else []
    element = _drawn("thresholds", title, panels, _draw_lines, "threshold", names)
    return Plot(title, caption, element) if element else None


def _swept(
    report: Report, families: Mapping[str, Sequence[MethodResult]], key: str, metric: Callable[[Any], str]
) -> Swept:
    """The figures of every family by the value of the setting, in which the metric may lie."""
    return {
        name: {
            method.settings[key]: summary
            for method in methods
            if (summary := report.measures(method).get(metric(method.settings[key]))) and summary.value is not None
        }
        for name, methods in families.items()
    }


def _drawn(
    name: str,
    title: str,
    panels: Mapping[str, Swept],
    draw: Callable[[Any, Swept], list[Any]],
    label: str,
    names: Sequence[str],
) -> str | None:
    """An SVG with a panel for every metric; None unless a line has two points. `label`: the setting; `names`: of the
    families, for a legend."""
    panels = {heading: swept for heading, swept in panels.items() if any(len(row) > 1 for row in swept.values())}
    if not panels:
        return None
    with ground(name):
        drawing, places = axes_grid(1, len(panels), (3.9 * len(panels) + 0.6, 3.4))
        handles: list[Any] = []
        for place, (heading, swept) in zip(places, panels.items(), strict=True):
            handles = draw(place, swept)
            place.set_title(heading)
            place.set_xlabel(label)
        if names:
            legend(drawing, handles, names)
        return svg(drawing, name, title, " ".join(_in_words(heading, swept) for heading, swept in panels.items()))


def _draw_bars(axes: Any, bars: Swept) -> list[Any]:
    depths = sorted({depth for of_depth in bars.values() for depth in of_depth})
    width = 0.8 / len(bars)
    handles = []
    for kind, of_depth in enumerate(bars.values()):
        places = [depths.index(depth) + (kind + 0.5) * width - 0.4 for depth in of_depth]
        values = [summary.value or 0.0 for summary in of_depth.values()]
        ends = [summary.ends() for summary in of_depth.values()]
        lengths = [[abs(own[side] - value) for own, value in zip(ends, values, strict=True)] for side in (0, 1)]
        looks = {"color": colour(kind), "hatch": HATCHES[kind % len(HATCHES)], "edgecolor": INK}
        handles.append(axes.bar(places, values, width, linewidth=0.7, **looks))
        axes.errorbar(places, values, lengths, fmt="none", ecolor=INK, elinewidth=1, capsize=2)
    axes.set_xticks(range(len(depths)), map(str, depths))
    axes.grid(visible=False, axis="x")
    return handles


def _draw_lines(axes: Any, lines: Swept) -> list[Any]:
    handles = []
    for kind, row in enumerate(lines.values()):
        known = row and all(own.low is not None and own.high is not None for own in row.values())
        ends = [*zip(*(own.ends() for own in row.values()), strict=True)] if known else ()
        handles.append(line(axes, kind, [*row], [own.value for own in row.values()], ends))
    return handles


def _in_words(heading: str, swept: Swept) -> str:
    lines = (
        f"{name} {', '.join(f'{figure(own.value, own.column.unit)} at {key:g}' for key, own in row.items())}".strip()
        for name, row in swept.items()
        if row
    )
    return f"{heading}: {'; '.join(lines)}."


def quality_by_refiner(report: Report) -> Plot | None:
    """The quality of methods that differ in the refiner alone, side by side; None unless two do."""
    metric = quality_metric(report)
    rows = _rows(report.methods)
    if metric is None or not rows:
        return None
    column = report.column(metric)
    refiners = [*dict.fromkeys(refiner for sides in rows.values() for refiner in sides)]
    title = f"{sentence_case(column.heading)} by refiner"
    with ground("refiners"):
        drawing, (axes,) = axes_grid(1, 1, (7.4, 1.3 + 0.5 * len(rows)))
        summaries = [_summaries(report, sides, metric) for sides in rows.values()]
        handles = {one_line(name): _draw_marks(axes, summaries, refiners, name) for name in refiners}
        axes.set_yticks(range(len(rows)), [shortened(name, _NAME) for name in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(column.heading)
        if drawn := {name: handle for name, handle in handles.items() if handle is not None}:
            legend(drawing, [*drawn.values()], [*drawn])
        lines = (
            f"{name}: {', '.join(f'{figure(own.value, column.unit)} with {one_line(key)}' for key, own in row.items())}"
            for name, row in zip(rows, summaries, strict=True)
        )
        element = svg(drawing, "refiners", title, f"{'; '.join(lines)}.")
    return Plot(title, "Means over the questions, with 95 % intervals where there are enough of them.", element)


def _rows(methods: Sequence[MethodResult]) -> dict[str, dict[str, MethodResult]]:
    """By a name without the refiner's, methods by their refiner; methods with one and the same refiner have no row."""
    able = [method for method in methods if isinstance(method.settings.get(REFINER), str)]
    rows = [{method.settings[REFINER]: method for method in members} for members in differing_in(REFINER, able)]
    return {_name(sides): sides for sides in rows if len(sides) > 1}


def _name(sides: Mapping[str, MethodResult]) -> str:
    refiner, method = next(iter(sides.items()))
    return method.label.replace(f" refiner={refiner}", "")


def _summaries(report: Report, sides: Mapping[str, MethodResult], metric: str) -> dict[str, MetricSummary]:
    measures = {refiner: report.measures(method).get(metric) for refiner, method in sides.items()}
    return {refiner: summary for refiner, summary in measures.items() if summary}


def _draw_marks(axes: Any, rows: Sequence[Mapping[str, MetricSummary]], refiners: Sequence[str], refiner: str) -> Any:
    """The marks of one refiner, a row for every family."""
    kind, handle = refiners.index(refiner), None
    for row, of_refiner in enumerate(rows):
        summary = of_refiner.get(refiner)
        if summary is None or summary.value is None:
            continue
        y = row + (kind - (len(refiners) - 1) / 2) * _STEP
        if summary.low is not None and summary.high is not None:
            axes.plot([summary.low, summary.high], [y, y], color=colour(kind), lw=1.4)
        (handle,) = axes.plot([summary.value], [y], ls="", marker=marker(kind), color=colour(kind), ms=6)
    return handle
