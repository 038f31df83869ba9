"""A forest plot: every method's difference to the baseline with its interval, a row each, around a line at 0.

Beside every row stand its figures, so that the plot is read without its axis (Lewis and Clarke, Forest plots: trying to
see the wood and the trees, BMJ 322, 2001).
"""

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.plots.drawing import COLOURS, INK, Plot, canvas, labelled, marks, named_rows
from vitalfew.tasks.reports.shown.columns import LEVEL, is_apart, plain, quality_metric
from vitalfew.tasks.reports.shown.text import shortened
from vitalfew.tasks.reports.statistics.paired import Difference

_NAME, _LABEL = 40, 44
_ROW = 0.32
"""Inches of a row."""


def differences(report: Report) -> Plot | None:
    """Differences in quality, the first method at the top; None where none has an interval, or all are 0."""
    metric = quality_metric(report)
    every = ((number, method.differences.get(metric or "")) for number, method in enumerate(report.methods))
    rows = {labelled(report, number, _NAME): own for number, own in every if own and own.low is not None}
    if not metric or not any(own.low or own.high for own in rows.values()):
        return None
    title = f"Difference to {shortened(report.baseline(), _NAME)} in {plain(report.column(metric))}"
    caption = (
        "Mean difference and 95 % interval, paired over questions. Filled: significantly different from the baseline "
        f"(p < {LEVEL:g} after Holm's correction over the methods)."
    )
    with canvas("differences", (8.2, 0.9 + _ROW * len(rows))) as drawing:
        [axes] = drawing.axes
        axes.axvline(0, color=INK, lw=1)
        looks = {"color": COLOURS[0], "ecolor": COLOURS[0]}
        for place, own in enumerate(rows.values()):
            filled = {} if is_apart(own) else {"mfc": "none"}
            ends = [(own.low or 0.0, own.high or 0.0)]
            marks(axes, 0, [own.mean_difference or 0.0], [place], ends, across=True, **looks, **filled)
        named_rows(axes, [shortened(name, _LABEL) for name in rows])
        beside = axes.secondary_yaxis("right")
        beside.set_yticks(range(len(rows)), [_figures(own) for own in rows.values()])
        beside.tick_params(length=0)
        beside.spines["right"].set_visible(False)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.06)
        axes.set_xlabel(title)
        return drawing.plot(title, caption, " ".join(f"{name}: {_figures(own)}." for name, own in rows.items()))


def _figures(own: Difference) -> str:
    """The difference, its interval and its questions: two decimals, or three where an end would round to 0."""
    ends = (own.low or 0.0, own.high or 0.0)
    places = 3 if any(0 < abs(end) < 0.005 for end in ends) else 2
    mean, low, high = (f"{value:+.{places}f}".replace("-", "−") for value in (own.mean_difference or 0.0, *ends))
    return f"{mean} ({low} to {high}), n = {own.questions:,}"
