"""Quality by the tokens that are passed on, a line for each way to pass on less: what equal budgets come to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vitalfew.tasks.reports.contents import MethodResult, Report, Summary
from vitalfew.tasks.reports.plots.drawing import COLOURS, INK, LINES, MARKERS, Plot, axes_grid, ground, svg
from vitalfew.tasks.reports.plots.front import pareto_front
from vitalfew.tasks.reports.shown.columns import figure, quality_metric, sentence_case
from vitalfew.tasks.reports.shown.text import one_line, shortened

BUDGET = "refine.max_tokens"
PASSED_ON = "context_tokens"
_NAME = 32
_LINE_HEIGHT = 0.034
"""Between two labels, of the height of the axes."""
_DODGE = 0.014
"""Between the intervals of two neighbouring lines, of the doubling of tokens."""


@dataclass(frozen=True, slots=True)
class Point:
    """A method: the tokens that it passes on, its quality, and whether a budget says how many."""

    tokens: float
    quality: Summary
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


def _lines(report: Report, metric: str) -> dict[str, list[Point]]:
    """By name, the points of methods that differ in their budget alone, by rising tokens."""
    families: dict[str, list[MethodResult]] = {}
    for method in report.methods:
        rest = {key: value for key, value in sorted(method.settings.items()) if key != BUDGET}
        families.setdefault(repr(rest), []).append(method)
    lines = {
        _name(methods): [p for method in methods if (p := _point(report, method, metric))]
        for methods in families.values()
    }
    return {name: sorted(points, key=lambda point: point.tokens) for name, points in lines.items() if points}


def _name(methods: Sequence[MethodResult]) -> str:
    budget = methods[0].settings.get(BUDGET)
    return shortened(one_line(methods[0].label.replace(f" max_tokens={budget}", "")), _NAME)


def _point(report: Report, method: MethodResult, metric: str) -> Point | None:
    measures = report.measures(method)
    tokens, quality = measures.get(PASSED_ON), measures.get(metric)
    if not tokens or not tokens.value or not quality or quality.value is None:
        return None
    return Point(tokens.value, quality, method.settings.get(BUDGET))


def _budgeted(points: Sequence[Point]) -> list[Point]:
    return [point for point in points if point.budget is not None]


def _front(lines: Mapping[str, Sequence[Point]], sign: int) -> list[tuple[str, Point]]:
    every = [(name, point) for name, points in lines.items() for point in points]
    return [every[place] for place in pareto_front([(point.tokens, sign * point.value) for _, point in every])]


def _draw(axes: Any, points: Sequence[Point], number: int, lines: int, front: Sequence[Point]) -> None:
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    shift = 2 ** (_DODGE * (number - (lines - 1) / 2))
    budgeted = _budgeted(points)
    if budgeted:
        xs, ys = zip(*((point.tokens * shift, point.value) for point in budgeted), strict=True)
        axes.plot(xs, ys, color=colour, ls=LINES[number // len(COLOURS) % len(LINES)], lw=1.3, zorder=2)
    for point in points:
        x, low, high = point.tokens * shift, point.quality.low, point.quality.high
        if low is not None and high is not None:
            axes.plot([x, x], [low, high], color=colour, lw=0.8, alpha=0.45, zorder=1)
        fill = colour if point in front else "white"
        looks = {"marker": marker, "s": 30 if point.budget else 52, "edgecolors": colour, "linewidths": 1.2}
        axes.scatter([x], [point.value], facecolors=fill, zorder=4 if point in front else 3, **looks)


def _finish(axes: Any, lines: Mapping[str, Sequence[Point]], on_front: set[str], heading: str) -> None:
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
    for number, (name, y) in enumerate(_spread({name: point.value for name, point in last.items()}, height, top)):
        place = [*lines].index(name)
        axes.annotate(
            name,
            (last[name].tokens, last[name].value),
            (1.02, (y - bottom) / (top - bottom)),
            textcoords="axes fraction",
            va="center",
            fontsize=8,
            fontweight="bold" if name in on_front else "normal",
            color=COLOURS[place % len(COLOURS)],
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": COLOURS[place % len(COLOURS)], "lw": 0.5, "alpha": 0.5},
            zorder=5 + number,
        )


def _spread(heights: Mapping[str, float], distance: float, top: float) -> list[tuple[str, float]]:
    """Places for labels, from the top down, each at its height or as far below the one before as they need."""
    ordered = sorted(heights.items(), key=lambda item: -item[1])
    places: list[tuple[str, float]] = []
    for name, y in ordered:
        places.append((name, min(y, places[-1][1] - distance if places else top)))
    # What was pushed below its line is moved up again where the labels above leave room, all together.
    excess = sum(y - at for (_, at), (_, y) in zip(places, ordered, strict=True)) / max(1, len(places))
    room = top - places[0][1] if places else 0.0
    return [(name, at + min(excess, room)) for name, at in places]
