"""The notation in which synthetic_places.py and synthetic_people.py say what a passage can state and be asked.

A block is a set of lines, and blank lines separate blocks. Every line is a sign, a space and a template:

    = a first sentence, which names the passage's subject; a passage uses one of the block's lines
    - a later sentence, which does not name the subject; the lines of one block are phrasings of the same fact
    ? FIELD: a question about the block's fact, whose answer is the value of FIELD
    ~ a sentence that only names other things of the same cluster; no question asks about it

A template's fields are names that its cluster shares ({town}), references back to the passage's subject ({It}), or
values drawn anew for every sentence from synthetic_world.POOLS ({person}, {person2}).
"""

from dataclasses import dataclass
from string import Formatter

from vitalfew.tasks.datasets.synthetic_world import POOLS, Pool


@dataclass(frozen=True, slots=True)
class Phrasing:
    """One way to say something. `drawn` lists the template's drawn fields with their pools."""

    template: str
    drawn: tuple[tuple[str, Pool], ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """Something a passage can state, in several phrasings, with questions about it as (answer's field, template)."""

    phrasings: tuple[Phrasing, ...]
    questions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Texts:
    """Everything that passages of one kind can say."""

    naming: Fact
    facts: tuple[Fact, ...]
    asides: Fact


def parse(notation: str) -> Texts:
    """Parse the notation above. Raises ValueError if a line has no known sign."""
    naming, asides, facts = Fact((), ()), Fact((), ()), []
    for block in notation.strip().split("\n\n"):
        lines = [(line[:2], line[2:]) for line in block.splitlines()]
        unknown = [sign for sign, _ in lines if sign not in ("= ", "- ", "? ", "~ ")]
        if unknown:
            raise ValueError(f"unknown sign {unknown[0]!r} in {block!r}")
        phrasings = tuple(_phrasing(template) for sign, template in lines if sign != "? ")
        questions = tuple(_question(template) for sign, template in lines if sign == "? ")
        match lines[0][0]:
            case "= ":
                naming = Fact(phrasings, questions)
            case "~ ":
                asides = Fact(phrasings, ())
            case _:
                facts.append(Fact(phrasings, questions))
    return Texts(naming, tuple(facts), asides)


def _phrasing(template: str) -> Phrasing:
    fields = dict.fromkeys(name for _, name, _, _ in Formatter().parse(template) if name)
    drawn = tuple((name, POOLS[name.rstrip("2")]) for name in fields if name.rstrip("2") in POOLS)
    return Phrasing(template, drawn)


def _question(line: str) -> tuple[str, str]:
    field, _, template = line.partition(": ")
    return field, template
