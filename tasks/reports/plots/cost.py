"""The plot of costs, as stacked bars: seconds and USD of a question."""

from vitalfew.storage.costs import charge
from vitalfew.tasks.reports.contents import MethodResult, Report
from vitalfew.tasks.reports.plots.drawing import INK, NAMED, Plot, canvas, colour, labelled, named_rows
from vitalfew.tasks.reports.shown.text import significant

REFINING, REFINING_CPU, ALL = "refine_seconds", "refine_cpu_seconds", "total_seconds"
_HATCHES = {"refining": "//", "answering": ""}
_PANELS = ("seconds per question (models loaded)", "USD per 1,000 questions")
_MOST = 40
"""Methods whose spending is drawn, at most."""


def spent_by_method(report: Report) -> Plot | None:
    """Seconds and USD, refining and answering apart; None where no refiner was timed. Only the methods that are
    compared in pairs, where there are such. A text that was read for another method counts for this one, too."""
    paired = sorted({place for pair in report.pairs for place in (pair.one, pair.other)})
    spent = {
        labelled(report, place): both
        for place in paired or range(len(report.methods))
        if (both := _spent(report, report.methods[place]))
    }
    if not 2 <= len(spent) <= _MOST:
        return None
    caption = (
        "Refining and answering, means over the questions. USD: processor time at the prices of configs/prices.yaml. "
        "Texts that a model had already read for another method or ratio count in full."
    )
    about = "; ".join(
        f"{name}: {significant(sum(seconds))} s, {significant(sum(usd))} USD" for name, (seconds, usd) in spent.items()
    )
    return _bars(caption, spent, f"{about}.")


_Spent = tuple[tuple[float, float], tuple[float, float]]
"""(refining, answering) in seconds of a question, and in USD of a thousand."""


def _spent(report: Report, method: MethodResult) -> _Spent | None:
    refining, cpu, both = (report.value(method, metric) for metric in (REFINING, REFINING_CPU, ALL))
    if refining is None or cpu is None or both is None:
        return None
    generating = [cost for cost in method.costs if cost.stage == "generate" and cost.tokens]
    wall = sum(cost.wall_seconds for cost in generating)
    # Processors that the generator keeps busy, on average; 1 where its answers were all there already.
    processors = sum(cost.cpu_seconds for cost in generating) / wall if wall else 1.0
    answering = both - refining
    return (refining, answering), (charge(1000 * cpu, 0.0, 0.0), charge(1000 * answering * processors, 0.0, 0.0))


def _bars(caption: str, spent: dict[str, _Spent], about: str) -> Plot:
    """Stacked horizontal bars, a row for every method, a panel for seconds and one for USD."""
    from matplotlib.patches import Patch

    looks = {
        kind: {"edgecolor": INK, "linewidth": 0.7, "facecolor": colour(number), "hatch": hatch}
        for number, (kind, hatch) in enumerate(_HATCHES.items())
    }
    with canvas("spending", (8.6, 1.5 + 0.28 * len(spent)), columns=2) as drawing:
        for panel, (axes, label) in enumerate(zip(drawing.axes, _PANELS, strict=True)):
            ends = [0.0] * len(spent)
            for kind, look in enumerate(looks.values()):
                for row, both in enumerate(spent.values()):
                    if length := both[panel][kind]:
                        axes.barh(row, length, left=ends[row], height=0.7, **look)
                        ends[row] += length
            named_rows(axes, [""] * len(spent) if panel else [*spent])
            axes.tick_params(axis="x", labeltop=len(spent) > NAMED)  # else the lower end is out of sight
            axes.locator_params(axis="x", nbins=4)
            axes.xaxis.set_major_formatter(lambda value, _: significant(value))
            axes.set_xlabel(label)
        drawing.legend([Patch(**each) for each in looks.values()], [*looks])
        return drawing.plot("Cost of a question", caption, about)
