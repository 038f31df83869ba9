"""Differences to the baseline with their intervals, a line per method: what can be told apart at a glance."""

from collections.abc import Sequence
from typing import Any

from tasks.reports.contents import Report
from tasks.reports.plots.drawing import COLOURS, INK, Plot, axes_grid, ground, svg
from tasks.reports.shown.columns import LEVEL, heading, quality_metric
from tasks.reports.shown.text import shortened
from tasks.reports.statistics.paired import Difference

_NAME = 40


def differences(report: Report, metric: str | None = None) -> Plot | None:
    """Every method's difference to the baseline in `metric` (default: `quality_metric`); None where none has an
    interval."""
    metric = metric or quality_metric(report)
    found = [(number, each) for number, each in _found(report, metric) if each.low is not None]
    if not metric or not found:
        return None
    title = f"Difference to {shortened(report.baseline(), _NAME)} in {heading(metric)}"
    with ground("differences"):
        drawing, (axes,) = axes_grid(1, 1, (7.4, 1.1 + 0.3 * len(found)))
        _draw(axes, found)
        axes.set_yticks(range(len(found)), [_name(report, number) for number, _ in found])
        axes.set_xlabel(title)
        element = svg(drawing, "differences", title, " ".join(_told(report, *each) for each in found))
    caption = (
        "Mean difference and 95 % interval, paired over questions. Filled: told apart from the baseline "
        f"(p < {LEVEL:g} after Holm's correction over the methods)."
    )
    return Plot(title, caption, element)


def _found(report: Report, metric: str | None) -> list[tuple[int, Difference]]:
    return [
        (number, method.differences[metric])
        for number, method in enumerate(report.methods)
        if metric and metric in method.differences
    ]


def _draw(axes: Any, found: Sequence[tuple[int, Difference]]) -> None:
    axes.axvline(0, color=INK, lw=1)
    for row, (_, each) in enumerate(found):
        told_apart = each.p_holm is not None and each.p_holm < LEVEL
        axes.plot([each.low, each.high], [row, row], color=COLOURS[0], lw=1.6, solid_capstyle="butt")
        looks = {"mec": COLOURS[0], "mfc": COLOURS[0] if told_apart else "none", "ms": 6}
        axes.plot([each.mean_difference], [row], marker="o", ls="", **looks)
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def _name(report: Report, number: int) -> str:
    return f"{number + 1} {shortened(report.methods[number].label, _NAME)}"


def _told(report: Report, number: int, each: Difference) -> str:
    return f"{_name(report, number)}: {each.mean_difference:+.3f} ({each.low:+.3f} to {each.high:+.3f})."
