"""Labels beside the points of a plot that keep clear of one another."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from vitalfew.tasks.reports.plots.drawing import INK

_Box = tuple[float, float, float, float]
_RADIUS = 6.0
"""Of a marker, in pixels of the canvas (72 an inch)."""
_DISTANCES = (8.0, 16.0, 26.0, 38.0, 52.0, 70.0)
_NEAR = 10.0
_SIZE = 8


def label_points(axes: Any, points: Sequence[tuple[float, float]], labels: Sequence[str], steps: Sequence[int]) -> None:
    """Write every label near its point, clear of markers, of other labels and of the frame as far as there is room.

    `steps`: the points that a stepped line joins, in its order. Their labels are bold, choose first, and keep clear of
    that line, as do all; a label that has to stand off from its point gets a line to it. The axes' limits have to be
    final: text has a size in pixels only.
    """
    axes.figure.draw_without_rendering()
    axes.figure.set_layout_engine("none")  # it is settled now, and labels are not to change it
    renderer = axes.figure.canvas.get_renderer()
    frame = axes.get_window_extent(renderer)
    centres = [tuple(axes.transData.transform(point)) for point in points]
    taken = [(x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS) for x, y in centres]
    taken += _stepped([centres[number] for number in steps])
    for number in sorted(range(len(points)), key=lambda place: (place not in steps, *centres[place], place)):
        weight = "bold" if number in steps else "normal"
        text = axes.text(0, 0, labels[number], fontsize=_SIZE, fontweight=weight)
        size = text.get_window_extent(renderer)
        text.remove()
        box, distance = _place(centres[number], (size.width, size.height), taken, (*frame.min, *frame.max))
        taken.append(box)
        axes.annotate(
            labels[number],
            points[number],
            axes.transData.inverted().transform(((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)),
            ha="center",
            va="center",
            fontsize=_SIZE,
            fontweight=weight,
            annotation_clip=False,
            arrowprops=None
            if distance <= _NEAR
            else {"arrowstyle": "-", "color": INK, "linewidth": 0.5, "shrinkA": 1, "shrinkB": 4},
        )


def _stepped(centres: Sequence[tuple[float, float]]) -> Iterator[_Box]:
    """The line from point to point, first across, then up, as narrow boxes."""
    for (x, y), (next_x, next_y) in pairwise(centres):
        yield x, y - 1, next_x, y + 1
        yield next_x - 1, min(y, next_y), next_x + 1, max(y, next_y)


def _place(
    centre: tuple[float, float], size: tuple[float, float], taken: Sequence[_Box], frame: _Box
) -> tuple[_Box, float]:
    """The nearest place where a box of `size` covers nothing, else the one where it covers least; its distance."""
    return min(
        _candidates(centre, size),
        key=lambda candidate: (
            sum(_overlap(candidate[0], other) for other in taken) + 10 * _outside(candidate[0], frame),
            candidate[1],
        ),
    )


def _candidates(centre: tuple[float, float], size: tuple[float, float]) -> Iterator[tuple[_Box, float]]:
    """Boxes around a point, the right side first, touching a circle of one of the distances."""
    (x, y), (width, height) = centre, size
    for distance in _DISTANCES:
        for eighth in (0, 4, 2, 6, 1, 7, 3, 5):
            across, up = math.cos(eighth * math.pi / 4), math.sin(eighth * math.pi / 4)
            middle_x = x + across * distance + _sign(across) * width / 2
            middle_y = y + up * distance + _sign(up) * height / 2
            left, low = middle_x - width / 2, middle_y - height / 2
            yield (left, low, left + width, low + height), distance


def _sign(value: float) -> int:
    return 0 if abs(value) < 1e-9 else (1 if value > 0 else -1)


def _overlap(one: _Box, other: _Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return width * height if width > 0 and height > 0 else 0.0


def _outside(box: _Box, frame: _Box) -> float:
    """How much of the box lies outside the frame (square pixels)."""
    return (box[2] - box[0]) * (box[3] - box[1]) - _overlap(box, frame)
