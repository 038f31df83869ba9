"""The invented world behind `synthetic`: its vocabulary, its names, and the draws that choose among them.

Everything is a pure function of a seed and of numbers, through BLAKE2: the same in every process, on every machine and
in every version of Python, with no growing state. A name encodes its owner's number, so no two names are alike.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import product
from pathlib import Path


def _vocabulary() -> dict[str, list[str]]:
    """Return the lists of synthetic_world.txt by their names."""
    _, _, lists = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").partition("\n\n")
    entries = (entry.partition(": ") for entry in lists.replace("\n  ", " ").splitlines())
    return {name: [word.strip() for word in words.split("," if "," in words else None)] for name, _, words in entries}


WORDS = _vocabulary()
HEADS, MIDDLES = WORDS["heads"], WORDS["middles"]
TOWN_ENDINGS, RIVER_ENDINGS, SURNAMES = WORDS["towns"], WORDS["rivers"], WORDS["surnames"]
GIVEN_WOMEN, GIVEN_MEN, SAINTS = WORDS["women"], WORDS["men"], WORDS["saint"]


def _composed(name: str) -> list[str]:
    return [start + end for start, end in product(WORDS[f"{name}, beginnings"], WORDS[f"{name}, endings"])]


PLAIN_SURNAMES = _composed("plain surnames")
PLACES = _composed("places")
"""Far-off towns that texts name but that have no passage."""
REGIONS = [f"the {kind} of {name}" for kind, name in product(WORDS["regions, kinds"], WORDS["regions, names"])]
PLAIN = ("animal", "colour", "dish", "goods", "month", "plant", "stone", "subject", "trade", "weekday")
"""Lists of which a template's field of the same name draws one entry."""


class Draw:
    """The choices for one passage or question: a function of its key, uniform for counts far below 2⁶⁴."""

    __slots__ = ("_bits", "_key")

    def __init__(self, *key: int | str) -> None:
        self._key = ":".join(map(str, key)).encode()
        self._bits = int.from_bytes(blake2b(self._key).digest(), "little")

    def __call__(self, count: int) -> int:
        """Return a number from 0 to count - 1."""
        if self._bits < 1 << 64:
            self._key += b"+"
            self._bits = int.from_bytes(blake2b(self._key).digest(), "little")
        self._bits, chosen = divmod(self._bits, count)
        return chosen


def coprime_step(near: int, size: int) -> int:
    """Return the first step from `near` on that visits all of range(size) before it returns to its start."""
    step = near
    while math.gcd(step, size) != 1:
        step += 1
    return step


@dataclass(frozen=True)
class Namer:
    """Gives every number a unique name: its digits over heads, middles and endings, in a seeded order.

    Numbers beyond the names with one middle get two middles, then three, so there is no largest number.
    """

    seed: int
    endings: tuple[str, ...]
    kind: str
    _steps: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __call__(self, number: int) -> str:
        size, middles = len(HEADS) * len(MIDDLES) * len(self.endings), 1
        while number >= size:
            number, size, middles = number - size, size * len(MIDDLES), middles + 1
        if middles not in self._steps:
            draw = Draw(self.seed, "names", self.kind, middles)
            self._steps[middles] = coprime_step(draw(size), size), draw(size)
        step, start = self._steps[middles]
        number, head = divmod((number * step + start) % size, len(HEADS))
        number, ending = divmod(number, len(self.endings))
        name = HEADS[head]
        for _ in range(middles):
            number, middle = divmod(number, len(MIDDLES))
            name += MIDDLES[middle]
        return name + self.endings[ending]


Pool = Callable[[Draw, int], str]
"""Draws a value for a template's field; the number is the year from which the passage's subject dates."""


def _of(values: list[str]) -> Pool:
    return lambda draw, _: values[draw(len(values))]


def _person(given: list[str]) -> Pool:
    return lambda draw, _: f"{given[draw(len(given))]} {PLAIN_SURNAMES[draw(len(PLAIN_SURNAMES))]}"


POOLS: dict[str, Pool] = {
    **{name: _of(WORDS[name]) for name in PLAIN},
    "place": _of(PLACES),
    "saint": lambda draw, _: f"St. {SAINTS[draw(len(SAINTS))]}",
    "man": _person(GIVEN_MEN),
    "woman": _person(GIVEN_WOMEN),
    "person": _person(GIVEN_MEN + GIVEN_WOMEN),
    "first": lambda _, first: str(first),
    "year": lambda draw, first: str(first + 20 + draw(56)),
    "day": lambda draw, _: f"{1 + draw(28)} {WORDS['month'][draw(12)]}",
    "few": lambda draw, _: str(3 + draw(9)),
    "count": lambda draw, _: str(12 + draw(85)),
    "thousands": lambda draw, _: f"{2 + draw(60)},{draw(1000):03}",
    "km": lambda draw, _: f"{2 + draw(48)}.{1 + draw(9)} km",
    "metres": lambda draw, _: f"{14 + draw(180)}.{1 + draw(9)} m",
    "tonnes": lambda draw, _: f"{90 + draw(800)}.{1 + draw(9)} tonnes",
    "sum": lambda draw, _: f"{2 + draw(90)},{draw(10)}00 crowns",
}
"""How to draw a template's fields. A field may end in a digit (`person2`) if a sentence has two of a kind."""
