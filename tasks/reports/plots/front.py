"""The Pareto front of two quantities: what cannot be had better in one without being worse in the other."""

from collections.abc import Sequence


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Positions of the points (cost, quality) that no other point dominates, by rising cost.

    A point dominates another that is no better in either and worse in one; of equal points none dominates.
    """
    front: list[int] = []
    for position in sorted(range(len(points)), key=lambda place: (points[place][0], -points[place][1], place)):
        # By rising cost, a point has to beat the best quality so far, or be that very point again.
        if not front or points[position][1] > points[front[-1]][1] or points[position] == points[front[-1]]:
            front.append(position)
    return front
