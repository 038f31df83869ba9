"""What refiners do to quality: methods that differ in the refiner alone, side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

from vitalfew.tasks.reports.contents import MethodResult, Report, Summary
from vitalfew.tasks.reports.plots.drawing import COLOURS, MARKERS, Plot, axes_grid, ground, legend, svg
from vitalfew.tasks.reports.shown.columns import figure, quality_metric, sentence_case
from vitalfew.tasks.reports.shown.text import one_line, shortened

REFINER = "refine.refiner"
_NAME = 40
_STEP = 0.28
"""Between the marks of two refiners, in rows."""
Sides = Mapping[str, MethodResult]
"""Methods that differ in the refiner alone, by its name."""


def quality_by_refiner(report: Report) -> Plot | None:
    """The quality of methods that differ in the refiner alone; None unless two do."""
    metric = quality_metric(report)
    rows = _rows(report.methods)
    if metric is None or not rows:
        return None
    column = report.column(metric)
    refiners = [*dict.fromkeys(refiner for sides in rows.values() for refiner in sides)]
    title = f"{sentence_case(column.heading)} by refiner"
    with ground("refiners"):
        drawing, (axes,) = axes_grid(1, 1, (7.4, 1.3 + 0.5 * len(rows)))
        summaries = [_summaries(report, sides, metric) for sides in rows.values()]
        handles = [_draw(axes, summaries, refiners, place) for place in range(len(refiners))]
        axes.set_yticks(range(len(rows)), [shortened(name, _NAME) for name in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(column.heading)
        drawn = [(handle, name) for handle, name in zip(handles, refiners, strict=True) if handle is not None]
        if drawn:
            legend(drawing, [handle for handle, _ in drawn], [one_line(name) for _, name in drawn])
        lines = (
            f"{name}: {', '.join(f'{figure(own.value, column.unit)} with {one_line(key)}' for key, own in row.items())}"
            for name, row in zip(rows, summaries, strict=True)
        )
        element = svg(drawing, "refiners", title, f"{'; '.join(lines)}.")
    return Plot(title, "Means over the questions, with 95 % intervals where there are enough of them.", element)


def _rows(methods: Sequence[MethodResult]) -> dict[str, Sides]:
    """By a name without the refiner's; of methods with one and the same refiner there is no row."""
    families: dict[str, dict[str, MethodResult]] = {}
    for method in methods:
        if isinstance(refiner := method.settings.get(REFINER), str):
            rest = {key: value for key, value in sorted(method.settings.items()) if key != REFINER}
            families.setdefault(repr(rest), {})[refiner] = method
    rows = [sides for sides in families.values() if len(sides) > 1]
    return {_name(sides): sides for sides in rows}


def _name(sides: Sides) -> str:
    refiner, method = next(iter(sides.items()))
    return method.label.replace(f" refiner={refiner}", "")


def _summaries(report: Report, sides: Sides, metric: str) -> dict[str, Summary]:
    measures = {refiner: report.measures(method).get(metric) for refiner, method in sides.items()}
    return {refiner: summary for refiner, summary in measures.items() if summary}


def _draw(axes: Any, rows: Sequence[Mapping[str, Summary]], refiners: Sequence[str], place: int) -> Any:
    """The marks of one refiner, a row for every family."""
    colour, marker, handle = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)], None
    for row, of_refiner in enumerate(rows):
        summary = of_refiner.get(refiners[place])
        if summary is None or summary.value is None:
            continue
        y = row + (place - (len(refiners) - 1) / 2) * _STEP
        if summary.low is not None and summary.high is not None:
            axes.plot([summary.low, summary.high], [y, y], color=colour, lw=1.4)
        (handle,) = axes.plot([summary.value], [y], ls="", marker=marker, color=colour, ms=6)
    return handle
