"""Plots of costs: seconds and USD by stage, by step and by method, as stacked bars.

What every stage took, method by method: stacked bars of seconds and USD.

What a question takes with each method: seconds of the refiner and of the generator, and USD for a thousand.

Where the seconds of an answer go, step by step: stacked bars (Sparse RAG, table 6).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from vitalfew.storage.costs import charge
from vitalfew.tasks.reports.contents import MethodResult, Report
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
            _bars_cost(place, report, stages, key)
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


def _bars_cost(axes: Any, report: Report, stages: Sequence[str], key: str) -> None:
    ends = [0.0] * len(report.methods)
    for kind, stage in enumerate(stages):
        for number, method in enumerate(report.methods):
            for cost in method.costs:
                if cost.stage == stage and getattr(cost, key):
                    looks = _looks_cost(kind, cost.reused)
                    axes.barh(number, getattr(cost, key), left=ends[number], height=0.7, **looks)
                    ends[number] += getattr(cost, key)
    axes.set_yticks(range(len(report.methods)), [numbered(report, n) for n in range(len(report.methods))])
    axes.set_ylim(len(report.methods) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.locator_params(axis="x", nbins=4)
    axes.xaxis.set_major_formatter(lambda value, _: significant(value))
    if len(report.methods) > NAMED:  # the lower end is out of sight
        axes.tick_params(axis="x", labeltop=True)


def _looks_cost(kind: int, reused: bool) -> dict[str, Any]:
    colour = "none" if reused else COLOURS[kind % len(COLOURS)]
    return {"facecolor": colour, "hatch": HATCHES[kind % len(HATCHES)], "edgecolor": INK, "linewidth": 0.7}


def _hatch_legend(drawing: Any, stages: Sequence[str], reused: bool) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(**_looks_cost(kind, False)) for kind in range(len(stages))]
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
            _bars_spending(axes[part], [spent[part] for spent in taken.values()])
        axes[0].set_yticks(range(len(taken)), [numbered(report, place) for place in taken])
        axes[0].set_xlabel("seconds per question (models loaded)")
        axes[1].set_yticklabels([])
        axes[1].set_xlabel("USD per 1,000 questions")
        _legend_spending(drawing)
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


def _bars_spending(axes: Any, rows: list[tuple[float, float]]) -> None:
    for row, parts in enumerate(rows):
        for part, value in enumerate(parts):
            axes.barh(row, value, left=sum(parts[:part]), height=0.7, **_looks_spending(part))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.locator_params(axis="x", nbins=4)
    axes.xaxis.set_major_formatter(lambda value, _: significant(value))


def _looks_spending(part: int) -> dict[str, Any]:
    return {"facecolor": COLOURS[part], "hatch": HATCHES[part], "edgecolor": INK, "linewidth": 0.7}


def _legend_spending(drawing: Any) -> None:
    from matplotlib.patches import Patch

    legend(drawing, [Patch(**_looks_spending(part)) for part in range(2)], ["refining", "answering"])


STEPS = {
    "init_seconds": "init",
    "prefill_seconds": "prefill",
    "copy_seconds": "copy",
    "decode_seconds": "decoding",
}
"""By metric, in their order, what a generator that tells its steps does."""
MODEL = "refiner's model"


def latency_split(report: Report) -> Plot | None:
    """Seconds of a question by step, a bar for each method whose generator tells all of them; None without any."""
    bars = {number: split for number, method in enumerate(report.methods) if (split := _split(report, method))}
    if not bars:
        return None
    steps = [step for step in (MODEL, *STEPS.values()) if any(step in split for split in bars.values())]
    title = "Where the seconds go"
    with ground("latency"):
        drawing, (axes,) = axes_grid(1, 1, (7.4, 1.3 + 0.3 * len(bars)))
        for row, split in enumerate(bars.values()):
            start = 0.0
            for step in steps:
                axes.barh(row, split.get(step, 0.0), left=start, height=0.7, **_looks_latency(steps.index(step)))
                start += split.get(step, 0.0)
        axes.set_yticks(range(len(bars)), [numbered(report, number) for number in bars])
        axes.set_ylim(len(bars) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("mean seconds per question")
        _legend_latency(drawing, steps)
        element = svg(drawing, "latency", title, f"{'; '.join(_line(report, n, of) for n, of in bars.items())}.")
    caption = (
        "Init: until the model starts; prefill: until its first token; copy: joining the caches; decoding: the rest."
    )
    if missing := len(report.methods) - len(bars):
        caption += f" {missing} of {len(report.methods)} methods are not drawn: a step is not reported or was reused."
    return Plot(title, caption, element)


def _split(report: Report, method: MethodResult) -> dict[str, float]:
    """Seconds by step; empty unless all are known. A refiner that computed tokens is a step of its own."""
    measures = report.measures(method)
    seconds = {step: summary.value for metric, step in STEPS.items() if (summary := measures.get(metric))}
    known = {step: value for step, value in seconds.items() if value is not None}
    if len(known) < len(STEPS):
        return {}
    refined = sum(cost.wall_seconds for cost in method.costs if cost.stage == "refine" and cost.tokens)
    return known | ({MODEL: refined / report.asked.questions} if refined and report.asked.questions else {})


def _looks_latency(kind: int) -> dict[str, Any]:
    return {
        "facecolor": COLOURS[kind % len(COLOURS)],
        "hatch": HATCHES[kind % len(HATCHES)],
        "edgecolor": INK,
        "linewidth": 0.7,
    }


def _legend_latency(drawing: Any, steps: list[str]) -> None:
    from matplotlib.patches import Patch

    legend(drawing, [Patch(**_looks_latency(kind)) for kind in range(len(steps))], steps)


def _line(report: Report, number: int, split: Mapping[str, float]) -> str:
    return f"{numbered(report, number)}: {', '.join(f'{step} {significant(value)} s' for step, value in split.items())}"
