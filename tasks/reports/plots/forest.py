"""A forest plot: differences to a baseline with their intervals, a row each, around a line at 0.

Beside every row stand its figures, so that the plot is read without its axis (Lewis and Clarke, Forest plots: trying to
see the wood and the trees, BMJ 322, 2001).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.plots.drawing import COLOURS, INK, Plot, canvas, labelled, marks, named_rows
from vitalfew.tasks.reports.shown.columns import LEVEL, is_apart, quality_metric
from vitalfew.tasks.reports.shown.text import shortened

Kind = Literal["filled", "hollow", "grey"]
_LOOKS: dict[str, dict[str, Any]] = {
    "filled": {"color": COLOURS[0], "ecolor": COLOURS[0]},
    "hollow": {"color": COLOURS[0], "ecolor": COLOURS[0], "mfc": "none"},
    "grey": {"color": "#808080", "ecolor": "#808080"},
}
_LABEL, _NAME = 44, 40
_ROW = 0.32
"""Inches of a row."""


class ForestRow(NamedTuple):
    """A difference: `low`, `high`: the ends of its interval; `n`: its questions; `kind`: the looks of its mark."""

    label: str
    difference: float
    low: float
    high: float
    n: int
    kind: Kind = "filled"


def forest(
    rows: Sequence[ForestRow],
    title: str,
    axis: str,
    caption: str,
    legend: Mapping[Kind, str] | None = None,
    name: str = "forest",
) -> Plot:
    """Plot one row or more, the first one at the top.

    `axis`: the words below the axis, which name the baseline; `legend`: what the kinds of marks mean, those alone that
    a row has; `name`: unlike that of other plots on the page.
    """
    meant = {kind: words for kind, words in (legend or {}).items() if any(row.kind == kind for row in rows)}
    height = 0.9 + _ROW * len(rows) + (0.3 if meant else 0.0)
    with canvas(name, (8.2, height)) as drawing:
        [axes] = drawing.axes
        axes.axvline(0, color=INK, lw=1)
        handles = {
            row.kind: marks(axes, 0, [row.difference], [place], [(row.low, row.high)], across=True, **_LOOKS[row.kind])
            for place, row in enumerate(rows)
        }
        named_rows(axes, [shortened(row.label, _LABEL) for row in rows])
        beside = axes.secondary_yaxis("right")
        beside.set_yticks(range(len(rows)), [figures(row) for row in rows])
        beside.tick_params(length=0)
        beside.spines["right"].set_visible(False)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.06)
        axes.set_xlabel(axis)
        if meant:
            drawing.legend([handles[kind] for kind in meant], [*meant.values()])
        return drawing.plot(title, caption, " ".join(f"{row.label}: {figures(row)}." for row in rows))


def figures(row: ForestRow) -> str:
    """The difference, its interval and its questions: two decimals, or three where an end would round to 0."""
    ends = (row.low, row.high)
    places = 3 if any(0 < abs(end) < 0.005 for end in ends) else 2
    difference, low, high = (f"{value:+.{places}f}".replace("-", "−") for value in (row.difference, *ends))
    return f"{difference} ({low} to {high}), n = {row.n:,}"


def differences(report: Report) -> Plot | None:
    """Every method's difference to the baseline in quality; None where none has an interval, or all are 0."""
    metric = quality_metric(report)
    every = ((number, method.differences.get(metric or "")) for number, method in enumerate(report.methods))
    rows = {labelled(report, number, _NAME): own for number, own in every if own and own.low is not None}
    if not metric or not any(own.low or own.high for own in rows.values()):
        return None
    baseline = shortened(report.baseline(), _NAME)
    title = f"Difference to {baseline} in {report.column(metric).heading}"
    caption = (
        "Mean difference and 95 % interval, paired over questions. Filled: significantly different from the baseline "
        f"(p < {LEVEL:g} after Holm's correction over the methods)."
    )
    forested = []
    for name, own in rows.items():
        ends = own.low or 0.0, own.high or 0.0
        kind: Kind = "filled" if is_apart(own) else "hollow"
        forested.append(ForestRow(name, own.mean_difference or 0.0, *ends, own.questions, kind))
    return forest(forested, title, title, caption, name="differences")
