"""The counts of build/growth.json as a picture: each stage against the size of the corpus, on logarithmic axes."""

import math
from typing import Any

from benchmarks.growth_counts import CHECK, REQUESTS
from benchmarks.growth_report import STAGES, TARGET, Results, extrapolated, points
from vitalfew.tasks.reports.plots.drawing import (
    COLOURS,
    INK,
    LINES,
    MARKERS,
    axes_grid,
    ground,
    legend,
    standing_alone,
    svg,
)

SHOWN = (*STAGES, CHECK)
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
TITLE = "What the stages of an index take as the corpus grows"


def drawn(results: Results) -> str:
    """An SVG file: CPU seconds and requests by stage, with dots as far as measured and lines beyond."""
    with ground("growth"):
        figure, (cpu, requests) = axes_grid(1, 2, (9.0, 3.8))
        handles = [_line(cpu, results, stage, ("cpu",)) for stage in STAGES]
        handles = [_line(requests, results, stage, REQUESTS) for stage in SHOWN]
        for axes, what in ((cpu, "CPU seconds"), (requests, "calls of the store")):
            axes.set(xscale="log", yscale="log", xlabel="passages", title=what)
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(_power)
            largest = max(max(line.get_ydata()) for line in axes.get_lines())
            axes.plot([TARGET / 1e4, TARGET], [largest / 1e4, largest], color=INK, alpha=0.35, linewidth=0.8)
        legend(figure, handles, SHOWN)
        return standing_alone(svg(figure, "growth", TITLE, _about(results)))


def _line(axes: Any, results: Results, stage: str, names: tuple[str, ...]) -> Any:
    """A stage: what was measured with a marker each, and 10^8 with an empty one. `names`: of the figures to add up."""
    place = SHOWN.index(stage)
    sizes = sorted(points(results, stage, names[0]))
    values = [sum(points(results, stage, name)[size] for name in names) for size in sizes]
    look = {"color": COLOURS[place], "linestyle": LINES[place], "marker": MARKERS[place], "markersize": 5}
    (handle,) = axes.plot(sizes, values, **look)
    if (stage, names) != ("index", ("cpu",)):  # real vectors are wider: growth_report.indexes
        beyond = sum(extrapolated(results, stage, name) for name in names)
        axes.plot([sizes[-1], TARGET], [values[-1], beyond], **look, alpha=0.45, markerfacecolor="none")
    return handle


def _power(value: float, place: int) -> str:
    """A power of ten as it is written."""
    return "10" + str(round(math.log10(value))).translate(_RAISED)


def _about(results: Results) -> str:
    largest = {stage: max(points(results, stage, "cpu").items()) for stage in STAGES}
    said = (f"{stage} {seconds:,.0f} CPU seconds at {size:,} passages" for stage, (size, seconds) in largest.items())
    return f"{'; '.join(said)}. The thin line grows as the corpus does."
