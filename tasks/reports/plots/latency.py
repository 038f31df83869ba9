"""Where the seconds of an answer go, step by step: stacked bars (Sparse RAG, table 6)."""

from collections.abc import Mapping
from typing import Any

from vitalfew.tasks.reports.contents import MethodResult, Report
from vitalfew.tasks.reports.plots.drawing import COLOURS, HATCHES, INK, Plot, axes_grid, ground, legend, numbered, svg
from vitalfew.tasks.reports.shown.columns import significant

STEPS = {
    "init_seconds": "init",
    "prefill_seconds": "prefill",
    "copy_seconds": "copy",
    "decode_seconds": "decoding",
}
"""By metric, in their order, what a generator that tells its steps does."""
REFINER = "refiner's model"


def latency_split(report: Report) -> Plot | None:
    """Seconds of a question by step, a bar for each method whose generator tells all of them; None without any."""
    bars = {number: split for number, method in enumerate(report.methods) if (split := _split(report, method))}
    if not bars:
        return None
    steps = [step for step in (REFINER, *STEPS.values()) if any(step in split for split in bars.values())]
    title = "Where the seconds go"
    with ground("latency"):
        drawing, (axes,) = axes_grid(1, 1, (7.4, 1.3 + 0.3 * len(bars)))
        for row, split in enumerate(bars.values()):
            start = 0.0
            for step in steps:
                axes.barh(row, split.get(step, 0.0), left=start, height=0.7, **_looks(steps.index(step)))
                start += split.get(step, 0.0)
        axes.set_yticks(range(len(bars)), [numbered(report, number) for number in bars])
        axes.set_ylim(len(bars) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("mean seconds per question")
        _legend(drawing, steps)
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
    return known | ({REFINER: refined / report.asked.questions} if refined and report.asked.questions else {})


def _looks(kind: int) -> dict[str, Any]:
    return {
        "facecolor": COLOURS[kind % len(COLOURS)],
        "hatch": HATCHES[kind % len(HATCHES)],
        "edgecolor": INK,
        "linewidth": 0.7,
    }


def _legend(drawing: Any, steps: list[str]) -> None:
    from matplotlib.patches import Patch

    legend(drawing, [Patch(**_looks(kind)) for kind in range(len(steps))], steps)


def _line(report: Report, number: int, split: Mapping[str, float]) -> str:
    return f"{numbered(report, number)}: {', '.join(f'{step} {significant(value)} s' for step, value in split.items())}"
