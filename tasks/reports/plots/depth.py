"""Quality by the number of units that are passed on: grouped bars (ParetoRAG, figure 7)."""

from collections.abc import Mapping, Sequence
from typing import Any

from vitalfew.tasks.reports.contents import MethodResult, Report, Summary
from vitalfew.tasks.reports.families import family_names
from vitalfew.tasks.reports.plots.drawing import COLOURS, HATCHES, INK, Plot, axes_grid, ground, legend, svg
from vitalfew.tasks.reports.shown.columns import figure, quality_metric

KEY = "retrieve.top_k"
_RECALL = "answer_recall"
Bars = Mapping[str, Mapping[int, Summary]]
"""By the name of a family, by top-k."""


def by_depth(report: Report) -> Plot | None:
    """The quality metric, and the answer recall at every method's own k, as bars by top-k; None unless some methods
    differ in top-k alone."""
    quality = quality_metric(report)
    families = _families(report)
    panels = {report.column(quality).heading: _bars(report, families, lambda _: quality)} if quality else {}
    recall = _bars(report, families, lambda k: f"{_RECALL}@{k}")
    if quality and not quality.startswith(_RECALL) and any(recall.values()):
        summary = next(summary for of_depth in recall.values() for summary in of_depth.values())
        panels[f"{summary.column.heading.partition('@')[0]}@k"] = recall
    panels = {name: bars for name, bars in panels.items() if any(len(of_depth) > 1 for of_depth in bars.values())}
    if not panels:
        return None
    title = "Quality by number of units"
    with ground("depth"):
        drawing, places = axes_grid(1, len(panels), (3.9 * len(panels) + 0.6, 3.4))
        handles: list[Any] = []
        for place, (name, bars) in zip(places, panels.items(), strict=True):
            handles = _draw(place, bars)
            place.set_title(name)
            place.set_xlabel("units passed on (top-k)")
        legend(drawing, handles, [name or "all" for name in families])
        words = " ".join(_in_words(name, bars) for name, bars in panels.items())
        element = svg(drawing, "depth", title, words)
    return Plot(title, "Means over the questions with 95 % intervals.", element)


def _families(report: Report) -> dict[str, list[MethodResult]]:
    """Methods that differ in top-k alone, by what they share; those without a top-k are left out."""
    methods = [method for method in report.methods if isinstance(method.settings.get(KEY), int)]
    rests = [{key: value for key, value in method.settings.items() if key != KEY} for method in methods]
    groups = [*{repr(rest): rest for rest in rests}.values()]
    names = family_names(groups)
    families: dict[str, list[MethodResult]] = {name: [] for name in names}
    for method, rest in zip(methods, rests, strict=True):
        families[names[groups.index(rest)]].append(method)
    return families


def _bars(report: Report, families: Mapping[str, Sequence[MethodResult]], metric: Any) -> Bars:
    return {
        name: {
            method.settings[KEY]: summary
            for method in methods
            if (summary := report.measures(method).get(metric(method.settings[KEY]))) and summary.value is not None
        }
        for name, methods in families.items()
    }


def _draw(axes: Any, bars: Bars) -> list[Any]:
    depths = sorted({depth for of_depth in bars.values() for depth in of_depth})
    width = 0.8 / len(bars)
    handles = []
    for kind, of_depth in enumerate(bars.values()):
        places = [depths.index(depth) + (kind + 0.5) * width - 0.4 for depth in of_depth]
        values = [summary.value or 0.0 for summary in of_depth.values()]
        ends = [[abs(end - value) for value, end in _ends(of_depth, lower)] for lower in (True, False)]
        looks = {"color": COLOURS[kind % len(COLOURS)], "hatch": HATCHES[kind % len(HATCHES)], "edgecolor": INK}
        handles.append(axes.bar(places, values, width, linewidth=0.7, **looks))
        axes.errorbar(places, values, ends, fmt="none", ecolor=INK, elinewidth=1, capsize=2)
    axes.set_xticks(range(len(depths)), map(str, depths))
    axes.grid(visible=False, axis="x")
    return handles


def _ends(of_depth: Mapping[int, Summary], lower: bool) -> list[tuple[float, float]]:
    """Every value with the lower or upper end of its interval; the value itself where it has none."""
    values = [(summary.value or 0.0, summary.low if lower else summary.high) for summary in of_depth.values()]
    return [(value, value if end is None else end) for value, end in values]


def _in_words(name: str, bars: Bars) -> str:
    lines = [
        f"{family or name} {', '.join(f'{figure(own.value, own.column.unit)} at {k}' for k, own in row.items())}"
        for family, row in bars.items()
        if row
    ]
    return f"{name}: {'; '.join(lines)}."
