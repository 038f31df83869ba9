"""The articles of the invented encyclopaedia: article i of a seed, computed from these two numbers alone.

Twelve articles form a cluster, which shares a town and all names that depend on it. So every article has distractors,
which name the same things and state different facts of the same sort.
"""

from dataclasses import dataclass, field
from itertools import permutations

from vitalfew.tasks.datasets import synthetic_people as people
from vitalfew.tasks.datasets import synthetic_places as places
from vitalfew.tasks.datasets.synthetic_text import Fact, Texts, parse
from vitalfew.tasks.datasets.synthetic_world import (
    GIVEN_MEN,
    GIVEN_WOMEN,
    REGIONS,
    RIVER_ENDINGS,
    SURNAMES,
    TOWN_ENDINGS,
    Draw,
    Namer,
)

_STUBS_PER_HUNDRED = 3
_ORDERS = {count: tuple(permutations(range(count))) for count in (5, 6)}


def _references(noun: str) -> tuple[dict[str, str], ...]:
    """Return how later sentences refer back to a thing: mostly by the pronoun."""
    pronoun = {"It": "It", "it": "it", "Its": "Its", "its": "its"}
    return pronoun, pronoun, {"It": f"The {noun}", "it": f"the {noun}", "Its": f"The {noun}'s", "its": f"the {noun}'s"}


_NATURALIST = {"He": "The naturalist", "he": "the naturalist", "His": "The naturalist's", "his": "the naturalist's"}
_HE = {"He": "He", "he": "he", "His": "His", "his": "his", "him": "him"}
_SHE = {"He": "She", "he": "she", "His": "Her", "his": "her", "him": "her"}
_BY_GENDER = (
    (_HE, _HE, {**_NATURALIST, "him": "him"}),
    (_SHE, _SHE, {**_NATURALIST, "him": "her"}),
)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of article. `since` is the range of years from which its subject can date."""

    title: str
    texts: Texts
    references: tuple[dict[str, str], ...] = ({},)
    since: tuple[int, int] = (1700, 1900)


_PERSON = _Kind("{who}", parse(people.PERSON))
_SEASON = _Kind("{season} {club} season", parse(people.SEASON))
_CLUB = _Kind("{club}", parse(people.CLUB), _references("club"))
_SLOTS = (
    _Kind("{town}", parse(places.TOWN), _references("town")),
    _Kind("River {river}", parse(places.RIVER), _references("river")),
    _CLUB,
    _SEASON,
    _SEASON,
    _PERSON,
    _PERSON,
    _Kind("{bridge}", parse(places.BRIDGE), _references("bridge")),
    _Kind("{railway}", parse(places.RAILWAY), _references("railway"), (1850, 1910)),
    _Kind("{observatory}", parse(places.OBSERVATORY), _references("observatory")),
    _Kind("{festival}", parse(people.FESTIVAL), _references("festival")),
    _Kind("{ship}", parse(people.SHIP), since=(1850, 1910)),
)
CLUSTER = len(_SLOTS)
"""The number of articles that share their names."""
_FIRST_SEASON, _FIRST_PERSON = _SLOTS.index(_SEASON), _SLOTS.index(_PERSON)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, the fact it states and the values in it."""

    text: str
    fact: Fact
    values: dict[str, str]


@dataclass(frozen=True, slots=True)
class Article:
    """The source of a passage: its first sentence names the subject, and the later ones refer back.

    `names` fills the fields of the questions.
    """

    title: str
    sentences: tuple[Sentence, ...]
    names: dict[str, str]

    def text(self) -> str:
        return " ".join([sentence.text for sentence in self.sentences])

    def spans(self) -> list[tuple[int, int]]:
        """Return the half-open character ranges of the sentences in the text."""
        spans, start = [], 0
        for sentence in self.sentences:
            spans.append((start, start + len(sentence.text)))
            start += len(sentence.text) + 1
        return spans


@dataclass(slots=True)
class Encyclopaedia:
    """All articles of a seed."""

    seed: int
    _towns: Namer = field(init=False)
    _rivers: Namer = field(init=False)
    _surnames: Namer = field(init=False)
    _latest: tuple[int, dict[str, str]] = field(init=False, default=(-1, {}))

    def __post_init__(self) -> None:
        self._towns = Namer(self.seed, tuple(TOWN_ENDINGS), "town")
        self._rivers = Namer(self.seed, tuple(RIVER_ENDINGS), "river")
        self._surnames = Namer(self.seed, tuple(SURNAMES), "surname")

    def article(self, index: int) -> Article:
        """Return article `index`, counted from 0. There is no last article."""
        cluster, slot = divmod(index, CLUSTER)
        kind = _SLOTS[slot]
        draw = Draw(self.seed, "article", index)
        names = self._names(cluster) | self._own_names(cluster, slot)
        references = kind.references
        if kind is _PERSON:
            references = _BY_GENDER[_is_woman(cluster, slot)]
        year = int(names["founded"]) if kind is _CLUB else kind.since[0] + draw(kind.since[1] - kind.since[0])
        facts = [kind.texts.naming]
        if draw(100) >= _STUBS_PER_HUNDRED:
            order = _ORDERS[len(kind.texts.facts)]
            facts += [kind.texts.facts[number] for number in order[draw(len(order))][: 3 + draw(3)]]
            if draw(3) == 0:
                facts.append(kind.texts.asides)
        sentences = tuple([_write(fact, names, references, year, draw) for fact in facts])
        return Article(kind.title.format_map(names), sentences, names)

    def _names(self, cluster: int) -> dict[str, str]:
        """Return the names that a cluster's articles share. Keeps the latest, as articles are mostly read in order."""
        if self._latest[0] != cluster:
            self._latest = cluster, self._new_names(cluster)
        return self._latest[1]

    def _new_names(self, cluster: int) -> dict[str, str]:
        draw = Draw(self.seed, "cluster", cluster)
        town = self._towns(cluster)
        season, number = 1905 + draw(50), 12 + draw(30)
        return {
            "town": town,
            "neighbour": self._towns(cluster + 1),
            "river": self._rivers(cluster),
            "surname": self._surnames(cluster),
            "region": REGIONS[draw(len(REGIONS))],
            "club": f"{town} {('Rovers', 'United', 'Albion', 'Athletic', 'Wanderers')[draw(5)]}",
            "bridge": f"{town} {('Old Bridge', 'Toll Bridge', 'Long Bridge', 'Water Gate Bridge')[draw(4)]}",
            "railway": f"{town} {('Light Railway', 'Valley Railway', 'Hill Railway')[draw(3)]}",
            "observatory": f"{town} Observatory",
            "festival": f"{town} {('Goose Fair', 'Bell Night', 'Straw Fair', 'Seal Feast', 'Candle Fair')[draw(5)]}",
            "ship": f"SS {town}",
            "season": str(season),
            "number": str(number),
            "founded": str(season - number),
            "given": str(draw(1_000_000)),
        }

    def _own_names(self, cluster: int, slot: int) -> dict[str, str]:
        """Return the names in which the two seasons and the two persons of a cluster differ."""
        names = self._names(cluster)
        if _SLOTS[slot] is _SEASON:
            later = slot - _FIRST_SEASON
            return {"season": str(int(names["season"]) + later), "number": str(int(names["number"]) + later)}
        if _SLOTS[slot] is _PERSON:
            return {"who": _full_name(names, cluster, slot), "cousin": _full_name(names, cluster, _other(slot))}
        return {}


def _write(
    fact: Fact, names: dict[str, str], references: tuple[dict[str, str], ...], year: int, draw: Draw
) -> Sentence:
    """State a fact in one of its phrasings, with drawn values."""
    phrasing = fact.phrasings[draw(len(fact.phrasings))]
    values = {name: pool(draw, year) for name, pool in phrasing.drawn}
    text = phrasing.template.format_map(names | references[draw(len(references))] | values)
    return Sentence(text, fact, values)


def _other(slot: int) -> int:
    """Return the slot of a person's cousin."""
    return 2 * _FIRST_PERSON + 1 - slot


def _is_woman(cluster: int, slot: int) -> bool:
    return (cluster + slot) % 2 == 0


def _full_name(names: dict[str, str], cluster: int, slot: int) -> str:
    """Return a person's name. One cousin is a woman and the other a man, so their given names differ."""
    given = GIVEN_WOMEN if _is_woman(cluster, slot) else GIVEN_MEN
    return f"{given[int(names['given']) // (slot + 1) % len(given)]} {names['surname']}"
