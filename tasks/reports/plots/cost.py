"""What every stage took, method by method: stacked bars of seconds and USD."""

from collections.abc import Sequence
from typing import Any

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.plots.drawing import (
    COLOURS,
    HATCHES,
    INK,
    NAMED,
    Plot,
    axes_grid,
    ground,
    legend,
    numbered,
    svg,
)
from vitalfew.tasks.reports.shown.columns import significant
from vitalfew.tasks.reports.shown.text import one_line

_STAGES = ("retrieve", "perturb", "refine", "appraise", "generate", "critique", "select", "score")
"""The order of the dataflow."""


def cost_by_stage(report: Report) -> Plot | None:
    """Seconds and USD of every stage, stacked, a bar per method; None where nothing has a cost."""
    stages = _stages(report)
    measures = {"wall_seconds": "seconds of work (wall, all shards)", "usd": "USD"}
    drawn = {key: label for key, label in measures.items() if any(_totals(report, key))}
    if not drawn:
        return None
    with ground("cost"):
        drawing, places = axes_grid(1, len(drawn), (8.6, 1.5 + 0.28 * len(report.methods)))
        for place, (key, label) in zip(places, drawn.items(), strict=True):
            _bars(place, report, stages, key)
            place.set_xlabel(label)
        for place in places[1:]:
            place.set_yticklabels([])
        reused = any(cost.reused for method in report.methods for cost in method.costs)
        _hatch_legend(drawing, stages, reused)
        totals = [f"{numbered(report, n)}: {significant(usd)} USD" for n, usd in enumerate(_totals(report, "usd"))]
        title = "Cost by stage"
        element = svg(drawing, "cost", title, f"All stages together: {'; '.join(totals)}.")
    caption = "Total cost of every method, whichever run paid for it."
    if reused:
        caption += " Without colour: reused from an earlier run or another method, not paid again in this run."
    return Plot(title, caption, element)


def _bars(axes: Any, report: Report, stages: Sequence[str], key: str) -> None:
    ends = [0.0] * len(report.methods)
    for kind, stage in enumerate(stages):
        for number, method in enumerate(report.methods):
            for cost in method.costs:
                if cost.stage == stage and getattr(cost, key):
                    looks = _looks(kind, cost.reused)
                    axes.barh(number, getattr(cost, key), left=ends[number], height=0.7, **looks)
                    ends[number] += getattr(cost, key)
    axes.set_yticks(range(len(report.methods)), [numbered(report, n) for n in range(len(report.methods))])
    axes.set_ylim(len(report.methods) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.locator_params(axis="x", nbins=4)
    axes.xaxis.set_major_formatter(lambda value, _: significant(value))
    if len(report.methods) > NAMED:  # the lower end is out of sight
        axes.tick_params(axis="x", labeltop=True)


def _looks(kind: int, reused: bool) -> dict[str, Any]:
    colour = "none" if reused else COLOURS[kind % len(COLOURS)]
    return {"facecolor": colour, "hatch": HATCHES[kind % len(HATCHES)], "edgecolor": INK, "linewidth": 0.7}


def _hatch_legend(drawing: Any, stages: Sequence[str], reused: bool) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(**_looks(kind, False)) for kind in range(len(stages))]
    names = [one_line(stage) for stage in stages]
    if reused:
        handles.append(Patch(facecolor="none", edgecolor=INK, linewidth=0.7))
        names.append("reused")
    legend(drawing, handles, names)


def _stages(report: Report) -> list[str]:
    present = [*dict.fromkeys(cost.stage for method in report.methods for cost in method.costs)]
    return [*(stage for stage in _STAGES if stage in present), *(stage for stage in present if stage not in _STAGES)]


def _totals(report: Report, key: str) -> list[float]:
    return [sum(getattr(cost, key) for cost in method.costs) for method in report.methods]
