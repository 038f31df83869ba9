"""A generated encyclopaedia of an invented world, with questions: any size, offline, the same everywhere.

It exists to try a pipeline at a size for which no annotated corpus is available. Passage i is a function of the seed
and i; question j is a function of the seed, j and the number of passages, over which the questions are spread. So
memory does not grow with the corpus. Every later sentence of a passage refers back ("It", "The club", "She"), so it has
to be understood in its context. It is a bad model of language: a few hundred templates generate it, so figures on it
say nothing about text that people wrote.

Twelve articles form a cluster, which shares a town and all names that depend on it. So every article has distractors,
which name the same things and state different facts of the same sort.

synthetic.txt says what a passage can state and be asked. A line `# TOWN` begins the texts of a kind of article. A block
is one fact, and blank lines separate blocks; the first block has the first sentences, which name the subject, the last
one asides, of which no question asks. A line `? FIELD: …` is a question about the fact, whose answer is the value of
FIELD; every other line is one way to state it, after a sign. A template's fields are names that the cluster shares
({town}), references back to the subject ({It}), or values drawn for every sentence from POOLS ({person}, {person2}).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import blake2b
from itertools import accumulate, permutations, product
from pathlib import Path
from string import Formatter
from typing import ClassVar, NamedTuple, Self, TypeVar

from pydantic import Field, model_validator

from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import Dataset, DatasetOptions, Passage, Question, Record, Span

T = TypeVar("T")


class Fact(NamedTuple):
    """The ways to state a fact, and the questions about it as (the answer's field, template)."""

    phrasings: list[str]
    questions: list[tuple[str, str]]


def _fact(block: str) -> Fact:
    lines = block.splitlines()
    asked = [line[2:].partition(": ") for line in lines if line.startswith("? ")]
    return Fact([line[2:] for line in lines if line[0] != "?"], [(field, template) for field, _, template in asked])


def _texts() -> dict[str, list[Fact]]:
    """Return the facts of synthetic.txt by the kind of article."""
    parts = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split("\n# ")[1:]
    kinds = (part.partition("\n") for part in parts)
    return {kind: [_fact(block) for block in blocks.strip().split("\n\n")] for kind, _, blocks in kinds}


def _words() -> dict[str, list[str]]:
    """Return the lists of synthetic_words.txt by their names."""
    _, _, lists = Path(__file__).with_name("synthetic_words.txt").read_text(encoding="utf-8").partition("\n\n")
    entries = (entry.partition(": ") for entry in lists.replace("\n  ", " ").splitlines())
    return {name: [word.strip() for word in words.split("," if "," in words else None)] for name, _, words in entries}


TEXTS, WORDS = _texts(), _words()
for _name in ("plain surnames", "places"):
    WORDS[_name] = [start + end for start, end in product(WORDS[f"{_name}, beginnings"], WORDS[f"{_name}, endings"])]
WORDS["regions"] = [f"the {kind} of {name}" for kind, name in product(WORDS["regions, kinds"], WORDS["regions, names"])]


class Draw:
    """The choices for one passage or question, by BLAKE2 from its key: the same in every process and on every machine,
    and uniform for counts far below 2⁶⁴."""

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

    def one(self, values: Sequence[T]) -> T:
        return values[self(len(values))]

    def word(self, *lists: str) -> str:
        return self.one([word for name in lists for word in WORDS[name]])


def coprime_step(near: int, size: int) -> int:
    """Return the first step from `near` on that visits all of range(size) before it returns to its start."""
    return next(step for step in range(near, near + size + 1) if math.gcd(step, size) == 1)


def unique_name(seed: int, kind: str, number: int) -> str:
    """Return the name that no other number has: its digits over heads, middles and endings, in a seeded order.

    Numbers beyond the names with one middle get two middles, then three, so there is no largest number.
    """
    heads, middles, endings = WORDS["heads"], WORDS["middles"], WORDS[kind]
    size, length = len(heads) * len(middles) * len(endings), 1
    while number >= size:
        number, size, length = number - size, size * len(middles), length + 1
    step, start = _order(seed, kind, length, size)
    number, head = divmod((number * step + start) % size, len(heads))
    number, ending = divmod(number, len(endings))
    name = heads[head]
    for _ in range(length):
        number, middle = divmod(number, len(middles))
        name += middles[middle]
    return name + endings[ending]


@cache
def _order(seed: int, kind: str, length: int, size: int) -> tuple[int, int]:
    """Return the step and the start of the order in which names of so many middles are given."""
    draw = Draw(seed, "names", kind, length)
    return coprime_step(draw(size), size), draw(size)


def _person(*given: str) -> Callable[[Draw, int], str]:
    return lambda draw, _: f"{draw.word(*given)} {draw.word('plain surnames')}"


POOLS: dict[str, Callable[[Draw, int], str]] = {
    "place": lambda draw, _: draw.word("places"),
    "saint": lambda draw, _: f"St. {draw.word('saint')}",
    "man": _person("men"),
    "woman": _person("women"),
    "person": _person("men", "women"),
    "first": lambda _, first: str(first),
    "year": lambda draw, first: str(first + 20 + draw(56)),
    "day": lambda draw, _: f"{1 + draw(28)} {draw.word('month')}",
    "few": lambda draw, _: str(3 + draw(9)),
    "count": lambda draw, _: str(12 + draw(85)),
    "thousands": lambda draw, _: f"{2 + draw(60)},{draw(1000):03}",
    "km": lambda draw, _: f"{2 + draw(48)}.{1 + draw(9)} km",
    "metres": lambda draw, _: f"{14 + draw(180)}.{1 + draw(9)} m",
    "tonnes": lambda draw, _: f"{90 + draw(800)}.{1 + draw(9)} tonnes",
    "sum": lambda draw, _: f"{2 + draw(90)},{draw(10)}00 crowns",
}
"""How to draw a field, given the year from which the subject dates; `person2` is a second person of a sentence. Other
fields are words of the list with their name."""
_PLAIN = {"animal", "colour", "dish", "goods", "month", "plant", "stone", "subject", "trade", "weekday"}


@cache
def _drawn(template: str) -> tuple[str, ...]:
    """Return the template's fields that are drawn."""
    fields = [name for _, name, _, _ in Formatter().parse(template) if name]
    return tuple(dict.fromkeys(name for name in fields if name.rstrip("2") in POOLS.keys() | _PLAIN))


def _value(field: str, draw: Draw, year: int) -> str:
    name = field.rstrip("2")
    return POOLS[name](draw, year) if name in POOLS else draw.word(name)


SLOTS = WORDS["slots"]
"""The kinds of the articles of a cluster, which share their names."""
_TITLES = {"RIVER": "River {river}", "SEASON": "{season} {club} season", "PERSON": "{who}"}
_SINCE = {"RAILWAY": (1850, 1910), "SHIP": (1850, 1910)}
"""The years from which a subject dates, where they are not 1700 to 1900."""
_ORDERS = {count: tuple(permutations(range(count))) for count in (5, 6)}
_STUBS_PER_HUNDRED = 3


def _references(kind: str, is_woman: bool) -> tuple[dict[str, str], ...]:
    """Return how later sentences refer back to the subject: mostly by the pronoun."""
    if kind in ("SEASON", "SHIP"):
        return ({},)
    if kind == "PERSON":
        he, his, him = ("She", "Her", "her") if is_woman else ("He", "His", "him")
        pronoun = {"He": he, "he": he.lower(), "His": his, "his": his.lower(), "him": him}
        noun = {"He": "The naturalist", "he": "the naturalist", "His": "The naturalist's", "his": "the naturalist's"}
        return pronoun, pronoun, pronoun | noun
    name = f"he {kind.lower()}"
    pronoun = {"It": "It", "it": "it", "Its": "Its", "its": "its"}
    return pronoun, pronoun, {"It": f"T{name}", "it": f"t{name}", "Its": f"T{name}'s", "its": f"t{name}'s"}


class Article(NamedTuple):
    """The source of a passage: its first sentence names the subject, and the later ones refer back.

    `facts` and `values` are those of every sentence; `names` fills the fields of the questions.
    """

    title: str
    sentences: list[str]
    facts: list[Fact]
    values: list[dict[str, str]]
    names: dict[str, str]

    def text(self) -> str:
        return " ".join(self.sentences)

    def spans(self) -> list[tuple[int, int]]:
        """Return the half-open character ranges of the sentences in the text."""
        starts = accumulate((len(sentence) + 1 for sentence in self.sentences), initial=0)
        return [(start, start + len(sentence)) for start, sentence in zip(starts, self.sentences, strict=False)]


def article(seed: int, index: int) -> Article:
    """Return article `index`, counted from 0. There is no last article."""
    cluster, slot = divmod(index, len(SLOTS))
    kind, draw, names = SLOTS[slot], Draw(seed, "article", index), _names(seed, cluster, slot)
    references = _references(kind, _is_woman(cluster, slot))
    first, last = _SINCE.get(kind, (1700, 1900))
    year = int(names["founded"]) if kind == "CLUB" else first + draw(last - first)
    naming, *known, asides = TEXTS[kind]
    facts = [naming]
    if draw(100) >= _STUBS_PER_HUNDRED:
        order = draw.one(_ORDERS[len(known)])
        facts += [known[number] for number in order[: 3 + draw(3)]]
        facts += [asides] if draw(3) == 0 else []
    title = _TITLES.get(kind, "{" + kind.lower() + "}").format_map(names)
    made = Article(title, [], facts, [], names)
    for fact in facts:
        template = draw.one(fact.phrasings)
        values = {name: _value(name, draw, year) for name in _drawn(template)}
        made.sentences.append(template.format_map(names | draw.one(references) | values))
        made.values.append(values)
    return made


def _names(seed: int, cluster: int, slot: int) -> dict[str, str]:
    """Return the names that a cluster's articles share, and those in which its two seasons and persons differ."""
    draw = Draw(seed, "cluster", cluster)
    town = unique_name(seed, "town", cluster)
    season, number = 1905 + draw(50), 12 + draw(30)
    names = {
        "town": town,
        "neighbour": unique_name(seed, "town", cluster + 1),
        "river": unique_name(seed, "river", cluster),
        "region": draw.word("regions"),
        **{kind: f"{town} {draw.word(f'{kind}s')}" for kind in ("club", "bridge", "railway")},
        "observatory": f"{town} Observatory",
        "festival": f"{town} {draw.word('festivals')}",
        "ship": f"SS {town}",
        "founded": str(season - number),
    }
    given, surname = draw(1_000_000), unique_name(seed, "surname", cluster)

    def person(place: int) -> str:  # one cousin is a woman and the other a man, so their given names differ
        among = WORDS["women" if _is_woman(cluster, place) else "men"]
        return f"{among[given // (place + 1) % len(among)]} {surname}"

    if SLOTS[slot] == "PERSON":
        names |= {"who": person(slot), "cousin": person(2 * SLOTS.index("PERSON") + 1 - slot)}
    later = slot - SLOTS.index("SEASON") if SLOTS[slot] == "SEASON" else 0
    return names | {"season": str(season + later), "number": str(number + later)}


def _is_woman(cluster: int, slot: int) -> bool:
    return (cluster + slot) % 2 == 0


class Synthetic(Dataset):
    """A generated encyclopaedia of an invented world, with questions that have one answer; reads no file.

    Passages have four to seven sentences (about 3 % have one) and come in clusters that share their names. A question
    asks for a fact from a sentence that does not name its subject. Passages are records 1 to P; questions come after
    them. With more than about three questions per passage, questions repeat.
    """

    example: ClassVar[str] = "synthetic:passages=2000,questions=200,seed=0"
    reads_path: ClassVar[bool] = False

    class Options(DatasetOptions):
        passages: int = Field(2000, ge=0, le=10**12, description="number of passages")
        questions: int = Field(200, ge=0, le=10**12, description="number of questions, one passage per question")
        seed: int = Field(0, ge=0, description="seed of the world; another seed gives other names and facts")

        @model_validator(mode="after")
        def _questions_need_passages(self) -> Self:
            if self.questions and not self.passages:
                raise ValueError(
                    f"questions={self.questions} need passages to ask about: set passages=, or questions=0"
                )
            return self

    options: Options

    def files(self) -> list[Path]:
        return []

    def total_records(self) -> int:
        return self.options.passages + self.options.questions

    def records(self) -> Iterator[tuple[int, Record]]:
        passages, seed = self.options.passages, self.options.seed
        for index in range(passages):
            made = article(seed, index)
            yield index + 1, Passage(made.title, made.text(), f"p{index + 1}")
        for number in range(self.options.questions):
            yield passages + number + 1, _question(seed, number, passages)


_GOLDEN = 0.6180339887498949
"""Steps of this share of a range spread evenly over the range, after any number of steps (the golden section)."""


def _question(seed: int, number: int, passages: int) -> Question:
    """Return question `number`. Every passage gets one question before any passage gets a second."""
    start = Draw(seed, "questions", passages)(passages)
    turn, position = divmod(number, passages)
    index = (position * coprime_step(int(passages * _GOLDEN), passages) + start) % passages
    made = article(seed, index)
    askable = _askable(made, Draw(seed, "question", index))
    sentence, field, template = askable[turn % len(askable)]
    spans, passage = made.spans(), passage_id(made.text())
    return Question(
        text=template.format_map(made.names),
        answers=(made.values[sentence].get(field) or made.names[field],),
        gold_passages=(passage,),
        supporting_facts=tuple(Span(passage, *spans[place]) for place in sorted({0, sentence})),
        source_id=f"q{number + 1}",
    )


def _askable(made: Article, draw: Draw) -> list[tuple[int, str, str]]:
    """Return (sentence, field of the answer, question template): every fact once, in a drawn order, then all again.

    Facts of the first sentence are asked about only if it is the only sentence.
    """
    by_sentence = []
    for number, fact in enumerate(made.facts):
        questions = [(number, *question) for question in fact.questions]
        if questions and (number or len(made.facts) == 1):
            by_sentence.append(_turned(questions, draw))
    ordered = _turned(by_sentence, draw)
    most = max(map(len, ordered))
    return [questions[rank] for rank in range(most) for questions in ordered if rank < len(questions)]


def _turned(listed: list[T], draw: Draw) -> list[T]:
    turn = draw(len(listed))
    return listed[turn:] + listed[:turn]
