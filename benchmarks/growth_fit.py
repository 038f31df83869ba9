"""Exponents of what was counted, and what it comes to in a corpus that was not: pure functions of numbers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from vitalfew.tasks.datasets.limits import SHARD_PASSAGES

Points = Mapping[int, float]
"""A figure by the number of passages."""

LARGEST = 3
"""The sizes that a line is fitted to: small corpora have what is done once, whatever the size."""


@dataclass(frozen=True)
class Power:
    """value = at (size / of) ** exponent, which goes through the largest size that was measured."""

    exponent: float
    of: int
    at: float

    def value(self, size: int) -> float:
        """At another size. A figure that grew more slowly than the corpus is taken to grow as fast from here on: what
        was done once, or fell with fuller shards, does not go on falling."""
        return self.at * (size / self.of) ** max(1.0, self.exponent)


def exponent(points: Points, largest: int = LARGEST) -> float:
    """The slope of log(value) against log(size): least squares over the `largest` sizes, every one weighing the same.

    0 of figures that are 0 or that are known of one size; a zero among others is left out, having no logarithm.
    """
    pairs = [(math.log(size), math.log(value)) for size, value in sorted(points.items())[-largest:] if value > 0]
    if len(pairs) < 2:
        return 0.0
    middle = [sum(numbers) / len(pairs) for numbers in zip(*pairs, strict=True)]
    spread = sum((x - middle[0]) ** 2 for x, _ in pairs)
    return sum((x - middle[0]) * (y - middle[1]) for x, y in pairs) / spread


def power(points: Points, largest: int = LARGEST) -> Power:
    """Raises ValueError where nothing was measured."""
    if not points:
        raise ValueError("no size was measured")
    size = max(points)
    return Power(exponent(points, largest), size, points[size])


def per_passage(points: Points) -> dict[int, float]:
    """A figure per thousand passages."""
    return {size: 1000 * value / size for size, value in sorted(points.items())}


def full(counted: Points, shards: Points) -> dict[int, float]:
    """Counts as if every shard were full, of the sizes whose number of shards is known. The number of shards is a power
    of two: a shard has between 2,048 and 4,096 passages, and ten times the corpus eight or sixteen times the shards."""
    return {size: value * size / SHARD_PASSAGES / shards[size] for size, value in counted.items() if shards.get(size)}


@dataclass(frozen=True)
class Rates:
    """What this machine does on one core with vectors of `width` numbers: seconds."""

    width: int
    product: float
    """of a multiplication and an addition, in matrices"""
    encode: float
    """of a vector's code"""
    scan: float
    """of a code that is looked at"""
    probe: float
    """of a vector that is compared with the probes, exactly"""
    coarse: float
    """of a number of the centres, for one query"""
    shard: float
    """of a shard in which nothing is looked at"""
    visit: float
    """of a list in which nothing is looked at"""


@dataclass(frozen=True)
class Lists:
    """An index of `rows` vectors in `lists` lists, learnt from `points`, in `shards` shards."""

    rows: int
    lists: int
    points: int
    shards: int

    def training(self, rates: Rates, rounds: int = 10) -> float:
        """Seconds for the centres: every point against every centre, `rounds` times (FAISS's for an IVF index)."""
        return rounds * self.points * self.lists * rates.width * rates.product

    def assigning(self, rates: Rates) -> float:
        """Seconds to find every vector's list: rows times lists, which grow with the root of the rows."""
        return self.rows * self.lists * rates.width * rates.product

    def adding(self, rates: Rates, probes: int, looked_at: int) -> float:
        """Seconds for codes and recall: every vector's code and its comparison with the probes, and their searches at
        every effort, `looked_at` lists together."""
        searching = probes * looked_at * self.rows / self.lists * rates.scan
        return self.rows * (rates.encode + rates.probe) + searching

    def query(self, rates: Rates, lists: int) -> float:
        """Seconds of one query that looks into so many lists."""
        codes = lists * self.rows / self.lists
        centres = self.lists * rates.width * rates.coarse
        return centres + codes * rates.scan + self.shards * (rates.shard + lists * rates.visit)

    def lists_within(self, rates: Rates, seconds: float) -> int:
        """How many lists a query can look into in that time."""
        per = self.query(rates, 1) - self.query(rates, 0)
        return max(0, math.floor((seconds - self.query(rates, 0)) / per))
