"""Plots of costs, as stacked bars: seconds and USD by stage, seconds and USD of a question, seconds by step."""

from collections.abc import Mapping

from vitalfew.storage.costs import charge
from vitalfew.tasks.reports.contents import MethodResult, Report
from vitalfew.tasks.reports.plots.drawing import (
    INK,
    NAMED,
    Plot,
    amounts,
    axes_grid,
    bar_legend,
    ground,
    named_rows,
    numbered,
    stacked_bars,
    svg,
)
from vitalfew.tasks.reports.shown.columns import significant
from vitalfew.tasks.reports.shown.text import one_line

_STAGES = ("retrieve", "perturb", "refine", "appraise", "generate", "critique", "select", "score")
"""The order of the dataflow."""
_COSTS = {"wall_seconds": "seconds of work (wall, all shards)", "usd": "USD"}
_REUSED = {"facecolor": "none", "edgecolor": INK, "linewidth": 0.7}
REFINING, REFINING_CPU, ALL = "refine_seconds", "refine_cpu_seconds", "total_seconds"
_MOST = 40
"""Methods whose spending is drawn, at most."""
STEPS = {
    "init_seconds": "init",
    "prefill_seconds": "prefill",
    "copy_seconds": "copy",
    "decode_seconds": "decoding",
}
"""By metric, in their order, the steps of a generator that times them."""
REFINER = "refiner's model"


def cost_by_stage(report: Report) -> Plot | None:
    """Seconds and USD of every stage, stacked, a bar per method; None where nothing has a cost."""
    stages = _stages(report)
    drawn = {key: label for key, label in _COSTS.items() if any(_totals(report, key))}
    if not drawn:
        return None
    title = "Cost by stage"
    caption = "Total cost of every method, whichever run paid for it."
    reused = any(cost.reused for method in report.methods for cost in method.costs)
    if reused:
        caption += " Without colour: reused from an earlier run or another method, not paid again in this run."
    with ground("cost"):
        drawing, places = axes_grid(1, len(drawn), (8.6, 1.5 + 0.28 * len(report.methods)))
        for place, (key, label) in zip(places, drawn.items(), strict=True):
            stacked_bars(
                place,
                (
                    (number, kind, getattr(cost, key), not cost.reused)
                    for kind, stage in enumerate(stages)
                    for number, method in enumerate(report.methods)
                    for cost in method.costs
                    if cost.stage == stage and getattr(cost, key)
                ),
            )
            named_rows(place, [numbered(report, number) for number in range(len(report.methods))])
            amounts(place)
            if len(report.methods) > NAMED:  # the lower end is out of sight
                place.tick_params(axis="x", labeltop=True)
            place.set_xlabel(label)
        for place in places[1:]:
            place.set_yticklabels([])
        bar_legend(drawing, [one_line(stage) for stage in stages], {"reused": _REUSED} if reused else None)
        totals = [f"{numbered(report, n)}: {significant(usd)} USD" for n, usd in enumerate(_totals(report, "usd"))]
        return Plot(title, caption, svg(drawing, "cost", title, f"All stages together: {'; '.join(totals)}."))


def _stages(report: Report) -> list[str]:
    present = [*dict.fromkeys(cost.stage for method in report.methods for cost in method.costs)]
    return [*(stage for stage in _STAGES if stage in present), *(stage for stage in present if stage not in _STAGES)]


def _totals(report: Report, key: str) -> list[float]:
    return [sum(getattr(cost, key) for cost in method.costs) for method in report.methods]


def spent_by_method(report: Report) -> Plot | None:
    """Seconds and USD, refining and answering apart; None where no refiner was timed. Only the methods that are
    compared in pairs, where there are such. A text that was read for another method counts for this one, too."""
    paired = sorted({place for pair in report.pairs for place in (pair.one, pair.other)})
    taken = {
        place: spent
        for place in paired or range(len(report.methods))
        if (spent := _spent(report, report.methods[place]))
    }
    if len(taken) < 2 or len(taken) > _MOST:
        return None
    title = "Cost of a question"
    caption = (
        "Refining and answering, means over the questions. USD: processor time at the prices of configs/prices.yaml. "
        "Texts that a model had already read for another method or ratio count in full."
    )
    with ground("spending"):
        drawing, places = axes_grid(1, 2, (8.6, 1.5 + 0.28 * len(taken)))
        labels = ("seconds per question (models loaded)", "USD per 1,000 questions")
        for axes, label, amount in zip(places, labels, zip(*taken.values(), strict=True), strict=True):
            parts = ((row, kind, value, True) for row, both in enumerate(amount) for kind, value in enumerate(both))
            stacked_bars(axes, parts)
            amounts(axes)
            axes.set_xlabel(label)
        named_rows(places[0], [numbered(report, place) for place in taken])
        places[1].set_ylim(*places[0].get_ylim())
        places[1].grid(visible=False, axis="y")
        places[1].set_yticklabels([])
        bar_legend(drawing, ["refining", "answering"])
        words = "; ".join(
            f"{numbered(report, place)}: {significant(sum(seconds))} s, {significant(sum(usd))} USD"
            for place, (seconds, usd) in taken.items()
        )
        return Plot(title, caption, svg(drawing, "spending", title, f"{words}."))


def _spent(report: Report, method: MethodResult) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """(refining, answering) in seconds of a question, and in USD of a thousand."""
    refining, cpu, both = (report.value(method, metric) for metric in (REFINING, REFINING_CPU, ALL))
    if refining is None or cpu is None or both is None:
        return None
    answering = both - refining
    usd = charge(1000 * cpu, 0.0, 0.0), charge(1000 * answering * _processors(method), 0.0, 0.0)
    return (refining, answering), usd


def _processors(method: MethodResult) -> float:
    """Processors that the generator keeps busy, on average; 1 where its answers were all there already."""
    generating = [cost for cost in method.costs if cost.stage == "generate" and cost.tokens]
    wall = sum(cost.wall_seconds for cost in generating)
    return sum(cost.cpu_seconds for cost in generating) / wall if wall else 1.0


def latency_split(report: Report) -> Plot | None:
    """Seconds of a question by step, a bar for each method whose generator times all of them (Sparse RAG, table 6);
    None without any."""
    bars = {number: split for number, method in enumerate(report.methods) if (split := _split(report, method))}
    if not bars:
        return None
    steps = [step for step in (REFINER, *STEPS.values()) if any(step in split for split in bars.values())]
    title = "Where the seconds go"
    caption = (
        "Init: until the model starts; prefill: until its first token; copy: joining the caches; decoding: the rest."
    )
    if missing := len(report.methods) - len(bars):
        caption += f" {missing} of {len(report.methods)} methods are not drawn: a step is not reported or was reused."
    with ground("latency"):
        drawing, (axes,) = axes_grid(1, 1, (7.4, 1.3 + 0.3 * len(bars)))
        rows = enumerate(bars.values())
        parts = ((row, kind, split.get(step, 0.0), True) for row, split in rows for kind, step in enumerate(steps))
        stacked_bars(axes, parts)
        named_rows(axes, [numbered(report, number) for number in bars])
        axes.set_xlabel("mean seconds per question")
        bar_legend(drawing, steps)
        words = "; ".join(_line(report, number, split) for number, split in bars.items())
        return Plot(title, caption, svg(drawing, "latency", title, f"{words}."))


def _split(report: Report, method: MethodResult) -> dict[str, float]:
    """Seconds by step; empty unless all are known. A refiner that computed tokens is a step by itself."""
    seconds = {step: report.value(method, metric) for metric, step in STEPS.items()}
    known = {step: value for step, value in seconds.items() if value is not None}
    if len(known) < len(STEPS):
        return {}
    refined = sum(cost.wall_seconds for cost in method.costs if cost.stage == "refine" and cost.tokens)
    return known | ({REFINER: refined / report.asked.questions} if refined and report.asked.questions else {})


def _line(report: Report, number: int, split: Mapping[str, float]) -> str:
    return f"{numbered(report, number)}: {', '.join(f'{step} {significant(value)} s' for step, value in split.items())}"
