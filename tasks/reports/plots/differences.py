"""Plots of differences to the baseline with their intervals: over all questions, and by what questions and passages
are like."""

from collections.abc import Sequence
from math import ceil
from typing import Any

from vitalfew.tasks.metrics.conditions import COLUMNS
from vitalfew.tasks.reports.contents import Among, Report
from vitalfew.tasks.reports.plots.drawing import COLOURS, INK, Plot, canvas, labelled, marks
from vitalfew.tasks.reports.plots.forest import ForestRow, forest
from vitalfew.tasks.reports.shown.columns import LEVEL, is_apart, quality_metric, signed
from vitalfew.tasks.reports.shown.text import shortened
from vitalfew.tasks.reports.statistics.paired import Difference

_NAME = 40
_METHODS = len(COLOURS)
"""Methods in the plot of conditions, at most."""
_PANELS = 4
"""Conditions in a line of that plot, at most."""


def differences(report: Report, metric: str | None = None) -> Plot | None:
    """Every method's difference to the baseline in `metric` (default: `quality_metric`); None where none has an
    interval."""
    metric = metric or quality_metric(report)
    every = ((number, method.differences.get(metric or "")) for number, method in enumerate(report.methods))
    rows = {labelled(report, number, _NAME): own for number, own in every if own and own.low is not None}
    if not metric or not rows:
        return None
    baseline = shortened(report.baseline(), _NAME)
    title = f"Difference to {baseline} in {report.column(metric).heading}"
    caption = (
        "Mean difference and 95 % interval, paired over questions. Filled: significantly different from the baseline "
        f"(p < {LEVEL:g} after Holm's correction{', over the methods' if metric == quality_metric(report) else ''})."
    )
    return forest([_row(name, own) for name, own in rows.items()], title, title, caption, name="differences")


def _row(name: str, own: Difference) -> ForestRow:
    ends = (own.mean_difference or 0.0, own.low or 0.0, own.high or 0.0)
    return ForestRow(name, *ends, own.questions, "filled" if is_apart(own) else "hollow")


def where_it_pays(report: Report) -> Plot | None:
    """Differences in the primary metric, a panel for every condition; None where no conditions were scored."""
    rows = [each for each in report.among if each.difference.low is not None]
    methods = [*dict.fromkeys(each.method for each in rows)][:_METHODS]
    panels = [(column, own) for column in COLUMNS if (own := [row for row in rows if row.condition == column.name])]
    metric = quality_metric(report)
    if not panels or not metric:
        return None
    heading = report.column(metric).heading
    title = f"Where it pays: difference in {heading} to {shortened(report.baseline(), _NAME)}"
    caption = (
        "Mean difference and 95 % interval for groups of questions that are alike in a condition (thirds, or single "
        "values). Intervals are for single groups and are not corrected for the number of groups."
    )
    lines = ceil(len(panels) / _PANELS)
    columns = ceil(len(panels) / lines)
    with canvas("conditions", (2.9 * columns + 0.6, 3.2 * lines + 0.2), lines, columns) as drawing:
        places = drawing.axes
        for axes in places[len(panels) :]:
            axes.set_visible(False)
        for axes, (column, own) in zip(places, panels, strict=False):
            handles = _draw(axes, own, methods)
            axes.set_xlabel(column.heading)
        for axes in places[::columns]:
            axes.set_ylabel(f"difference in {heading}")
        drawing.legend(handles, methods)
        words = " ".join(_conditions_in_words(column.heading, own) for column, own in panels)
        return drawing.plot(title, caption, words)


def _draw(axes: Any, rows: Sequence[Among], methods: Sequence[str]) -> list[Any]:
    groups = sorted({(row.low, row.high) for row in rows})
    axes.axhline(0, color=INK, lw=1)
    handles = []
    for kind, method in enumerate(methods):
        own = {(row.low, row.high): row.difference for row in rows if row.method == method}
        places = [groups.index(group) + 0.12 * (kind - (len(methods) - 1) / 2) for group in own]
        ends = [(each.low or 0.0, each.high or 0.0) for each in own.values()]
        means = [each.mean_difference for each in own.values()]
        handles.append(marks(axes, kind, places, means, ends, ms=5, capsize=2))
    axes.set_xticks(range(len(groups)), [_range(low, high) for low, high in groups])
    axes.grid(visible=False, axis="x")
    return handles


def _range(low: float, high: float) -> str:
    ends = [f"{end:.0f}" if end >= 10 or end == int(end) else f"{end:.2f}" for end in (low, high)]
    return " to ".join(dict.fromkeys(ends))


def _conditions_in_words(heading: str, rows: Sequence[Among]) -> str:
    parts = [
        f"{row.method} at {_range(row.low, row.high)}: {signed(row.difference.mean_difference)} "
        f"({signed(row.difference.low)} to {signed(row.difference.high)}, n = {row.difference.questions:,})"
        for row in rows
    ]
    return f"{heading}: {'; '.join(parts)}."
