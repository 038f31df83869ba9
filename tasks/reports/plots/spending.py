"""What a question takes with each method: seconds of the refiner and of the generator, and USD for a thousand."""

from typing import Any

from vitalfew.storage.costs import charge
from vitalfew.tasks.reports.contents import MethodResult, Report
from vitalfew.tasks.reports.plots.drawing import COLOURS, HATCHES, INK, Plot, axes_grid, ground, legend, numbered, svg
from vitalfew.tasks.reports.shown.columns import significant

REFINING, REFINING_CPU, ALL = "refine_seconds", "refine_cpu_seconds", "total_seconds"
_MOST = 40


def spent_by_method(report: Report) -> Plot | None:
    """Seconds and USD, refining and answering apart; None where no refiner was timed. Of the methods that are compared
    each with each, where there are such; what was read for another method counts as if it had been read for this."""
    paired = sorted({place for pair in report.pairs for place in (pair.one, pair.other)})
    taken = {
        place: spent
        for place in paired or range(len(report.methods))
        if (spent := _spent(report, report.methods[place]))
    }
    if len(taken) < 2 or len(taken) > _MOST:
        return None
    title = "Cost of a question"
    with ground("spending"):
        drawing, axes = axes_grid(1, 2, (8.6, 1.5 + 0.28 * len(taken)))
        for part in range(2):
            _bars(axes[part], [spent[part] for spent in taken.values()])
        axes[0].set_yticks(range(len(taken)), [numbered(report, place) for place in taken])
        axes[0].set_xlabel("seconds per question (models loaded)")
        axes[1].set_yticklabels([])
        axes[1].set_xlabel("USD per 1,000 questions")
        _legend(drawing)
        words = "; ".join(
            f"{numbered(report, place)}: {significant(sum(seconds))} s, {significant(sum(usd))} USD"
            for place, (seconds, usd) in taken.items()
        )
        element = svg(drawing, "spending", title, f"{words}.")
    caption = (
        "Refining and answering, means over the questions. USD: processor time at the prices of configs/prices.yaml. "
        "Texts that a model had already read for another method or ratio count in full."
    )
    return Plot(title, caption, element)


def _spent(report: Report, method: MethodResult) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """(refining, answering) in seconds of a question, and in USD of a thousand."""
    measures = report.measures(method)
    values = {name: measures[name].value for name in (REFINING, REFINING_CPU, ALL) if name in measures}
    refining, cpu, both = (values.get(name) for name in (REFINING, REFINING_CPU, ALL))
    if refining is None or cpu is None or both is None:
        return None
    answering = both - refining
    usd = charge(1000 * cpu, 0.0, 0.0), charge(1000 * answering * _processors(method), 0.0, 0.0)
    return (refining, answering), usd


def _processors(method: MethodResult) -> float:
    """That the generator keeps busy, on average; 1 where its answers were all there already."""
    wall = sum(cost.wall_seconds for cost in method.costs if cost.stage == "generate" and cost.tokens)
    cpu = sum(cost.cpu_seconds for cost in method.costs if cost.stage == "generate" and cost.tokens)
    return cpu / wall if wall else 1.0


def _bars(axes: Any, rows: list[tuple[float, float]]) -> None:
    for row, parts in enumerate(rows):
        for part, value in enumerate(parts):
            axes.barh(row, value, left=sum(parts[:part]), height=0.7, **_looks(part))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.locator_params(axis="x", nbins=4)
    axes.xaxis.set_major_formatter(lambda value, _: significant(value))


def _looks(part: int) -> dict[str, Any]:
    return {"facecolor": COLOURS[part], "hatch": HATCHES[part], "edgecolor": INK, "linewidth": 0.7}


def _legend(drawing: Any) -> None:
    from matplotlib.patches import Patch

    legend(drawing, [Patch(**_looks(part)) for part in range(2)], ["refining", "answering"])
