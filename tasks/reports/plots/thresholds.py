"""Quality and kept contexts by the threshold of the rating (Sparse RAG, table 4)."""

from collections.abc import Mapping, Sequence
from typing import Any

from vitalfew.tasks.reports.contents import MethodResult, Report, Summary
from vitalfew.tasks.reports.families import family_names
from vitalfew.tasks.reports.plots.drawing import COLOURS, LINES, MARKERS, Plot, axes_grid, ground, legend, svg
from vitalfew.tasks.reports.shown.columns import figure, quality_metric

KEY = "generate.threshold"
KEPT = "kept"
Line = Mapping[float, Summary]
"""By rising threshold."""


def by_threshold(report: Report) -> Plot | None:
    """The quality metric and the number of kept contexts, a line over methods that differ in the threshold alone; None
    unless two do."""
    families = _families(report)
    metrics = [metric for metric in (quality_metric(report), KEPT) if metric]
    panels = {metric: {name: _line(report, own, metric) for name, own in families.items()} for metric in metrics}
    panels = {metric: lines for metric, lines in panels.items() if any(len(line) > 1 for line in lines.values())}
    if not panels:
        return None
    title = "Quality and kept contexts by rating threshold"
    with ground("thresholds"):
        drawing, places = axes_grid(1, len(panels), (3.9 * len(panels) + 0.6, 3.4))
        handles: list[Any] = []
        for place, (metric, lines) in zip(places, panels.items(), strict=True):
            handles = [_draw(place, kind, line) for kind, line in enumerate(lines.values())]
            place.set_title(report.column(metric).heading)
            place.set_xlabel("threshold")
        if any(families):
            legend(drawing, handles, [name or "all" for name in families])
        words = " ".join(_in_words(report.column(metric).heading, lines) for metric, lines in panels.items())
        element = svg(drawing, "thresholds", title, words)
    caption = "A context rated below the threshold is dropped. Shaded: 95 % intervals."
    return Plot(title, caption, element)


def _families(report: Report) -> dict[str, list[MethodResult]]:
    """Methods that differ in the threshold alone, by what they share; alone ones are left out."""
    methods = [method for method in report.methods if isinstance(method.settings.get(KEY), (int, float))]
    rests = [{key: value for key, value in sorted(method.settings.items()) if key != KEY} for method in methods]
    groups: dict[str, list[MethodResult]] = {}
    for method, rest in zip(methods, rests, strict=True):
        groups.setdefault(repr(rest), []).append(method)
    several = {key: own for key, own in groups.items() if len(own) > 1}
    names = family_names([rest for key, rest in {repr(rest): rest for rest in rests}.items() if key in several])
    return dict(zip(names, several.values(), strict=True))


def _line(report: Report, methods: Sequence[MethodResult], metric: str) -> Line:
    found = {float(method.settings[KEY]): report.measures(method).get(metric) for method in methods}
    return {key: own for key, own in sorted(found.items()) if own and own.value is not None}


def _draw(axes: Any, kind: int, line: Line) -> Any:
    colour = COLOURS[kind % len(COLOURS)]
    values = [own.value for own in line.values()]
    looks = {"ls": LINES[kind % len(LINES)], "marker": MARKERS[kind % len(MARKERS)], "mfc": "none", "lw": 1.4, "ms": 5}
    (handle,) = axes.plot([*line], values, color=colour, **looks)
    if all(own.low is not None and own.high is not None for own in line.values()):
        ends = zip(*((own.low, own.high) for own in line.values()), strict=True)
        axes.fill_between([*line], *ends, color=colour, alpha=0.12, lw=0)
    return handle


def _in_words(heading: str, lines: Mapping[str, Line]) -> str:
    told = (
        f"{name} {', '.join(f'{figure(own.value, own.column.unit)} at {key:g}' for key, own in line.items())}".strip()
        for name, line in lines.items()
    )
    return f"{heading}: {'; '.join(told)}."
