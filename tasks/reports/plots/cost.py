"""The plot of costs, as stacked bars: seconds and USD of a question."""

from vitalfew.storage.costs import charge
from vitalfew.tasks.reports.contents import MethodResult, Report
from vitalfew.tasks.reports.plots.drawing import Plot, bars, labelled
from vitalfew.tasks.reports.shown.text import significant

REFINING, REFINING_CPU, ALL = "refine_seconds", "refine_cpu_seconds", "total_seconds"
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
    labels = ("seconds per question (models loaded)", "USD per 1,000 questions")
    panels = {
        label: dict(zip(("refining", "answering"), zip(*amounts, strict=True), strict=True))
        for label, amounts in zip(labels, zip(*spent.values(), strict=True), strict=True)
    }
    words = (f"{significant(sum(seconds))} s, {significant(sum(usd))} USD" for seconds, usd in spent.values())
    return bars(("spending", "Cost of a question"), caption, [*spent], panels, words)


def _spent(report: Report, method: MethodResult) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """(refining, answering) in seconds of a question, and in USD of a thousand."""
    refining, cpu, both = (report.value(method, metric) for metric in (REFINING, REFINING_CPU, ALL))
    if refining is None or cpu is None or both is None:
        return None
    generating = [cost for cost in method.costs if cost.stage == "generate" and cost.tokens]
    wall = sum(cost.wall_seconds for cost in generating)
    # Processors that the generator keeps busy, on average; 1 where its answers were all there already.
    processors = sum(cost.cpu_seconds for cost in generating) / wall if wall else 1.0
    answering = both - refining
    return (refining, answering), (charge(1000 * cpu, 0.0, 0.0), charge(1000 * answering * processors, 0.0, 0.0))
