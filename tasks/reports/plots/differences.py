"""Plots of differences to the baseline with their intervals: over all questions, and by what questions and passages
are like."""

from collections.abc import Sequence
from typing import Any

from vitalfew.tasks.metrics.conditions import COLUMNS
from vitalfew.tasks.reports.contents import Among, Report
from vitalfew.tasks.reports.plots.drawing import (
    COLOURS,
    INK,
    MARKERS,
    Plot,
    axes_grid,
    ground,
    legend,
    named_rows,
    numbered,
    svg,
)
from vitalfew.tasks.reports.shown.columns import LEVEL, is_apart, quality_metric, sentence_case, signed
from vitalfew.tasks.reports.shown.text import shortened
from vitalfew.tasks.reports.statistics.paired import Difference

_NAME = 40
_METHODS = len(COLOURS)
"""Methods in the plot of conditions, at most."""


def differences(report: Report, metric: str | None = None) -> Plot | None:
    """Every method's difference to the baseline in `metric` (default: `quality_metric`); None where none has an
    interval."""
    metric = metric or quality_metric(report)
    every = ((number, method.differences.get(metric or "")) for number, method in enumerate(report.methods))
    rows = [(number, difference) for number, difference in every if difference and difference.low is not None]
    if not metric or not rows:
        return None
    title = f"Difference to {shortened(report.baseline(), _NAME)} in {report.column(metric).heading}"
    names = [numbered(report, number, _NAME) for number, _ in rows]
    with ground("differences"):
        drawing, (axes,) = axes_grid(1, 1, (7.4, 1.1 + 0.3 * len(rows)))
        axes.axvline(0, color=INK, lw=1)
        for row, (_, difference) in enumerate(rows):
            axes.plot([difference.low, difference.high], [row, row], color=COLOURS[0], lw=1.6, solid_capstyle="butt")
            looks = {"mec": COLOURS[0], "mfc": COLOURS[0] if is_apart(difference) else "none", "ms": 6}
            axes.plot([difference.mean_difference], [row], marker="o", ls="", **looks)
        named_rows(axes, names)
        axes.set_xlabel(title)
        words = " ".join(_in_words(name, difference) for name, (_, difference) in zip(names, rows, strict=True))
        element = svg(drawing, "differences", title, words)
    caption = (
        "Mean difference and 95 % interval, paired over questions. Filled: significantly different from the baseline "
        f"(p < {LEVEL:g} after Holm's correction{', over the methods' if metric == quality_metric(report) else ''})."
    )
    return Plot(title, caption, element)


def _in_words(name: str, difference: Difference) -> str:
    return f"{name}: {difference.mean_difference:+.3f} ({difference.low:+.3f} to {difference.high:+.3f})."


def where_it_pays(report: Report) -> Plot | None:
    """Differences in the primary metric, a panel for each condition; None where no conditions were scored."""
    rows = [each for each in report.among if each.difference.low is not None]
    methods = [*dict.fromkeys(each.method for each in rows)][:_METHODS]
    panels = [(column, own) for column in COLUMNS if (own := [row for row in rows if row.condition == column.name])]
    metric = quality_metric(report)
    if not panels or not metric:
        return None
    heading = report.column(metric).heading
    title = f"Where it pays: difference in {heading} to {shortened(report.baseline(), _NAME)}"
    with ground("conditions"):
        drawing, places = axes_grid(1, len(panels), (2.9 * len(panels) + 0.6, 3.4))
        handles: list[Any] = []
        for axes, (column, own) in zip(places, panels, strict=True):
            handles = _draw(axes, own, methods)
            axes.set_xlabel(column.heading)
        places[0].set_ylabel(f"difference in {heading}")
        legend(drawing, handles, methods)
        words = " ".join(_conditions_in_words(column.heading, own) for column, own in panels)
        element = svg(drawing, "conditions", title, words)
    caption = (
        "Mean difference and 95 % interval for groups of questions that are alike in a condition (thirds, or single "
        "values). Intervals are for single groups and are not corrected for the number of groups."
    )
    return Plot(sentence_case(title), caption, element)


def _draw(axes: Any, rows: Sequence[Among], methods: Sequence[str]) -> list[Any]:
    groups = sorted({(row.low, row.high) for row in rows})
    axes.axhline(0, color=INK, lw=1)
    handles = []
    for kind, method in enumerate(methods):
        own = [row for row in rows if row.method == method]
        places = [groups.index((row.low, row.high)) + 0.12 * (kind - (len(methods) - 1) / 2) for row in own]
        means = [row.difference.mean_difference or 0.0 for row in own]
        sides = [row.difference.low for row in own], [row.difference.high for row in own]
        ends = [[abs(mean - (end or 0.0)) for mean, end in zip(means, side, strict=True)] for side in sides]
        looks = {"color": COLOURS[kind], "marker": MARKERS[kind], "ms": 5, "elinewidth": 1.4, "capsize": 2}
        handles.append(axes.errorbar(places, means, ends, ls="", **looks))
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
