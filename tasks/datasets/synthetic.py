"""A generated encyclopaedia of an invented world, with questions: any size, offline, the same everywhere.

It exists to try a pipeline at a size for which no annotated corpus is available. Passage i is a function of the seed
and i; question j is a function of the seed, j and the number of passages, over which the questions are spread. So
memory does not grow with the corpus. It is a good test of context: every later sentence of a passage refers back ("It",
"The club", "She"), so a sentence must be understood in its context. It is a bad model of language: a few hundred
templates generate it, so figures on it say nothing about text that people wrote.

Twelve articles form a cluster, which shares a town and all names that depend on it. So every article has distractors,
which name the same things and state different facts of the same sort.

A notation (synthetic.txt) says what a passage can state and be asked. A line `# TOWN` begins the texts of a kind of
article. A block is a set of lines, and blank lines separate blocks. Every line is a sign, a space and a template:

    = a first sentence, which names the passage's subject; a passage uses one of the block's lines
    - a later sentence, which does not name the subject; the lines of one block are phrasings of the same fact
    ? FIELD: a question about the block's fact, whose answer is the value of FIELD
    ~ a sentence that only names other things of the same cluster; no question asks about it

A template's fields are names that its cluster shares ({town}), references back to the passage's subject ({It}), or
values drawn anew for every sentence from synthetic_world.POOLS ({person}, {person2}).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from string import Formatter
from typing import ClassVar, Self

from pydantic import Field, model_validator

from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import Dataset, DatasetOptions, Passage, Question, Record, Span
from vitalfew.tasks.datasets.synthetic_world import (
    GIVEN_MEN,
    GIVEN_WOMEN,
    POOLS,
    REGIONS,
    RIVER_ENDINGS,
    SURNAMES,
    TOWN_ENDINGS,
    Draw,
    Namer,
    Pool,
    coprime_step,
)


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
class Repertoire:
    """Everything that passages of one kind can say."""

    naming: Fact
    facts: tuple[Fact, ...]
    asides: Fact


def parse(notation: str) -> Repertoire:
    """Parse the notation above. Raises ValueError if a line has no known sign."""
    naming, asides, facts = Fact((), ()), Fact((), ()), []
    for block in notation.strip().split("\n\n"):
        lines = [(line[:2], line[2:]) for line in block.splitlines()]
        unknown = [sign for sign, _ in lines if sign not in ("= ", "- ", "? ", "~ ")]
        if unknown:
            raise ValueError(f"unknown sign {unknown[0]!r} in {block!r}")
        phrasings = tuple(_phrasing(template) for sign, template in lines if sign != "? ")
        asked = (template.partition(": ") for sign, template in lines if sign == "? ")
        questions = tuple((field, template) for field, _, template in asked)
        match lines[0][0]:
            case "= ":
                naming = Fact(phrasings, questions)
            case "~ ":
                asides = Fact(phrasings, ())
            case _:
                facts.append(Fact(phrasings, questions))
    return Repertoire(naming, tuple(facts), asides)


def _phrasing(template: str) -> Phrasing:
    fields = dict.fromkeys(name for _, name, _, _ in Formatter().parse(template) if name)
    drawn = tuple((name, POOLS[name.rstrip("2")]) for name in fields if name.rstrip("2") in POOLS)
    return Phrasing(template, drawn)


def _notations() -> dict[str, str]:
    """Return the texts of synthetic.txt by the kind of article."""
    parts = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split("\n# ")[1:]
    return {kind: notation for kind, _, notation in (part.partition("\n") for part in parts)}


NOTATIONS = _notations()
TEXTS = {kind: parse(notation) for kind, notation in NOTATIONS.items()}
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
    texts: Repertoire
    references: tuple[dict[str, str], ...] = ({},)
    since: tuple[int, int] = (1700, 1900)


_PERSON = _Kind("{who}", TEXTS["PERSON"])
_SEASON = _Kind("{season} {club} season", TEXTS["SEASON"])
_CLUB = _Kind("{club}", TEXTS["CLUB"], _references("club"))
_SLOTS = (
    _Kind("{town}", TEXTS["TOWN"], _references("town")),
    _Kind("River {river}", TEXTS["RIVER"], _references("river")),
    _CLUB,
    _SEASON,
    _SEASON,
    _PERSON,
    _PERSON,
    _Kind("{bridge}", TEXTS["BRIDGE"], _references("bridge")),
    _Kind("{railway}", TEXTS["RAILWAY"], _references("railway"), (1850, 1910)),
    _Kind("{observatory}", TEXTS["OBSERVATORY"], _references("observatory")),
    _Kind("{festival}", TEXTS["FESTIVAL"], _references("festival")),
    _Kind("{ship}", TEXTS["SHIP"], since=(1850, 1910)),
)
CLUSTER = len(_SLOTS)
"""The number of articles that share their names."""
_FIRST_SEASON, _FIRST_PERSON = _SLOTS.index(_SEASON), _SLOTS.index(_PERSON)


@dataclass(frozen=True, slots=True)
class Statement:
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
    sentences: tuple[Statement, ...]
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


class Encyclopaedia:
    """All articles of a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._towns = Namer(seed, tuple(TOWN_ENDINGS), "town")
        self._rivers = Namer(seed, tuple(RIVER_ENDINGS), "river")
        self._surnames = Namer(seed, tuple(SURNAMES), "surname")
        self._latest: tuple[int, dict[str, str]] = (-1, {})

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
        if self._latest[0] == cluster:
            return self._latest[1]
        draw = Draw(self.seed, "cluster", cluster)
        town = self._towns(cluster)
        season, number = 1905 + draw(50), 12 + draw(30)
        names = {
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
        self._latest = cluster, names
        return names

    def _own_names(self, cluster: int, slot: int) -> dict[str, str]:
        """Return the names in which the two seasons and the two persons of a cluster differ."""
        names = self._names(cluster)
        if _SLOTS[slot] is _SEASON:
            later = slot - _FIRST_SEASON
            return {"season": str(int(names["season"]) + later), "number": str(int(names["number"]) + later)}
        if _SLOTS[slot] is _PERSON:
            other = 2 * _FIRST_PERSON + 1 - slot
            return {"who": _full_name(names, cluster, slot), "cousin": _full_name(names, cluster, other)}
        return {}


def _write(
    fact: Fact, names: dict[str, str], references: tuple[dict[str, str], ...], year: int, draw: Draw
) -> Statement:
    """State a fact in one of its phrasings, with drawn values."""
    phrasing = fact.phrasings[draw(len(fact.phrasings))]
    values = {name: pool(draw, year) for name, pool in phrasing.drawn}
    text = phrasing.template.format_map(names | references[draw(len(references))] | values)
    return Statement(text, fact, values)


def _is_woman(cluster: int, slot: int) -> bool:
    return (cluster + slot) % 2 == 0


def _full_name(names: dict[str, str], cluster: int, slot: int) -> str:
    """Return a person's name. One cousin is a woman and the other a man, so their given names differ."""
    given = GIVEN_WOMEN if _is_woman(cluster, slot) else GIVEN_MEN
    return f"{given[int(names['given']) // (slot + 1) % len(given)]} {names['surname']}"


_GOLDEN = 0.6180339887498949
"""Steps of this share of a range spread evenly over the range, after any number of steps (the golden section)."""


class SyntheticOptions(DatasetOptions):
    """How much of the world to generate."""

    passages: int = Field(default=2000, ge=0, le=10**12, description="number of passages")
    questions: int = Field(default=200, ge=0, le=10**12, description="number of questions, one passage per question")
    seed: int = Field(default=0, ge=0, description="seed of the world; another seed gives other names and facts")

    @model_validator(mode="after")
    def _questions_need_passages(self) -> Self:
        if self.questions and not self.passages:
            raise ValueError(f"questions={self.questions} need passages to ask about: set passages=, or questions=0")
        return self


class Synthetic(Dataset):
    """A generated encyclopaedia of an invented world, with questions that have one answer; reads no file.

    Passages have four to seven sentences (about 3 % have one) and come in clusters that share their names. A question
    asks for a fact from a sentence that does not name its subject. Passages are records 1 to P; questions come after
    them. With more than about three questions per passage, questions repeat.
    """

    example: ClassVar[str] = "synthetic:passages=2000,questions=200,seed=0"
    reads_path: ClassVar[bool] = False
    Options: ClassVar[type[DatasetOptions]] = SyntheticOptions
    options: SyntheticOptions

    def files(self) -> list[Path]:
        return []

    def total_records(self) -> int:
        return self.options.passages + self.options.questions

    def records(self) -> Iterator[tuple[int, Record]]:
        passages, seed = self.options.passages, self.options.seed
        world = Encyclopaedia(seed)
        for index in range(passages):
            article = world.article(index)
            yield index + 1, Passage(article.title, article.text(), f"p{index + 1}")
        for number in range(self.options.questions):
            yield passages + number + 1, _question(world, number, passages)


def gold_sentences(seed: int, index: int) -> list[tuple[int, int]]:
    """Return the half-open character ranges of the sentences of passage `index` (from 0), without the spaces between.

    They serve to judge a sentence splitter: the texts have abbreviations and decimals.
    """
    return Encyclopaedia(seed).article(index).spans()


def _question(world: Encyclopaedia, number: int, passages: int) -> Question:
    """Return question `number`. Every passage gets one question before any passage gets a second."""
    start = Draw(world.seed, "questions", passages)(passages)
    step = coprime_step(int(passages * _GOLDEN), passages)
    turn, position = divmod(number, passages)
    index = (position * step + start) % passages
    article = world.article(index)
    askable = _askable(article, Draw(world.seed, "question", index))
    sentence, field, template = askable[turn % len(askable)]
    text, spans = article.text(), article.spans()
    passage = passage_id(text)
    return Question(
        text=template.format_map(article.names),
        answers=(article.sentences[sentence].values.get(field) or article.names[field],),
        gold_passages=(passage,),
        supporting_facts=tuple(Span(passage, *spans[place]) for place in sorted({0, sentence})),
        source_id=f"q{number + 1}",
    )


def _askable(article: Article, draw: Draw) -> list[tuple[int, str, str]]:
    """Return (sentence, field of the answer, question template): every fact once, in a drawn order, then all again.

    Facts of the first sentence are asked about only if it is the only sentence.
    """
    by_sentence = []
    for number, sentence in enumerate(article.sentences):
        questions = [(number, *question) for question in sentence.fact.questions]
        if questions and (number or len(article.sentences) == 1):
            turn = draw(len(questions))
            by_sentence.append(questions[turn:] + questions[:turn])
    turn = draw(len(by_sentence))
    ordered = by_sentence[turn:] + by_sentence[:turn]
    most = max(len(questions) for questions in ordered)
    return [questions[rank] for rank in range(most) for questions in ordered if rank < len(questions)]
