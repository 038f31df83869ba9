"""Labels beside the points of a plot that keep clear of one another."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalfew.tasks.reports.plots.drawing import INK

Boxes = NDArray[np.float64]
"""(n, 4): left, lower, right and upper ends, in pixels of the canvas (72 an inch)."""
_RADIUS = 6.0
"""Half the width of a marker, in pixels."""
_DISTANCES = (8.0, 16.0, 26.0, 38.0, 52.0, 70.0)
_EIGHTHS = (0, 4, 2, 6, 1, 7, 3, 5)
"""Directions around a point, in eighths of a turn from its right side: the preferred ones first."""
_NEAR = 10.0
_SIZE = 8


def label_points(axes: Any, points: Sequence[tuple[float, float]], labels: Sequence[str], steps: Sequence[int]) -> None:
    """Write every label near its point, clear of markers, of other labels and of the frame as far as there is room.

    No label stands at a point whose label is ''. `steps`: the points that a stepped line joins, in its order. Their
    labels are bold, choose first, and keep clear of that line, as do all; a label that has to stand off from its point
    gets a line to it. The axes' limits have to be final: text has a size in pixels only.
    """
    axes.figure.draw_without_rendering()
    axes.figure.set_layout_engine("none")  # it is settled now, and labels are not to change it
    renderer = axes.figure.canvas.get_renderer()
    frame = axes.get_window_extent(renderer).extents[None]
    centres = axes.transData.transform(points)
    taken = np.hstack([centres - _RADIUS, centres + _RADIUS])
    for (x, y), (next_x, next_y) in pairwise(centres[[*steps]]):  # the line, first across, then up, as narrow boxes
        across, up = (x, y - 1, next_x, y + 1), (next_x - 1, min(y, next_y), next_x + 1, max(y, next_y))
        taken = np.vstack([taken, across, up])
    for number in sorted(range(len(points)), key=lambda place: (place not in steps, *centres[place], place)):
        if not labels[number]:
            continue
        looks = {"fontsize": _SIZE, "fontweight": "bold" if number in steps else "normal"}
        text = axes.text(0, 0, labels[number], **looks)
        size = text.get_window_extent(renderer).size
        text.remove()
        places, distances = _places(centres[number], size)
        outside = size.prod() - _shared(places, frame)[:, 0]
        covered = _shared(places, taken).sum(axis=1) + 10 * outside
        best = np.lexsort((distances, covered.round(6)))[0]  # of the places where it covers least, the nearest
        taken = np.vstack([taken, places[best]])
        pointer = {"arrowstyle": "-", "color": INK, "linewidth": 0.5, "shrinkA": 1, "shrinkB": 4}
        axes.annotate(
            labels[number],
            points[number],
            axes.transData.inverted().transform(places[best].reshape(2, 2).mean(axis=0)),
            ha="center",
            va="center",
            annotation_clip=False,
            arrowprops=pointer if distances[best] > _NEAR else None,
            **looks,
        )


def _places(centre: Boxes, size: Boxes) -> tuple[Boxes, Boxes]:
    """Boxes of a size around a point that touch a circle of one of the distances, and these distances."""
    turns = np.array(_EIGHTHS) * np.pi / 4
    sides = np.column_stack([np.cos(turns), np.sin(turns)]).round(9)
    distances = np.repeat(_DISTANCES, len(sides))
    middles = centre + np.tile(sides, (len(_DISTANCES), 1)) * distances[:, None]
    middles += np.sign(np.tile(sides, (len(_DISTANCES), 1))) * size / 2
    return np.hstack([middles - size / 2, middles + size / 2]), distances


def _shared(some: Boxes, others: Boxes) -> Boxes:
    """(m, n): the areas that m boxes share with n others."""
    low = np.maximum(some[:, None, :2], others[:, :2])
    high = np.minimum(some[:, None, 2:], others[:, 2:])
    return np.clip(high - low, 0, None).prod(axis=-1)
