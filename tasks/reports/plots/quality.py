"""Plots of quality against what it takes, with the Pareto front: prompt tokens, tokens of the contexts. What a method
used counts, not the budget that it was given."""

import re
from collections.abc import Sequence
from typing import Any

import polars as pl

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.differences import ALPHA, families
from vitalfew.tasks.reports.plots.drawing import (
    INK,
    LABEL,
    MARKERS,
    NAMED,
    Plot,
    canvas,
    colour,
    labelled,
    line,
    marks,
)
from vitalfew.tasks.reports.shown.columns import (
    CONTEXT_TOKENS,
    SMALL_UNITS,
    figure,
    pareto_front,
    price_metric,
    quality_metric,
    sentence_case,
)
from vitalfew.tasks.reports.shown.text import one_line, shortened

BUDGET = "refine.max_tokens"
TOKENS = "tokens of the contexts (words and punctuation marks), mean per question"
_NAME = 32


def quality_by_price(report: Report) -> Plot | None:
    """Quality against prompt tokens (contexts, or seconds, where there are none), with the Pareto front.

    Methods without one of the two are not drawn.
    """
    quality, price = quality_metric(report), price_metric(report)
    points = _points(report, price, quality) if quality and price else {}
    if quality is None or price is None or not points:
        return None
    across, up = report.column(price), report.column(quality)
    front = [[*points][place] for place in pareto_front([*points.values()], up.direction == "lower")]
    is_small = len(report.methods) <= NAMED
    # More intervals would hide the points.
    intervals = {n: report.measures(report.methods[n])[quality] for n in points} if is_small else {}
    title = f"{sentence_case(up.heading)} against {across.heading}"
    caption = (
        "Filled markers and the stepped line are the Pareto front: no other method is as good for "
        f"{'less' if across.unit in SMALL_UNITS else 'fewer'} {across.heading}. Mean over the questions."
    )
    if any(own.low is not None for own in intervals.values()):
        caption += " Bars: 95 % intervals of the means."
    if not is_small:
        caption += " Only the methods on the front are named, of equal ones the first."
    if missing := len(report.methods) - len(points):
        caption += f" {missing} of {len(report.methods)} methods lack one of the two figures and are not drawn."
    with canvas(re.sub(r"\W", "-", f"quality-{quality}"), (7.4, 5.2) if is_small else (8.6, 6.4)) as drawing:
        [axes] = drawing.axes
        axes.step(*zip(*(points[number] for number in front), strict=True), where="post", color=INK, lw=1, zorder=2)
        names, kinds = _kinds(report)
        for number, (x, y) in points.items():
            ends = [intervals[number].ends()] if is_small else ()
            fill = colour(kinds[number]) if number in front else "none"
            marks(axes, kinds[number], [x], [y], ends, mfc=fill, clip_on=False, zorder=3)
        axes.margins(0.08, 0.12)
        prices = [x for x, _ in points.values()]
        # The axis begins at 0 to show proportions, or near the points where these are all alike.
        axes.set_xlim(left=0 if min(prices) < max(prices) / 2 or min(prices) == max(prices) else None)
        axes.set(
            xlabel=TOKENS if price == CONTEXT_TOKENS else f"{across.heading}, mean per question", ylabel=up.heading
        )
        if names:
            shown = sorted({kinds[number] for number in points})
            drawing.legend([marks(axes, kind, [], [], mfc="none") for kind in shown], [names[kind] for kind in shown])
        if not is_small:  # of equal points the first: a larger budget may change nothing
            first = {point: number for number, point in reversed(points.items())}
            for number in {first[points[number]] for number in front}:
                axes.annotate(labelled(report, number), points[number], (6, 6), fontweight="bold", **LABEL)
        best = "; ".join(
            f"{labelled(report, number)}: {figure(points[number][0], across.unit)} {across.heading}, "
            f"{up.heading} {figure(points[number][1], up.unit)}"
            for number in front
        )
        return drawing.plot(title, caption, f"{len(points)} methods. On the Pareto front: {best}.")


def _points(report: Report, across: str, up: str) -> dict[int, tuple[float, float]]:
    """The values of two metrics by the place of the method that has both."""
    pairs = zip(report.values(across), report.values(up), strict=True)
    return {number: (x, y) for number, (x, y) in enumerate(pairs) if x is not None and y is not None}


def _kinds(report: Report) -> tuple[list[str], list[int]]:
    """Names for a legend, and the kind of every method: another for every one, or one per family where there are many
    methods, or one for all where there are more families than markers."""
    if len(report.methods) <= NAMED:
        every = range(len(report.methods))
        return [labelled(report, number) for number in every], [*every]
    groups = families(ALPHA, report.methods)
    if not 1 < len(groups) <= len(MARKERS):
        return [], [0] * len(report.methods)
    kinds = {id(method): kind for kind, methods in enumerate(groups.values()) for method in methods}
    return [*groups], [kinds[id(method)] for method in report.methods]


def quality_by_budget(report: Report) -> Plot | None:
    """Quality by the tokens that were used, lines over the methods that differ in their budget alone; None unless there
    are two lines, one of them with two budgets."""
    metric = quality_metric(report) or ""
    points = _budgeted(report, metric)
    if points["line"].n_unique() < 2 or not points.drop_nulls("budget")["line"].is_duplicated().any():
        return None
    column = report.column(metric)
    front = points[pareto_front(points.select("tokens", "value").rows(), column.direction == "lower")]
    lines = points.partition_by("line", maintain_order=True)
    caption = (
        "A line joins the budgets of a method. A mark stands at the tokens that were used: left of its budget (scale "
        "above) where less was enough, and on another mark where a larger budget changed nothing. A single mark is a "
        "method without a budget. Shaded: 95 % intervals. The stepped line is the Pareto front: no other method is as "
        "good with fewer tokens."
    )
    with canvas("budgets", (9.2, 6.6)) as drawing:
        [axes] = drawing.axes
        axes.set_xscale("log", base=2)
        handles = [
            line(axes, kind, own["tokens"].to_list(), own["value"].to_list(), own.select("low", "high").rows())
            for kind, own in enumerate(lines)
        ]
        axes.step(front["tokens"], front["value"], where="post", color=INK, lw=1, zorder=1)
        axes.set(xlabel=TOKENS, ylabel=column.heading)
        _ticks(axes, points["budget"].drop_nulls().unique().sort().to_list())
        drawing.legend(handles, [own["line"][0] for own in lines])
        words = "; ".join(
            dict.fromkeys(
                f"{name} {figure(value, column.unit)} with {tokens:,.0f} tokens"
                for name, tokens, value in front.select("line", "tokens", "value").rows()
            )
        )
        title = f"{sentence_case(column.heading)} by the tokens used"
        return drawing.plot(title, caption, f"{len(lines)} methods. On the front: {words}.")


def _budgeted(report: Report, metric: str) -> pl.DataFrame:
    """A row per method, by lines and rising budgets: `line` (the name of methods that differ in their budget alone),
    `tokens` of the contexts, `value`, `low` and `high` of the metric, and the `budget` if any."""
    rows = []
    for number, methods in enumerate(families(BUDGET, report.methods).values()):
        name = methods[0].label.replace(f" max_tokens={methods[0].budget}", "")
        for method in methods:
            tokens, quality = report.value(method, CONTEXT_TOKENS), report.measures(method).get(metric)
            if tokens and quality and quality.value is not None:
                own = (tokens, quality.value, *quality.ends(), method.budget)
                rows.append((number, shortened(one_line(name), _NAME), *own))
    schema = {"number": pl.Int64, "line": pl.String, **dict.fromkeys(("tokens", "value", "low", "high"), pl.Float64)}
    frame = pl.DataFrame(rows, {**schema, "budget": pl.Int64}, orient="row")
    return frame.sort("number", "budget", "tokens", nulls_last=True, maintain_order=True)


def _ticks(axes: Any, budgets: Sequence[int]) -> None:
    """Round numbers of tokens below, and the budgets that are in sight above."""
    from matplotlib.ticker import MaxNLocator

    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(MaxNLocator(8))
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.minorticks_off()
    above = axes.secondary_xaxis("top")
    shown = [budget for budget in budgets if low <= budget <= high]
    above.set_xticks(shown, [f"{budget:,.0f}" for budget in shown])
    above.set_xticks([], minor=True)
    above.set_xlabel("budget (refine.max_tokens)")
