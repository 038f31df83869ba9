"""Quality against what it takes: prompt tokens, with the Pareto front."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from vitalfew.tasks.metrics.base import Column
from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.families import families
from vitalfew.tasks.reports.plots.drawing import (
    COLOURS,
    INK,
    MARKERS,
    NAMED,
    Plot,
    axes_grid,
    ground,
    legend,
    numbered,
    svg,
)
from vitalfew.tasks.reports.plots.front import pareto_front
from vitalfew.tasks.reports.plots.labels import label_points
from vitalfew.tasks.reports.shown.columns import SMALL_UNITS, figure, price_metric, quality_metric, sentence_case

Points = Mapping[int, tuple[float, float]]
"""By the method's place, its price and its quality."""


def quality_by_price(report: Report, quality: str | None = None) -> Plot | None:
    """Quality against prompt tokens (contexts, or seconds, where there are none), with the Pareto front.

    `quality`: a metric; default: `quality_metric`. Methods without one of the two are not drawn.
    """
    quality, price = quality or quality_metric(report), price_metric(report)
    if quality is None or price is None:
        return None
    points = _points(report, price, quality)
    if not points:
        return None
    return _plot(report, points, report.column(price), report.column(quality))


def _points(report: Report, price: str, quality: str) -> Points:
    pairs = zip(report.values(price), report.values(quality), strict=True)
    return {number: (x, y) for number, (x, y) in enumerate(pairs) if x is not None and y is not None}


def _plot(report: Report, points: Points, price: Column, quality: Column) -> Plot:
    sign = -1 if quality.direction == "lower" else 1
    numbers = list(points)
    front = [numbers[place] for place in pareto_front([(x, sign * y) for x, y in points.values()])]
    name = re.sub(r"\W", "-", f"quality-{quality.name}")
    title = f"{sentence_case(quality.heading)} against {price.heading}"
    best = "; ".join(
        f"{numbered(report, number)}: {figure(points[number][0], price.unit)} {price.heading}, "
        f"{quality.heading} {figure(points[number][1], quality.unit)}"
        for number in front
    )
    with ground(name):
        drawing = _quality(report, points, front, (price, quality))
        element = svg(drawing, name, title, f"{len(points)} methods. On the Pareto front: {best}.")
    caption = (
        "Filled markers and the stepped line are the Pareto front: no other method is as good for "
        f"{'less' if price.unit in SMALL_UNITS else 'fewer'} {price.heading}. Mean over the questions."
    )
    if _intervals(report, quality.name, points):
        caption += " Bars: 95 % intervals of the means."
    if len(report.methods) > NAMED:
        caption += " A number is the method's number in the tables."
    if missing := len(report.methods) - len(points):
        caption += f" {missing} of {len(report.methods)} methods lack one of the two figures and are not drawn."
    return Plot(title, caption, element)


def _quality(report: Report, points: Points, front: Sequence[int], metrics: tuple[Column, Column]) -> Any:
    drawing, (axes,) = axes_grid(1, 1, (7.4, 4.6) if len(report.methods) <= NAMED else (8.6, 6.4))
    axes.step(*zip(*(points[number] for number in front), strict=True), where="post", color=INK, lw=1, zorder=2)
    names, family = _kinds(report)
    intervals = _intervals(report, metrics[1].name, points)
    for number, (x, y) in points.items():
        kind = family[number]
        colour = COLOURS[kind % len(COLOURS)]
        if number in intervals:
            axes.plot([x, x], intervals[number], color=colour, lw=1.2, alpha=0.6, zorder=2)
        style = {"marker": MARKERS[kind], "s": 42, "linewidths": 1.2, "edgecolors": colour, "clip_on": False}
        axes.scatter([x], [y], facecolors=colour if number in front else "none", zorder=3, **style)
    axes.margins(0.08, 0.12)
    axes.set_xlim(left=_start([x for x, _ in points.values()]))
    axes.set_xlabel(f"{metrics[0].heading} per question")
    axes.set_ylabel(metrics[1].heading)
    if names:
        _marker_legend(drawing, names)
    named = {number for number in points if len(report.methods) <= NAMED or number in front}
    labels = [numbered(report, number) if number in named else str(number + 1) for number in points]
    places = [*points]
    label_points(axes, [*points.values()], labels, [places.index(number) for number in front])
    return drawing


def _intervals(report: Report, quality: str, points: Points) -> dict[int, tuple[float, float]]:
    """By the method's place the ends of the quality's interval; none where so many bars would hide the points."""
    if len(report.methods) > NAMED:
        return {}
    summaries = {number: report.measures(report.methods[number])[quality] for number in points}
    return {
        number: (summary.low, summary.high)
        for number, summary in summaries.items()
        if summary.low is not None and summary.high is not None
    }


def _start(prices: Sequence[float]) -> float | None:
    """Where the axis begins: at 0 to show proportions, or (None) near the points where these are all alike."""
    return 0 if min(prices) < max(prices) / 2 or min(prices) == max(prices) else None


def _kinds(report: Report) -> tuple[list[str], list[int]]:
    """The marker of every method: its own, or that of its family, with names for a legend; one for all where there are
    more families than markers."""
    if len(report.methods) <= NAMED:
        return [], [*range(len(report.methods))]
    names, family = families(report.methods)
    return (names, family) if 1 < len(names) <= len(MARKERS) else ([], [0] * len(family))


def _marker_legend(drawing: Any, names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], ls="", marker=MARKERS[kind], mfc="none", mec=COLOURS[kind % len(COLOURS)], ms=6)
        for kind in range(len(names))
    ]
    legend(drawing, handles, names)
