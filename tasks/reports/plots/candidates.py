"""A question's candidates as the critic sees them, and what the methods take of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.plots.drawing import (
    COLOURS,
    INK,
    LABEL,
    MARKERS,
    QUESTION,
    Plot,
    axes_grid,
    ground,
    legend,
    svg,
)
from vitalfew.tasks.reports.shown.text import one_line, shortened

_NAME = 40


def candidates_in_the_plane(report: Report) -> Plot | None:
    """A question's candidates by F1 and F2, their Pareto front, the ideal point and what each method takes."""
    choice = report.choice
    if choice is None:
        return None
    title = "Candidates of one question"
    with ground("candidates"):
        drawing, (axes,) = axes_grid(1, 1, (6.4, 5.6))
        front = sorted(point for point, on in zip(choice.points, choice.on_front, strict=True) if on)
        axes.plot(*zip(*front, strict=True), color=INK, lw=1, ls="--", zorder=1)
        axes.scatter(*zip(*choice.points, strict=True), s=26, color=INK, zorder=3, clip_on=False)
        axes.scatter([1], [1], marker="*", s=140, color=COLOURS[1], zorder=3, clip_on=False)
        for number, ((x, y), candidate) in enumerate(zip(choice.points, choice.candidates, strict=True)):
            axes.annotate(str(candidate), (x, y), (6, 6 + 9 * _before(choice.points, number)), **LABEL)
        axes.annotate("ideal", (1, 1), (-8, 4), ha="right", **LABEL)
        handles = [_rings(axes, report, number, name) for number, name in enumerate(choice.chosen)]
        axes.set_xlim(-0.03, 1.03)
        axes.set_ylim(-0.03, 1.03)
        axes.set_xlabel("F1: harmonic mean of ISUSE and ISSUP")
        axes.set_ylabel("F2: ISREL")
        legend(drawing, handles, [shortened(one_line(name), _NAME) for name in choice.chosen])
        takes = "; ".join(f"{one_line(name)} takes {', '.join(map(str, of))}" for name, of in choice.chosen.items())
        element = svg(drawing, "candidates", title, f"{len(choice.points)} candidates. {takes}.")
    asked = shortened(one_line(choice.question), QUESTION)
    caption = (
        f"“{asked}” Every dot is a numbered candidate, the dashed line is the Pareto front, and a mark around a dot is "
        "a method's answer. Among the first questions, this is the one on which the methods differ most."
    )
    return Plot(title, caption, element)


def _before(points: Sequence[tuple[float, float]], number: int) -> int:
    """How many earlier candidates lie on the same spot, whose labels are below."""
    return sum(np.hypot(x - points[number][0], y - points[number][1]) < 0.02 for x, y in points[:number])


def _rings(axes: Any, report: Report, number: int, name: str) -> Any:
    """Marks around the answers of a method, larger than those of the methods before."""
    choice = report.choice
    assert choice is not None
    places = [choice.candidates.index(candidate) for candidate in choice.chosen[name] if candidate in choice.candidates]
    xy = np.array([choice.points[place] for place in places]).reshape(-1, 2)
    looks = {"facecolors": "none", "edgecolors": COLOURS[number % len(COLOURS)], "linewidths": 1.4}
    marker = MARKERS[number % len(MARKERS)]
    return axes.scatter(xy[:, 0], xy[:, 1], s=90 + 80 * number, marker=marker, zorder=2, clip_on=False, **looks)
