"""Plots of quality against what it takes, with the Pareto front: prompt tokens, budgets of tokens; and of decoding
speed against the contexts that are decoded on."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vitalfew.tasks.metrics.base import Column
from vitalfew.tasks.reports.contents import MethodResult, MetricSummary, Report
from vitalfew.tasks.reports.families import differing_in, families
from vitalfew.tasks.reports.plots.drawing import (
    COLOURS,
    INK,
    LINES,
    MARKERS,
    NAMED,
    Plot,
    axes_grid,
    colour,
    ground,
    legend,
    marker,
    numbered,
    svg,
)
from vitalfew.tasks.reports.plots.labels import label_points
from vitalfew.tasks.reports.shown.columns import (
    SMALL_UNITS,
    figure,
    pareto_front,
    price_metric,
    quality_metric,
    sentence_case,
)
from vitalfew.tasks.reports.shown.text import one_line, shortened

_SECOND = {"accuracy": "f1"}
BUDGET = "refine.max_tokens"
PASSED_ON = "context_tokens"
KEPT, SPEED = "kept", "decoding_speed"
_NAME = 32
_LINE_HEIGHT = 0.034
"""Between two labels, of the height of the axes."""
_DODGE = 0.014
"""Between the intervals of two neighbouring lines, of the doubling of tokens."""

Points = Mapping[int, tuple[float, float]]
"""By the method's place, its price and its quality."""


def quality_by_price(report: Report, quality: str | None = None) -> Plot | None:
    """Quality against prompt tokens (contexts, or seconds, where there are none), with the Pareto front.

    `quality`: a metric; default: `quality_metric`. Methods without one of the two are not drawn.
    """
    quality, price = quality or quality_metric(report), price_metric(report)
    points = _points(report, price, quality) if quality and price else {}
    if quality is None or price is None or not points:
        return None
    return _plot(report, points, report.column(price), report.column(quality))


def second_quality_by_price(report: Report) -> Plot | None:
    """F1 against what it takes, where accuracy measures quality: one is lenient, the other strict. None unless both
    were scored."""
    second = _SECOND.get(quality_metric(report) or "")
    return quality_by_price(report, second) if second and report.has(second) else None


def _points(report: Report, across: str, up: str) -> Points:
    pairs = zip(report.values(across), report.values(up), strict=True)
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
        if number in intervals:
            axes.plot([x, x], intervals[number], color=colour(kind), lw=1.2, alpha=0.6, zorder=2)
        style = {"marker": marker(kind), "s": 42, "linewidths": 1.2, "edgecolors": colour(kind), "clip_on": False}
        axes.scatter([x], [y], facecolors=colour(kind) if number in front else "none", zorder=3, **style)
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
    return {number: own.ends() for number, own in summaries.items() if own.low is not None and own.high is not None}


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

    looks: dict[str, Any] = {"ls": "", "mfc": "none", "ms": 6}
    handles = [Line2D([], [], marker=marker(kind), mec=colour(kind), **looks) for kind in range(len(names))]
    legend(drawing, handles, names)


def decoding_speed(report: Report) -> Plot | None:
    """Tokens a second by kept contexts, a point for each method (Sparse RAG, figure 2b); None unless two methods have
    both."""
    points = _points(report, KEPT, SPEED)
    if len(points) < 2:
        return None
    title = "Decoding speed by contexts"
    with ground("decoding"):
        drawing, (axes,) = axes_grid(1, 1, (7.4, 4.0))
        for number, (x, y) in points.items():
            axes.plot([x], [y], ls="", marker=marker(number), color=colour(number), ms=6)
        axes.margins(0.1, 0.15)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f"{report.column(KEPT).heading}, contexts per answer")
        axes.set_ylabel(f"{report.column(SPEED).heading}, tokens per second")
        names = [numbered(report, n) if len(points) <= NAMED else str(n + 1) for n in points]
        label_points(axes, [*points.values()], names, ())
        lines = (
            f"{numbered(report, number)}: {figure(y)} tokens per second on {figure(x)} contexts"
            for number, (x, y) in points.items()
        )
        element = svg(drawing, "decoding", title, f"{'; '.join(lines)}.")
    return Plot(title, "Every decoded token reads the keys and values of all kept contexts.", element)


@dataclass(frozen=True, slots=True)
class BudgetPoint:
    """A method: the tokens that it passes on, its quality, and the budget that sets their number, if any."""

    tokens: float
    quality: MetricSummary
    budget: int | None

    @property
    def value(self) -> float:
        return self.quality.value or 0.0


def quality_by_budget(report: Report) -> Plot | None:
    """Quality by tokens, lines over the methods that differ in their budget alone; None unless two lines have two
    budgets each."""
    metric = quality_metric(report)
    lines = _lines(report, metric) if metric else {}
    if not metric or sum(len(_budgeted(points)) > 1 for points in lines.values()) < 2:
        return None
    column = report.column(metric)
    front = _front(lines, -1 if column.direction == "lower" else 1)
    title = f"{sentence_case(column.heading)} by the tokens passed on"
    with ground("budgets"):
        drawing, (axes,) = axes_grid(1, 1, (9.2, 6.6))
        axes.set_xscale("log", base=2)
        for number, (name, points) in enumerate(lines.items()):
            _draw(axes, points, number, len(lines), [point for own, point in front if own == name])
        axes.step(*zip(*((p.tokens, p.value) for _, p in front), strict=True), where="post", color=INK, lw=1, zorder=1)
        _finish(axes, lines, {name for name, _ in front}, column.heading)
        words = "; ".join(
            f"{name} {figure(point.value, column.unit)} with {point.tokens:,.0f} tokens" for name, point in front
        )
        element = svg(drawing, "budgets", title, f"{len(lines)} methods. On the front: {words}.")
    caption = (
        "Mean number of words and punctuation marks in the contexts, and 95 % intervals of the quality. Intervals of "
        "equal budgets stand side by side. A line joins the budgets of a method; a single mark is a method without a "
        "budget. Filled marks, the stepped line and bold names show the Pareto front: no other method is as good with "
        "fewer tokens."
    )
    return Plot(title, caption, element)


def _lines(report: Report, metric: str) -> dict[str, list[BudgetPoint]]:
    """By name, the points of methods that differ in their budget alone, by rising tokens."""
    lines = {
        _name(methods): [point for method in methods if (point := _point(report, method, metric))]
        for methods in differing_in(BUDGET, report.methods)
    }
    return {name: sorted(points, key=lambda point: point.tokens) for name, points in lines.items() if points}


def _name(methods: Sequence[MethodResult]) -> str:
    budget = methods[0].settings.get(BUDGET)
    return shortened(one_line(methods[0].label.replace(f" max_tokens={budget}", "")), _NAME)


def _point(report: Report, method: MethodResult, metric: str) -> BudgetPoint | None:
    tokens, quality = report.value(method, PASSED_ON), report.measures(method).get(metric)
    if not tokens or not quality or quality.value is None:
        return None
    return BudgetPoint(tokens, quality, method.settings.get(BUDGET))


def _budgeted(points: Sequence[BudgetPoint]) -> list[BudgetPoint]:
    return [point for point in points if point.budget is not None]


def _front(lines: Mapping[str, Sequence[BudgetPoint]], sign: int) -> list[tuple[str, BudgetPoint]]:
    every = [(name, point) for name, points in lines.items() for point in points]
    return [every[place] for place in pareto_front([(point.tokens, sign * point.value) for _, point in every])]


def _draw(axes: Any, points: Sequence[BudgetPoint], number: int, lines: int, front: Sequence[BudgetPoint]) -> None:
    shift = 2 ** (_DODGE * (number - (lines - 1) / 2))
    if budgeted := _budgeted(points):
        xs, ys = zip(*((point.tokens * shift, point.value) for point in budgeted), strict=True)
        axes.plot(xs, ys, color=colour(number), ls=LINES[number // len(COLOURS) % len(LINES)], lw=1.3, zorder=2)
    for point in points:
        x, low, high = point.tokens * shift, point.quality.low, point.quality.high
        if low is not None and high is not None:
            axes.plot([x, x], [low, high], color=colour(number), lw=0.8, alpha=0.45, zorder=1)
        fill = colour(number) if point in front else "white"
        looks = {"s": 30 if point.budget else 52, "edgecolors": colour(number), "linewidths": 1.2}
        zorder = 4 if point in front else 3
        axes.scatter([x], [point.value], marker=marker(number), facecolors=fill, zorder=zorder, **looks)


def _finish(axes: Any, lines: Mapping[str, Sequence[BudgetPoint]], on_front: set[str], heading: str) -> None:
    """Ticks, and every line's name beside its last point, moved up or down until no two lie on each other."""
    budgets = sorted({point.budget for points in lines.values() for point in points if point.budget})
    axes.set_xticks(budgets, [f"{budget:,}" for budget in budgets])
    axes.minorticks_off()
    axes.set_xlabel("tokens of the contexts (words and punctuation marks)")
    axes.set_ylabel(heading)
    right = max(point.tokens for points in lines.values() for point in points)
    axes.set_xlim(right=right * 1.06)
    bottom, top = axes.get_ylim()
    height = (top - bottom) * _LINE_HEIGHT
    last = {name: (_budgeted(points) or points)[-1] for name, points in lines.items()}
    kinds = {name: kind for kind, name in enumerate(lines)}
    for number, (name, y) in enumerate(_spread({name: point.value for name, point in last.items()}, height, top)):
        axes.annotate(
            name,
            (last[name].tokens, last[name].value),
            (1.02, (y - bottom) / (top - bottom)),
            textcoords="axes fraction",
            va="center",
            fontsize=8,
            fontweight="bold" if name in on_front else "normal",
            color=colour(kinds[name]),
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour(kinds[name]), "lw": 0.5, "alpha": 0.5},
            zorder=5 + number,
        )


def _spread(heights: Mapping[str, float], distance: float, top: float) -> list[tuple[str, float]]:
    """Places for labels, from the top down, each at its height or as far below the one before as they need."""
    ordered = sorted(heights.items(), key=lambda item: -item[1])
    places: list[tuple[str, float]] = []
    for name, y in ordered:
        places.append((name, min(y, places[-1][1] - distance if places else top)))
    # Labels that were pushed below their lines are moved up again, all together, where those above leave room.
    excess = sum(y - at for (_, at), (_, y) in zip(places, ordered, strict=True)) / max(1, len(places))
    room = top - places[0][1] if places else 0.0
    return [(name, at + min(excess, room)) for name, at in places]
