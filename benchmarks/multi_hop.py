"""`make bench-hops`: questions of two and three hops over an invented world; what each way to retrieve finds of them.

A world is made from a seed: countries, towns, rivers, people, companies, books, buildings, universities and clubs, some
620 passages of 4 to 8 sentences in the templates of multi_hop.txt. A question names one of them and asks for a fact of
another, "In which country is the birthplace of the writer of The Glazier of Dunkoara?": MuSiQue's kind (Trivedi et al.,
TACL 2022, arXiv 2108.00573). What links the two is not named, the answer stands in no passage on the way to it, and the
question says it in other words than the passages. The layout is HotpotQA's, with a supporting fact for every hop and
passages of the world beside them. Names are unique over all seeds, so the worlds of two seeds share none.

Seed 0 is for choosing settings, seed 1 for reporting figures. Of the worlds, only the supporting facts that are shown
are measured: the bundled reader answers from one context at a time, so that of 100 questions it answers 6 from exactly
these facts as contexts apart (56 as one context, 87 from the last fact alone), and about one from retrieved contexts.

The corpora: `development` and `test` (the worlds), HotpotQA's sample and NQ's gold passages (each among
2WikiMultihopQA's passages), and SQuAD (the articles that the reader was not trained on).

    python -m benchmarks.multi_hop [--store DIR] [--questions N] [CORPUS ...]
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any, TypeVar

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import numpy as np

from benchmarks.common import NQ, REAL, difference, evaluated, held_out, index, options, show, sql_list
from vitalfew.configs.evaluation import Evaluate
from vitalfew.tasks.datasets.synthetic import Fact, Repertoire, parse
from vitalfew.tasks.datasets.synthetic_world import (
    GIVEN_MEN,
    GIVEN_WOMEN,
    POOLS,
    RIVER_ENDINGS,
    SURNAMES,
    TOWN_ENDINGS,
    WORDS,
    Draw,
    Namer,
)
from vitalfew.tasks.reports.methods import Results, method_results
from vitalfew.tasks.reports.runs import QuestionScores

T = TypeVar("T")
DEVELOPMENT, TEST = 0, 1
"""Seeds."""
SIZES = {
    "COUNTRY": 16,
    "TOWN": 110,
    "RIVER": 40,
    "PERSON": 180,
    "COMPANY": 80,
    "BOOK": 80,
    "BUILDING": 50,
    "UNIVERSITY": 24,
    "CLUB": 40,
}
"""Passages of every kind; none is above NAMES."""
NAMES = 1000
ENDINGS = {
    "COUNTRY": ("ia", "land", "mark", "stan"),
    "TOWN": TOWN_ENDINGS,
    "RIVER": RIVER_ENDINGS,
    "PERSON": SURNAMES,
    "COMPANY": ("ex", "ol", "onic", "utec"),
    "BOOK": ("ara", "emar", "oth", "une"),
    "BUILDING": ("aster", "ery", "iston", "ock"),
    "UNIVERSITY": ("ance", "elot", "iour", "umbria"),
    "CLUB": ("avia", "entum", "orr", "usk"),
    "language": ("ese", "ic", "ish"),
}
FORMS = {
    "RIVER": ("River {}",),
    "COMPANY": ("{} Works", "{} Brothers", "{} Company"),
    "BOOK": tuple(f"The {trade.title()} of {{}}" for trade in WORDS["trade"]),
    "BUILDING": ("{} Hall", "{} Tower", "{} House", "{} Palace"),
    "UNIVERSITY": ("{} University", "{} College"),
    "CLUB": ("{} Rovers", "{} United", "{} Athletic"),
}
TARGETS = {
    **dict.fromkeys(("capital", "birthplace", "seat", "setting", "town"), "TOWN"),
    **dict.fromkeys(("founder", "author", "architect", "coach", "spouse"), "PERSON"),
    **{"country": "COUNTRY", "river": "RIVER", "university": "UNIVERSITY", "publisher": "COMPANY"},
}
"""The kind of what a relation leads to. Any other relation has a value of VALUES."""
PROFESSIONS = ("manufacturer", "writer", "master builder", "scholar", "football trainer")
CALLINGS = {"COMPANY": 0, "BOOK": 1, "BUILDING": 2, "UNIVERSITY": 3, "CLUB": 4}
"""The profession of the person whom a passage of the kind leads to."""
VALUES = {
    name: values.split(", ")
    for name, values in {
        "currency": "crown, dinar, drachma, ducat, escudo, florin, groat, guilder, lira, mark, peso, rand, thaler",
        "sea": "Amber Sea, Bay of Gulls, Black Lagoon, Coral Sea, Gulf of Storms, Misty Ocean, Northern Sound",
        "fish": "barbel, bream, burbot, carp, char, eel, grayling, perch, roach, salmon, sturgeon, trout",
        "instrument": "accordion, bassoon, cello, clarinet, double bass, flute, harp, lute, oboe, trombone, viola",
    }.items()
}
POOLED = {
    **dict.fromkeys(("fair", "product"), "goods"),
    **dict.fromkeys(("founded", "appeared"), "first"),
    **{"material": "stone", "shirt": "colour", "length": "km"},
}
"""The pool of synthetic_world.py of a relation's value."""
THING = {"It": "It", "it": "it", "Its": "Its", "its": "its"}
WOMAN = {"It": "She", "it": "she", "Its": "Her", "its": "her", "him": "her", "his": "her"}
MAN = {"It": "He", "it": "he", "Its": "His", "its": "his", "him": "him", "his": "his"}


def _repertoires() -> dict[str, Repertoire]:
    parts = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split("\n# ")[1:]
    return {kind: parse(notation) for kind, _, notation in (part.partition("\n") for part in parts)}


TEXTS = _repertoires()


@dataclass(frozen=True)
class Subject:
    """The subject of a passage. `relations`: by name, the value, and the subject's key if it is one."""

    title: str
    relations: dict[str, tuple[str, "Key | None"]]
    sentences: tuple[str, ...]
    stated: dict[str, int]
    """The sentence that states a relation."""


Key = tuple[str, int]
"""A subject's kind and number."""


class World:
    """All passages of a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.subjects = {(kind, number): self._subject(kind, number) for kind in SIZES for number in range(SIZES[kind])}

    def _name(self, kind: str, number: int) -> str:
        return Namer(0, tuple(ENDINGS[kind]), kind)(self.seed * NAMES + number)

    def _title(self, kind: str, number: int) -> str:
        draw, name = Draw(self.seed, "title", kind, number), self._name(kind, number)
        if kind == "PERSON":
            given = GIVEN_WOMEN if number % 2 else GIVEN_MEN
            return f"{given[draw(len(given))]} {name}"
        forms = FORMS.get(kind, ("{}",))
        return forms[draw(len(forms))].format(name)

    def _subject(self, kind: str, number: int) -> Subject:
        draw = Draw(self.seed, "relations", kind, number)
        names = [fact.questions[0][0] for fact in TEXTS[kind].facts]
        relations = {name: self._value(draw, kind, number, name) for name in names}
        return self._written(kind, number, relations)

    def _value(self, draw: Draw, kind: str, number: int, relation: str) -> tuple[str, Key | None]:
        if target := TARGETS.get(relation):
            key = target, self._target(draw, kind, number, relation)
            return self._title(*key), key
        if relation == "language":
            return self._name(relation, number), None
        values = VALUES.get(relation)
        return (values[draw(len(values))] if values else POOLS[POOLED[relation]](draw, 1800 + draw(120))), None

    def _target(self, draw: Draw, kind: str, number: int, relation: str) -> int:
        size = SIZES[TARGETS[relation]]
        if relation == "capital":
            return number  # the town's country is its number modulo the countries
        if relation == "country":
            return number % size
        if relation == "spouse":
            return number ^ 1
        if TARGETS[relation] == "PERSON":
            return draw(size // len(PROFESSIONS)) * len(PROFESSIONS) + CALLINGS[kind]
        return draw(size)

    def _written(self, kind: str, number: int, relations: dict[str, tuple[str, Key | None]]) -> Subject:
        """Write a passage: a first sentence, the relations that it does not state, and up to three other things."""
        draw, text = Draw(self.seed, "passage", kind, number), TEXTS[kind]
        title, reference = self._title(kind, number), THING
        fixed = {name: value for name, (value, _) in relations.items()}
        if kind == "PERSON":
            reference, fixed["profession"] = WOMAN if number % 2 else MAN, PROFESSIONS[number % len(PROFESSIONS)]
        first = _said(text.naming, draw, fixed | {"It": title})
        told = [fact for fact in text.facts if fact.questions[0][0] not in first.states]
        asides = [Fact((phrasing,), ()) for phrasing in text.asides.phrasings]
        least = max(0, 3 - len(told))
        told += _some(draw, asides, least + draw(min(4, 8 - len(told) - least)))
        sentences = [first, *(_said(fact, draw, fixed | reference) for fact in _some(draw, told, len(told)))]
        stated = {name: place for place, each in enumerate(sentences) for name in each.states & relations.keys()}
        return Subject(title, relations, tuple(each.text for each in sentences), stated)


@dataclass(frozen=True)
class Sentence:
    """`states`: the fields of its template."""

    text: str
    states: set[str]


def _said(fact: Fact, draw: Draw, fixed: dict[str, str]) -> Sentence:
    phrasing = fact.phrasings[draw(len(fact.phrasings))]
    values = {name: pool(draw, 1800 + draw(120)) for name, pool in phrasing.drawn}
    text = phrasing.template.format_map(values | fixed)
    return Sentence(
        text[0].upper() + text[1:], {name for _, name, _, _ in Formatter().parse(phrasing.template) if name}
    )


def _some(draw: Draw, things: Sequence[T], count: int) -> list[T]:
    """Draw `count` of the things without repeats, in a drawn order."""
    left = [*things]
    return [left.pop(draw(len(left))) for _ in range(count)]


def paths(hops: int) -> list[tuple[str, tuple[str, ...]]]:
    """All chains of relations of this length, each with the kind that it begins from."""

    def further(kind: str, left: int) -> Iterator[tuple[str, ...]]:
        for fact in TEXTS[kind].facts:
            relation = fact.questions[0][0]
            if left == 1:
                yield (relation,)
            elif relation in TARGETS and _templates(kind, relation, asks=False):
                yield from ((relation, *rest) for rest in further(TARGETS[relation], left - 1))

    return [(kind, path) for kind in SIZES for path in further(kind, hops)]


def _templates(kind: str, relation: str, asks: bool) -> list[str]:
    """The questions for a relation, or the phrases that call its value."""
    asked = (template for fact in TEXTS[kind].facts for name, template in fact.questions if name == relation)
    return [template for template in asked if template.endswith("?") == asks]


def questions(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield `count` questions in HotpotQA's layout, three of four with two hops and the others with three.

    All passages of the world stand among the contexts of 100 questions or more.
    """
    world, asked, tries = World(seed), set[str](), 0
    order = _some(Draw(seed, "distractors"), [*world.subjects.values()], len(world.subjects))
    while len(asked) < count:
        draw, tries = Draw(seed, "question", tries), tries + 1
        made = _question(world, draw, hops=3 if draw(4) == 0 else 2)
        if made is None or made["question"] in asked:
            continue
        place = 8 * len(asked)
        gold = {title for title, _ in made["context"]}
        beside = [order[(place + more) % len(order)] for more in range(10)]
        others = [subject for subject in beside if subject.title not in gold][: 10 - len(gold)]
        made["context"] = _some(draw, made["context"] + [_context(subject) for subject in others], 10)
        asked.add(made["question"])
        yield {"_id": f"multi-hop-{seed}-{len(asked)}", **made}


def _question(world: World, draw: Draw, hops: int) -> dict[str, Any] | None:
    """Draw a question; None where the answer or a link shows before its hop."""
    chains = paths(hops)
    kind, path = chains[draw(len(chains))]
    key: Key | None = (kind, draw(SIZES[kind]))
    called, way, facts = world.subjects[key].title, [], []
    for relation in path:
        assert key is not None
        subject = world.subjects[key]
        templates = _templates(key[0], relation, asks=len(way) == hops - 1)
        called = templates[draw(len(templates))].format(x=called)
        way.append(subject)
        facts.append([subject.title, subject.stated[relation]])
        answer, key = subject.relations[relation]
    before = [called, *(text for subject in way[:-1] for text in subject.sentences)]
    if len({subject.title for subject in way}) < hops or any(answer in text for text in before):
        return None
    if any(subject.title in called for subject in way[1:]):
        return None
    context = [_context(subject) for subject in way]
    return {"question": called, "answer": answer, "type": f"{hops} hops", "supporting_facts": facts, "context": context}


def _context(subject: Subject) -> list[Any]:
    return [subject.title, [f"{' ' if place else ''}{text}" for place, text in enumerate(subject.sentences)]]


SPANS = {"retriever": "spans"}
METHODS: dict[str, Any] = {
    "naive RAG": {"retrieve": {"retriever": "passage", "top_k": 10}},
    "ParetoRAG": {"retrieve": {"retriever": "core_context", "top_k": 40}},
    "spans": {"retrieve": SPANS, "refine": {"refiner": "spans"}},
    "spans, no stop": {"retrieve": SPANS, "refine": {"refiner": "spans", "stop": 1}},
    "two hops": {"retrieve": {**SPANS, "hops": 2}, "refine": {"refiner": "spans"}},
    "two hops, no stop": {"retrieve": {**SPANS, "hops": 2}, "refine": {"refiner": "spans", "stop": 1}},
}
PAIRS = (("two hops", "spans"), ("two hops, no stop", "spans, no stop"), ("two hops", "spans, no stop"))
BUDGETS = (120, 300)
WORLDS = {"development": DEVELOPMENT, "test": TEST}
WIKI = f"titletext:{REAL['titletext']}"


def datasets(name: str, store: Path) -> tuple[str, ...]:
    """Return the data sets of a corpus; a world is written beside the store."""
    if name in WORLDS:
        path = store.with_name(f"{store.name}-{name}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([*questions(WORLDS[name], 400)]), encoding="utf-8")
        return (f"hotpotqa:{path}",)
    real = {"HotpotQA": (f"hotpotqa:{REAL['hotpotqa']}", WIKI), "NQ": (f"ctxs:{NQ}", WIKI)}
    return real.get(name, (f"squad:{REAL['squad']}",))


def run(store: Path, name: str, count: int) -> Results:
    index(datasets=datasets(name, store), name=name.lower(), store=store, bm25={"enabled": True})
    where = f"len(list_intersect(titles, {sql_list(held_out())})) > 0" if name == "SQuAD" else "len(answers) > 0"
    metrics = ["supporting_facts", "answer_recall", "tokens"] + ([] if name in WORLDS else ["accuracy"])
    settings: dict[str, Any] = {
        "refine": {"max_tokens": [*BUDGETS]},
        "baseline": f"naive RAG max_tokens={BUDGETS[0]}",
        "score": {"metrics": metrics, "k": [10]},
        "methods": METHODS,
    }
    given: dict[str, Any] = {"generate": None} if name in WORLDS else {}
    asked = {"where": where, "sample": count}
    outcome = evaluated("multi_hop", settings, store, index=name.lower(), questions=asked, **given)
    return method_results(store, outcome.run, Evaluate.model_validate(outcome.run.config))


def figures(name: str, results: Results) -> Iterator[list[str]]:
    """Yield a row for every method and budget, and one for every pair at a budget."""
    scores = {method.name: results.scores[method.name] for method in results.methods}
    for budget in BUDGETS:
        for method in METHODS:
            own = scores[f"{method} max_tokens={budget}"]
            cells = [_mean(own, metric) for metric in ("sp_recall", "accuracy", "context_tokens")]
            yield [name, str(budget), method, f"{len(own.ids)}", *cells]
        for method, other in PAIRS:
            one, two = (scores[f"{each} max_tokens={budget}"] for each in (method, other))
            cells = [_difference(two, one, metric) for metric in ("sp_recall", "accuracy")]
            yield [name, str(budget), f"{method} − {other}", f"{len(one.ids)}", *cells, ""]


def _mean(scores: QuestionScores, metric: str) -> str:
    values = scores.values.get(metric)
    return "" if values is None else f"{np.nanmean(values):.0f}" if "tokens" in metric else f"{np.nanmean(values):.3f}"


def _difference(base: QuestionScores, scores: QuestionScores, metric: str) -> str:
    if metric not in base.values:
        return ""
    return difference(base.values[metric], scores.values[metric])


def main() -> None:
    known = [*WORLDS, "HotpotQA", "NQ", "SQuAD"]
    parser = options(__doc__, Path("build/bench/multi_hop"))
    parser.add_argument("corpora", nargs="*", metavar="CORPUS", help=f"of {', '.join(known)}; default: all")
    parser.add_argument("--questions", type=int, default=400, help="of a corpus, at most")
    given = parser.parse_args()
    heads = ["corpus", "budget", "method", "questions", "facts recall", "accuracy", "tokens"]
    runs = ((name, run(given.store, name, given.questions)) for name in given.corpora or known)
    show(heads, (row for name, results in runs for row in figures(name, results)))


if __name__ == "__main__":
    main()
