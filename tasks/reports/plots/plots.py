"""The plots that people look at first, each an SVG element with a description, or None where nothing can be drawn."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tasks.reports.contents import STAGE_SECONDS, Report
from tasks.reports.plots.drawing import COLOURS, HATCHES, INK, LINES, MARKERS, Plot, axes_grid, ground, legend, svg
from tasks.reports.plots.front import pareto_front
from tasks.reports.plots.sweep import Panel, families, panels
from tasks.reports.shown.columns import figure, first_scored, heading, quality_metric, significant
from tasks.reports.shown.labels import label_points
from tasks.reports.shown.text import one_line, shortened

PRICE = ("prompt_tokens", "context_tokens", "contexts", STAGE_SECONDS)
_NAMED = 12
"""With more methods than these, points are labelled with their numbers, and only the front with names."""
_NAME = 36
_STAGES = ("retrieve", "refine", "generate", "critique", "select", "score")
"""The order of the dataflow."""


def quality_by_tokens(report: Report, quality: str | None = None) -> Plot | None:
    """Quality against prompt tokens (contexts, or seconds, where there are none), with the Pareto front.

    `quality`: a metric; default: `quality_metric`. Methods without one of the two are not drawn.
    """
    quality, price = quality or quality_metric(report), first_scored(report, PRICE)
    if quality is None or price is None:
        return None
    pairs = zip(report.values(price), report.values(quality), strict=True)
    points = {number: (x, y) for number, (x, y) in enumerate(pairs) if x is not None and y is not None}
    if not points:
        return None
    sign = -1 if report.higher_is_better(quality) is False else 1
    numbers = list(points)
    front = [numbers[each] for each in pareto_front([(x, sign * y) for x, y in points.values()])]
    name = re.sub(r"\W", "-", f"quality-{quality}")
    title = f"{heading(quality)[0].upper()}{heading(quality)[1:]} against {heading(price)}"
    best = "; ".join(
        f"{_numbered(report, number)}: {figure(price, points[number][0])} {heading(price)}, "
        f"{heading(quality)} {figure(quality, points[number][1])}"
        for number in front
    )
    with ground(name):
        drawing = _quality(report, points, front, (price, quality))
        element = svg(drawing, name, title, f"{len(points)} methods. On the Pareto front: {best}.")
    caption = (
        "Filled markers and the stepped line are the Pareto front: no other method is as good for "
        f"{'fewer' if price != STAGE_SECONDS else 'less'} {heading(price)}. Mean over the questions."
    )
    if len(report.methods) > _NAMED:
        caption += " A number is the method's number in the tables."
    if missing := len(report.methods) - len(points):
        caption += f" {missing} of {len(report.methods)} methods lack one of the two figures and are not drawn."
    return Plot(title, caption, element)


def _quality(
    report: Report, points: Mapping[int, tuple[float, float]], front: Sequence[int], metrics: tuple[str, str]
) -> Any:
    drawing, (axes,) = axes_grid(1, 1, (7.4, 4.6) if len(report.methods) <= _NAMED else (8.6, 6.4))
    axes.step(*zip(*(points[number] for number in front), strict=True), where="post", color=INK, lw=1, zorder=2)
    names, family = _kinds(report)
    for number, (x, y) in points.items():
        kind = family[number]
        colour = COLOURS[kind % len(COLOURS)]
        style = {"marker": MARKERS[kind], "s": 42, "linewidths": 1.2, "edgecolors": colour, "clip_on": False}
        axes.scatter([x], [y], facecolors=colour if number in front else "none", zorder=3, **style)
    axes.margins(0.08, 0.12)
    axes.set_xlim(left=_start([x for x, _ in points.values()]))
    axes.set_xlabel(f"{heading(metrics[0])} per question")
    axes.set_ylabel(heading(metrics[1]))
    if names:
        _marker_legend(drawing, names)
    named = {number for number in points if len(report.methods) <= _NAMED or number in front}
    labels = [_numbered(report, number) if number in named else str(number + 1) for number in points]
    places = [*points]
    label_points(axes, [*points.values()], labels, [places.index(number) for number in front])
    return drawing


def _start(prices: Sequence[float]) -> float | None:
    """Where the axis begins: at 0 to show proportions, or (None) near the points where these are all alike."""
    return 0 if min(prices) < max(prices) / 2 or min(prices) == max(prices) else None


def _kinds(report: Report) -> tuple[list[str], list[int]]:
    """The marker of each method: its own, or that of its family, with names for a legend; one for all where there are
    more families than markers."""
    if len(report.methods) <= _NAMED:
        return [], [*range(len(report.methods))]
    names, family = families(report.methods)
    return (names, family) if 1 < len(names) <= len(MARKERS) else ([], [0] * len(family))


def _marker_legend(drawing: Any, names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], ls="", marker=MARKERS[kind], mfc="none", mec=COLOURS[kind % len(COLOURS)], ms=6)
        for kind in range(len(names))
    ]
    legend(drawing, handles, names)


def recall_by_alpha(report: Report) -> Plot | None:
    """Recall@k by α, a line per setting of everything else; None unless some methods differ in α alone."""
    found = panels(report)
    if not found:
        return None
    with ground("alpha"):
        columns = min(3, len(found))
        rows = -(-len(found) // columns)
        drawing, places = axes_grid(rows, columns, (max(5.0, 3.3 * columns), 2.8 * rows + 0.5))
        handles: dict[str, Any] = {}
        for place, panel in zip(places, found, strict=False):
            handles |= _panel(place, panel, [*dict.fromkeys([*handles, *panel.lines, *panel.levels])])
        for place in places[len(found) :]:
            place.set_axis_off()
        if any(handles):
            legend(drawing, [*handles.values()], [name or "by alpha" for name in handles])
        title = "Recall by alpha"
        element = svg(drawing, "alpha", title, " ".join(_told(panel) for panel in found))
    caption = (
        "Alpha weighs a sentence's own vector against its context's; at 1 the sentence stands alone. "
        "Shaded: 95 % intervals."
    )
    if any(panel.levels for panel in found):
        caption += " A level line without markers is a method that has no alpha."
    return Plot(title, caption, element)


def _panel(axes: Any, panel: Panel, names: Sequence[str]) -> dict[str, Any]:
    """Draw the lines; a name has the same looks in every panel. The handles by name."""
    handles = {}
    for name, points in panel.lines.items():
        kind = names.index(name)
        looks = {"marker": MARKERS[kind % len(MARKERS)], "color": COLOURS[kind % len(COLOURS)], "mfc": "none"}
        alphas, values, lows, highs = zip(*points, strict=True)
        (handles[name],) = axes.plot(alphas, values, ls=LINES[kind % len(LINES)], lw=1.4, ms=5, **looks)
        axes.fill_between(alphas, lows, highs, color=looks["color"], alpha=0.12, lw=0)
    for name, value in panel.levels.items():
        handles[name] = axes.axhline(value, ls=LINES[names.index(name) % len(LINES)], color=INK, lw=1)
    axes.set_title(panel.title)
    axes.set_xlabel("alpha")
    return handles


def _told(panel: Panel) -> str:
    """The panel in words: where each line is highest."""
    tops = {name: max(points, key=lambda point: point[1]) for name, points in panel.lines.items()}
    lines = [f"{name or 'recall'} is highest, {top[1]:.3f}, at alpha {top[0]:g}" for name, top in tops.items()]
    levels = [f"{name} is {value:.3f}" for name, value in panel.levels.items()]
    return f"{panel.title}: {'; '.join([*lines, *levels])}."


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
            _bars(place, report, stages, key)
            place.set_xlabel(label)
        for place in places[1:]:
            place.set_yticklabels([])
        reused = any(cost.reused for method in report.methods for cost in method.costs)
        _hatch_legend(drawing, stages, reused)
        totals = [f"{_numbered(report, n)}: {figure('usd', usd)} USD" for n, usd in enumerate(_totals(report, "usd"))]
        title = "Cost by stage"
        element = svg(drawing, "cost", title, f"All stages together: {'; '.join(totals)}.")
    caption = "What a method takes in all, whoever paid for it."
    if reused:
        caption += " Without colour: reused from an earlier run or another method, not paid again in this run."
    return Plot(title, caption, element)


def _bars(axes: Any, report: Report, stages: Sequence[str], key: str) -> None:
    ends = [0.0] * len(report.methods)
    for kind, stage in enumerate(stages):
        for number, method in enumerate(report.methods):
            for cost in method.costs:
                if cost.stage == stage and getattr(cost, key):
                    looks = _looks(kind, cost.reused)
                    axes.barh(number, getattr(cost, key), left=ends[number], height=0.7, **looks)
                    ends[number] += getattr(cost, key)
    axes.set_yticks(range(len(report.methods)), [_numbered(report, n) for n in range(len(report.methods))])
    axes.set_ylim(len(report.methods) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.locator_params(axis="x", nbins=4)
    axes.xaxis.set_major_formatter(lambda value, _: significant(value))
    if len(report.methods) > _NAMED:  # the lower end is out of sight
        axes.tick_params(axis="x", labeltop=True)


def _looks(kind: int, reused: bool) -> dict[str, Any]:
    colour = "none" if reused else COLOURS[kind % len(COLOURS)]
    return {"facecolor": colour, "hatch": HATCHES[kind % len(HATCHES)], "edgecolor": INK, "linewidth": 0.7}


def _hatch_legend(drawing: Any, stages: Sequence[str], reused: bool) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(**_looks(kind, False)) for kind in range(len(stages))]
    names = [one_line(stage) for stage in stages]
    if reused:
        handles.append(Patch(facecolor="none", edgecolor=INK, linewidth=0.7))
        names.append("reused")
    legend(drawing, handles, names)


def _stages(report: Report) -> list[str]:
    found = [*dict.fromkeys(cost.stage for method in report.methods for cost in method.costs)]
    return [*(stage for stage in _STAGES if stage in found), *(stage for stage in found if stage not in _STAGES)]


def _totals(report: Report, key: str) -> list[float]:
    return [sum(getattr(cost, key) for cost in method.costs) for method in report.methods]


def _numbered(report: Report, number: int) -> str:
    return f"{number + 1} {shortened(report.methods[number].label, _NAME)}"
