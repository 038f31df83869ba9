"""Plots over methods that differ in one setting alone: alpha, top-k, the threshold of the rating."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vitalfew.tasks.reports.contents import MethodResult, MetricSummary, Report
from vitalfew.tasks.reports.families import ALPHA, alpha_of, families
from vitalfew.tasks.reports.plots.drawing import INK, LINES, Plot, canvas, line
from vitalfew.tasks.reports.shown.columns import figure, quality_metric

TOP_K, THRESHOLD = "retrieve.top_k", "generate.threshold"
_KEPT = "kept"
_RECALL = "answer_recall"
_RECALLS = ("passage_recall", _RECALL)
_TICKS = 8
"""Values of a setting that are all written on its axis, at most."""
_LEVELS = 3
"""Methods without an α that are drawn beside the lines, at most."""

Swept = Mapping[Any, MetricSummary]
"""A metric of methods that differ in one setting alone, by the value of the setting."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes: `lines` by the name of a family; `levels`: values of methods without the setting."""

    title: str
    lines: Mapping[str, Swept]
    levels: dict[str, float] = field(default_factory=dict)


def _swept(report: Report, methods: Sequence[MethodResult], metric: str, value: Callable[[MethodResult], Any]) -> Swept:
    """The metric by `value`, the setting, in ascending order; "recall@k" stands for the metric at that setting."""
    found = {}
    for method in methods:
        of_method = metric.replace("@k", f"@{value(method)}")
        if (summary := report.measures(method).get(of_method)) and summary.value is not None:
            found[value(method)] = summary
    return dict(sorted(found.items()))


def recall_by_alpha(report: Report) -> Plot | None:
    """Recall@k by α, a line per setting of everything else; None unless some methods differ in α alone."""
    caption = (
        "Alpha weighs the vector of a sentence against that of its context; at 1 only the sentence counts. "
        "Shaded: 95 % intervals."
    )
    recalls = _recalls(report)
    panels = _panels(report, ALPHA, recalls, alpha_of)
    flat = [method for method in report.methods if alpha_of(method) is None][:_LEVELS]
    if flat:
        caption += " A horizontal line without markers is a method without alpha."
    for metric, panel in zip(recalls, panels, strict=False):
        values = {method.label: report.value(method, metric) for method in flat}
        panel.levels.update({name: value for name, value in values.items() if value is not None})
    return _plot(("alpha", "Recall by alpha"), caption, panels, "alpha")


def _recalls(report: Report) -> list[str]:
    """The passage recalls where any method has one, else the answer recalls, by rising k."""
    for name in _RECALLS:
        of_name = [metric for metric in report.metrics() if metric.partition("@")[0] == name and "@" in metric]
        if scored := [metric for metric in of_name if report.has(metric)]:
            return sorted(scored, key=lambda metric: (len(metric), metric))
    return []


def by_depth(report: Report) -> Plot | None:
    """The quality metric, and the answer recall at every method's k, by top-k (ParetoRAG, figure 7); None unless some
    methods differ in top-k alone."""
    quality = quality_metric(report) or ""
    metrics = [quality] if quality.startswith(_RECALL) else [quality, f"{_RECALL}@k"]
    drawn = _panels(report, TOP_K, metrics) if quality else []
    caption = "Means over the questions with 95 % intervals."
    return _plot(("depth", "Quality by number of units"), caption, drawn, "units passed on (top-k)")


def by_threshold(report: Report) -> Plot | None:
    """The quality metric and the number of kept contexts, a line over methods that differ in the threshold alone
    (Sparse RAG, table 4); None unless two do."""
    drawn = _panels(report, THRESHOLD, [*filter(None, (quality_metric(report), _KEPT))])
    caption = "A context rated below the threshold is dropped. Shaded: 95 % intervals."
    return _plot(("thresholds", "Quality and kept contexts by rating threshold"), caption, drawn, "threshold")


def _panels(
    report: Report, key: str, metrics: Sequence[str], value: Callable[[MethodResult], Any] | None = None
) -> list[Panel]:
    """A panel for every metric, with a line for every family of methods that differ in a number alone, by default the
    setting `key`."""
    of = value or (lambda method: method.settings.get(key))
    able = [method for method in report.methods if isinstance(of(method), (int, float))]
    groups = {name: methods for name, methods in families(key, able).items() if len(methods) > 1}
    drawn = []
    for metric in metrics:
        lines = {name: _swept(report, own, metric, of) for name, own in groups.items()}
        for summary in [summary for points in lines.values() for summary in points.values()][:1]:
            heading = summary.column.heading
            drawn.append(Panel(f"{heading.partition('@')[0]}@k" if metric.endswith("@k") else heading, lines))
    return drawn


def _in_words(panel: Panel) -> str:
    lines = (
        f"{name} {', '.join(f'{figure(own.value, own.column.unit)} at {key:g}' for key, own in points.items())}".strip()
        for name, points in panel.lines.items()
        if points
    )
    levels = (f"{name} is {figure(value)}" for name, value in panel.levels.items())
    return f"{panel.title}: {'; '.join([*lines, *levels])}."


def _plot(names: tuple[str, str], caption: str, panels: Sequence[Panel], label: str) -> Plot | None:
    """Plot up to three panels side by side; None unless a line has two points. `label`: the setting."""
    panels = [panel for panel in panels if any(len(points) > 1 for points in panel.lines.values())]
    if not panels:
        return None
    families = [*dict.fromkeys(name for panel in panels for name in (*panel.lines, *panel.levels))]
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    with canvas(names[0], (max(5.0, 3.5 * columns), 2.8 * rows + 0.5), rows, columns) as drawing:
        places = drawing.axes
        handles: dict[str, Any] = {}
        for place, panel in zip(places, panels, strict=False):
            handles |= _lines(place, panel, families)
            place.set(title=panel.title, xlabel=label)
        for place in places[len(panels) :]:
            place.set_axis_off()
        if any(handles):
            drawing.legend([*handles.values()], [name or f"by {label}" for name in handles])
        return drawing.plot(names[1], caption, " ".join(map(_in_words, panels)))


def _lines(axes: Any, panel: Panel, names: Sequence[str]) -> dict[str, Any]:
    """Draw the lines and levels; a name has the same looks in every panel. The handles by name."""
    handles = {}
    for name, points in panel.lines.items():
        ends = [own.ends() for own in points.values()]
        handles[name] = line(axes, names.index(name), [*points], [own.value for own in points.values()], ends)
    values = sorted({value for points in panel.lines.values() for value in points})
    if len(values) <= _TICKS:
        axes.set_xticks(values, [f"{value:g}" for value in values])
    for name, value in panel.levels.items():
        handles[name] = axes.axhline(value, ls=LINES[names.index(name) % len(LINES)], color=INK, lw=1)
    return handles
