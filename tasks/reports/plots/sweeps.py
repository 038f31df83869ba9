"""Plots over methods that differ in one setting alone: alpha, top-k, threshold, refiner.

Recall@k by α, lines over the methods that differ in α alone.

Quality by the number of units that are passed on: grouped bars (ParetoRAG, figure 7).

Quality and kept contexts by the threshold of the rating (Sparse RAG, table 4).

What refiners do to quality: methods that differ in the refiner alone, side by side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vitalfew.tasks.reports.contents import MethodResult, Report, Summary
from vitalfew.tasks.reports.families import alpha_of, family_names, settings_but_alpha
from vitalfew.tasks.reports.plots.drawing import (
    COLOURS,
    HATCHES,
    INK,
    LINES,
    MARKERS,
    Plot,
    axes_grid,
    ground,
    legend,
    svg,
)
from vitalfew.tasks.reports.shown.columns import figure, quality_metric, sentence_case
from vitalfew.tasks.reports.shown.text import one_line, shortened

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
        element = svg(drawing, "alpha", title, " ".join(map(_in_words_alpha, drawn)))
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


def _in_words_alpha(panel: Panel) -> str:
    """Where every line is highest."""
    tops = {name: max(points, key=lambda point: point[1]) for name, points in panel.lines.items()}
    lines = [f"{name or 'recall'} is highest, {top[1]:.3f}, at alpha {top[0]:g}" for name, top in tops.items()]
    levels = [f"{name} is {value:.3f}" for name, value in panel.levels.items()]
    return f"{panel.title}: {'; '.join([*lines, *levels])}."


TOP_K = "retrieve.top_k"
_RECALL = "answer_recall"
Bars = Mapping[str, Mapping[int, Summary]]
"""By the name of a family, by top-k."""


def by_depth(report: Report) -> Plot | None:
    """The quality metric, and the answer recall at every method's own k, as bars by top-k; None unless some methods
    differ in top-k alone."""
    quality = quality_metric(report)
    families = _families_depth(report)
    panels = {report.column(quality).heading: _bars(report, families, lambda _: quality)} if quality else {}
    recall = _bars(report, families, lambda k: f"{_RECALL}@{k}")
    if quality and not quality.startswith(_RECALL) and any(recall.values()):
        summary = next(summary for of_depth in recall.values() for summary in of_depth.values())
        panels[f"{summary.column.heading.partition('@')[0]}@k"] = recall
    panels = {name: bars for name, bars in panels.items() if any(len(of_depth) > 1 for of_depth in bars.values())}
    if not panels:
        return None
    title = "Quality by number of units"
    with ground("depth"):
        drawing, places = axes_grid(1, len(panels), (3.9 * len(panels) + 0.6, 3.4))
        handles: list[Any] = []
        for place, (name, bars) in zip(places, panels.items(), strict=True):
            handles = _draw_depth(place, bars)
            place.set_title(name)
            place.set_xlabel("units passed on (top-k)")
        legend(drawing, handles, [name or "all" for name in families])
        words = " ".join(_in_words_depth(name, bars) for name, bars in panels.items())
        element = svg(drawing, "depth", title, words)
    return Plot(title, "Means over the questions with 95 % intervals.", element)


def _families_depth(report: Report) -> dict[str, list[MethodResult]]:
    """Methods that differ in top-k alone, by what they share; those without a top-k are left out."""
    methods = [method for method in report.methods if isinstance(method.settings.get(TOP_K), int)]
    rests = [{key: value for key, value in method.settings.items() if key != TOP_K} for method in methods]
    groups = [*{repr(rest): rest for rest in rests}.values()]
    names = family_names(groups)
    families: dict[str, list[MethodResult]] = {name: [] for name in names}
    for method, rest in zip(methods, rests, strict=True):
        families[names[groups.index(rest)]].append(method)
    return families


def _bars(report: Report, families: Mapping[str, Sequence[MethodResult]], metric: Any) -> Bars:
    return {
        name: {
            method.settings[TOP_K]: summary
            for method in methods
            if (summary := report.measures(method).get(metric(method.settings[TOP_K]))) and summary.value is not None
        }
        for name, methods in families.items()
    }


def _draw_depth(axes: Any, bars: Bars) -> list[Any]:
    depths = sorted({depth for of_depth in bars.values() for depth in of_depth})
    width = 0.8 / len(bars)
    handles = []
    for kind, of_depth in enumerate(bars.values()):
        places = [depths.index(depth) + (kind + 0.5) * width - 0.4 for depth in of_depth]
        values = [summary.value or 0.0 for summary in of_depth.values()]
        ends = [[abs(end - value) for value, end in _ends(of_depth, lower)] for lower in (True, False)]
        looks = {"color": COLOURS[kind % len(COLOURS)], "hatch": HATCHES[kind % len(HATCHES)], "edgecolor": INK}
        handles.append(axes.bar(places, values, width, linewidth=0.7, **looks))
        axes.errorbar(places, values, ends, fmt="none", ecolor=INK, elinewidth=1, capsize=2)
    axes.set_xticks(range(len(depths)), map(str, depths))
    axes.grid(visible=False, axis="x")
    return handles


def _ends(of_depth: Mapping[int, Summary], lower: bool) -> list[tuple[float, float]]:
    """Every value with the lower or upper end of its interval; the value itself where it has none."""
    values = [(summary.value or 0.0, summary.low if lower else summary.high) for summary in of_depth.values()]
    return [(value, value if end is None else end) for value, end in values]


def _in_words_depth(name: str, bars: Bars) -> str:
    lines = [
        f"{family or name} {', '.join(f'{figure(own.value, own.column.unit)} at {k}' for k, own in row.items())}"
        for family, row in bars.items()
        if row
    ]
    return f"{name}: {'; '.join(lines)}."


THRESHOLD = "generate.threshold"
KEPT = "kept"
Line = Mapping[float, Summary]
"""By rising threshold."""


def by_threshold(report: Report) -> Plot | None:
    """The quality metric and the number of kept contexts, a line over methods that differ in the threshold alone; None
    unless two do."""
    families = _families_thresholds(report)
    metrics = [metric for metric in (quality_metric(report), KEPT) if metric]
    panels = {metric: {name: _line(report, own, metric) for name, own in families.items()} for metric in metrics}
    panels = {metric: lines for metric, lines in panels.items() if any(len(line) > 1 for line in lines.values())}
    if not panels:
        return None
    title = "Quality and kept contexts by rating threshold"
    with ground("thresholds"):
        drawing, places = axes_grid(1, len(panels), (3.9 * len(panels) + 0.6, 3.4))
        handles: list[Any] = []
        for place, (metric, lines) in zip(places, panels.items(), strict=True):
            handles = [_draw_thresholds(place, kind, line) for kind, line in enumerate(lines.values())]
            place.set_title(report.column(metric).heading)
            place.set_xlabel("threshold")
        if any(families):
            legend(drawing, handles, [name or "all" for name in families])
        words = " ".join(_in_words_thresholds(report.column(metric).heading, lines) for metric, lines in panels.items())
        element = svg(drawing, "thresholds", title, words)
    caption = "A context rated below the threshold is dropped. Shaded: 95 % intervals."
    return Plot(title, caption, element)


def _families_thresholds(report: Report) -> dict[str, list[MethodResult]]:
    """Methods that differ in the threshold alone, by what they share; alone ones are left out."""
    methods = [method for method in report.methods if isinstance(method.settings.get(THRESHOLD), (int, float))]
    rests = [{key: value for key, value in sorted(method.settings.items()) if key != THRESHOLD} for method in methods]
    groups: dict[str, list[MethodResult]] = {}
    for method, rest in zip(methods, rests, strict=True):
        groups.setdefault(repr(rest), []).append(method)
    several = {key: own for key, own in groups.items() if len(own) > 1}
    names = family_names([rest for key, rest in {repr(rest): rest for rest in rests}.items() if key in several])
    return dict(zip(names, several.values(), strict=True))


def _line(report: Report, methods: Sequence[MethodResult], metric: str) -> Line:
    found = {float(method.settings[THRESHOLD]): report.measures(method).get(metric) for method in methods}
    return {key: own for key, own in sorted(found.items()) if own and own.value is not None}


def _draw_thresholds(axes: Any, kind: int, line: Line) -> Any:
    colour = COLOURS[kind % len(COLOURS)]
    values = [own.value for own in line.values()]
    looks = {"ls": LINES[kind % len(LINES)], "marker": MARKERS[kind % len(MARKERS)], "mfc": "none", "lw": 1.4, "ms": 5}
    (handle,) = axes.plot([*line], values, color=colour, **looks)
    if all(own.low is not None and own.high is not None for own in line.values()):
        ends = zip(*((own.low, own.high) for own in line.values()), strict=True)
        axes.fill_between([*line], *ends, color=colour, alpha=0.12, lw=0)
    return handle


def _in_words_thresholds(heading: str, lines: Mapping[str, Line]) -> str:
    told = (
        f"{name} {', '.join(f'{figure(own.value, own.column.unit)} at {key:g}' for key, own in line.items())}".strip()
        for name, line in lines.items()
    )
    return f"{heading}: {'; '.join(told)}."


REFINER = "refine.refiner"
_NAME = 40
_STEP = 0.28
"""Between the marks of two refiners, in rows."""
Sides = Mapping[str, MethodResult]
"""Methods that differ in the refiner alone, by its name."""


def quality_by_refiner(report: Report) -> Plot | None:
    """The quality of methods that differ in the refiner alone; None unless two do."""
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
        handles = [_draw_refiners(axes, summaries, refiners, place) for place in range(len(refiners))]
        axes.set_yticks(range(len(rows)), [shortened(name, _NAME) for name in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(column.heading)
        drawn = [(handle, name) for handle, name in zip(handles, refiners, strict=True) if handle is not None]
        if drawn:
            legend(drawing, [handle for handle, _ in drawn], [one_line(name) for _, name in drawn])
        lines = (
            f"{name}: {', '.join(f'{figure(own.value, column.unit)} with {one_line(key)}' for key, own in row.items())}"
            for name, row in zip(rows, summaries, strict=True)
        )
        element = svg(drawing, "refiners", title, f"{'; '.join(lines)}.")
    return Plot(title, "Means over the questions, with 95 % intervals where there are enough of them.", element)


def _rows(methods: Sequence[MethodResult]) -> dict[str, Sides]:
    """By a name without the refiner's; of methods with one and the same refiner there is no row."""
    families: dict[str, dict[str, MethodResult]] = {}
    for method in methods:
        if isinstance(refiner := method.settings.get(REFINER), str):
            rest = {key: value for key, value in sorted(method.settings.items()) if key != REFINER}
            families.setdefault(repr(rest), {})[refiner] = method
    rows = [sides for sides in families.values() if len(sides) > 1]
    return {_name(sides): sides for sides in rows}


def _name(sides: Sides) -> str:
    refiner, method = next(iter(sides.items()))
    return method.label.replace(f" refiner={refiner}", "")


def _summaries(report: Report, sides: Sides, metric: str) -> dict[str, Summary]:
    measures = {refiner: report.measures(method).get(metric) for refiner, method in sides.items()}
    return {refiner: summary for refiner, summary in measures.items() if summary}


def _draw_refiners(axes: Any, rows: Sequence[Mapping[str, Summary]], refiners: Sequence[str], place: int) -> Any:
    """The marks of one refiner, a row for every family."""
    colour, marker, handle = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)], None
    for row, of_refiner in enumerate(rows):
        summary = of_refiner.get(refiners[place])
        if summary is None or summary.value is None:
            continue
        y = row + (place - (len(refiners) - 1) / 2) * _STEP
        if summary.low is not None and summary.high is not None:
            axes.plot([summary.low, summary.high], [y, y], color=colour, lw=1.4)
        (handle,) = axes.plot([summary.value], [y], ls="", marker=marker, color=colour, ms=6)
    return handle
