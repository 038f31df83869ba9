"""Plots of costs, as stacked bars: seconds and USD by stage, seconds and USD of a question."""

from typing import Any

from vitalfew.storage.costs import charge
from vitalfew.tasks.reports.contents import MethodResult, Report
from vitalfew.tasks.reports.plots.drawing import Plot, bars, labelled
from vitalfew.tasks.reports.shown.columns import significant
from vitalfew.tasks.reports.shown.text import one_line

_STAGES = ("retrieve", "perturb", "refine", "appraise", "generate", "critique", "select", "score")
"""The order of the dataflow."""
_COSTS = {
    "whole_seconds": "seconds of work, without cache",
    "whole_usd": "USD, without cache",
    "paid_usd": "USD paid now",
}
REFINING, REFINING_CPU, ALL = "refine_seconds", "refine_cpu_seconds", "total_seconds"
_MOST = 40
"""Methods whose spending is drawn, at most."""


def cost_by_stage(report: Report) -> Plot | None:
    """Seconds and USD of every stage, stacked, a bar per method; None where nothing has a cost."""
    costs = [{cost.stage: cost for cost in method.costs} for method in report.methods]
    present = dict.fromkeys(stage for own in costs for stage in own)
    stages = [*(stage for stage in _STAGES if stage in present), *(stage for stage in present if stage not in _STAGES)]

    def of_stages(key: str, default: Any = 0.0) -> dict[str, list[Any]]:
        return {one_line(stage): [getattr(own.get(stage), key, default) for own in costs] for stage in stages}

    panels = {label: of_stages(key) for key, label in _COSTS.items()}
    panels = {label: parts for label, parts in panels.items() if any(map(any, parts.values()))}
    if not panels:
        return None
    reused = of_stages("reused", False)
    caption = (
        "Total cost of every method: without cache, and what this run paid. Seconds are those of all shards together."
    )
    if any(map(any, reused.values())):
        caption += " Without colour: a stage that was reused whole from an earlier run, not paid again in this run."
    rows = [labelled(report, number) for number in range(len(costs))]
    totals = (
        f"{significant(sum(cost.whole_usd for cost in own.values()))} USD without cache, "
        f"{significant(sum(cost.paid_usd for cost in own.values()))} paid now"
        for own in costs
    )
    return bars(("cost", "Cost by stage"), caption, rows, panels, totals, reused)


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
