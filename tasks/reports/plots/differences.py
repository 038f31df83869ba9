"""Differences to the baseline with their intervals, a line per method: what is significant, at a glance."""

from collections.abc import Sequence
from typing import Any

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.plots.drawing import COLOURS, INK, Plot, axes_grid, ground, numbered, svg
from vitalfew.tasks.reports.shown.columns import LEVEL, quality_metric
from vitalfew.tasks.reports.shown.text import shortened
from vitalfew.tasks.reports.statistics.paired import Difference

_NAME = 40


def differences(report: Report, metric: str | None = None) -> Plot | None:
    """Every method's difference to the baseline in `metric` (default: `quality_metric`); None where none has an
    interval."""
    metric = metric or quality_metric(report)
    rows = [(number, difference) for number, difference in _of(report, metric) if difference.low is not None]
    if not metric or not rows:
        return None
    title = f"Difference to {shortened(report.baseline(), _NAME)} in {report.column(metric).heading}"
    with ground("differences"):
        drawing, (axes,) = axes_grid(1, 1, (7.4, 1.1 + 0.3 * len(rows)))
        _draw(axes, rows)
        axes.set_yticks(range(len(rows)), [numbered(report, number, _NAME) for number, _ in rows])
        axes.set_xlabel(title)
        element = svg(drawing, "differences", title, " ".join(_in_words(report, *row) for row in rows))
    caption = (
        "Mean difference and 95 % interval, paired over questions. Filled: significantly different from the baseline "
        f"(p < {LEVEL:g} after Holm's correction{', over the methods' if metric == quality_metric(report) else ''})."
    )
    return Plot(title, caption, element)


def _of(report: Report, metric: str | None) -> list[tuple[int, Difference]]:
    return [
        (number, method.differences[metric])
        for number, method in enumerate(report.methods)
        if metric and metric in method.differences
    ]


def _draw(axes: Any, rows: Sequence[tuple[int, Difference]]) -> None:
    axes.axvline(0, color=INK, lw=1)
    for row, (_, difference) in enumerate(rows):
        apart = difference.p_holm is not None and difference.p_holm < LEVEL
        axes.plot([difference.low, difference.high], [row, row], color=COLOURS[0], lw=1.6, solid_capstyle="butt")
        looks = {"mec": COLOURS[0], "mfc": COLOURS[0] if apart else "none", "ms": 6}
        axes.plot([difference.mean_difference], [row], marker="o", ls="", **looks)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def _in_words(report: Report, number: int, difference: Difference) -> str:
    name, interval = numbered(report, number, _NAME), f"({difference.low:+.3f} to {difference.high:+.3f})"
    return f"{name}: {difference.mean_difference:+.3f} {interval}."
