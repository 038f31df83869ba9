"""A small invented corpus for the golden tests: twenty places in a valley, a text and two questions on each.

It is written here, by sentences of three kinds, so that no data set and no version of Python changes it.
"""

import json
from pathlib import Path

PLACES = (
    ("Aldmere", "Ouvel", "Ada Winter", "wool"), ("Brannock", "Tey", "Bo Lind", "glass"),
    ("Corvale", "Ouvel", "Cleo Marsh", "paper"), ("Dunsford", "Esk", "Dag Thorne", "salt"),
    ("Elmstead", "Tey", "Eve Sands", "pottery"), ("Farrow", "Esk", "Finn Okoro", "rope"),
    ("Glenholt", "Ouvel", "Greta Moss", "clocks"), ("Harrowby", "Tey", "Hugo Vane", "cheese"),
    ("Ingleby", "Esk", "Ida Frost", "lace"), ("Jarnley", "Ouvel", "Jon Reed", "tiles"),
    ("Kelmarsh", "Tey", "Kira Holt", "candles"), ("Lowick", "Esk", "Lars Penn", "knives"),
    ("Marwood", "Ouvel", "Mina Clay", "honey"), ("Norbury", "Tey", "Nils Ward", "leather"),
    ("Ottery", "Esk", "Olga Dale", "bells"), ("Penrith Cross", "Ouvel", "Per Stone", "linen"),
    ("Quarley", "Tey", "Quinn Ash", "boats"), ("Rothwell", "Esk", "Rosa Lane", "bricks"),
    ("Selby Down", "Ouvel", "Sven Hill", "apples"), ("Tarrant", "Tey", "Tess Brook", "violins"),
)  # fmt: skip
"""Name, river, the person that everything is about, and what the place makes."""

OPENINGS = (
    "{place} lies on the {river}, below the hills.",
    "{place} stands on a bend of the {river}.",
    "{place} is a small place above the {river}.",
)
FOUNDINGS = (
    "It was founded in {year} by {person}.",
    "{person} founded it in {year}, after a flood.",
    "In {year} a charter was granted to {person}, its founder.",
)
CRAFTS = (
    "Its people make {craft} and sell it at a fair in autumn.",
    "The town is known for its {craft}.",
    "Most families live by making {craft}; two workshops are left.",
)
BRIDGES = (
    "The old bridge has {arches} arches and was rebuilt in {rebuilt}.",
    "A bridge of {arches} arches carries the only road.",
    "Visitors cross a bridge with {arches} arches, which the ice once broke.",
)
ENDINGS = (
    "At the last count {people} people lived there.",
    "The last census found {people} inhabitants.",
    "It has {people} inhabitants.",
)
ADDITIONS = (
    "", " indeed", ", they say", ", as records tell", ", so its people say", ", as far as one knows",
    ", if its oldest books are right",
)  # fmt: skip
"""Ends of sentences, all of other lengths, so that sentences of a kind are not equally good for a keyword."""
ASKED = (
    ("In which year was {place} founded?", "{year}"),
    ("Who founded {place}?", "{person}"),
    ("What is {place} known for making?", "{craft}"),
    ("How many arches does the bridge of {place} have?", "{arches}"),
    ("How many people live in {place}?", "{people}"),
)


def write_valley(path: Path) -> Path:
    """Write the corpus as a file in SQuAD's format: 20 articles of one paragraph, 40 questions."""
    path.write_text(json.dumps({"data": [_article(number) for number in range(len(PLACES))]}), encoding="utf-8")
    return path


def _article(number: int) -> dict[str, object]:
    place, river, person, craft = PLACES[number]
    facts = {
        "place": place, "river": river, "person": person, "craft": craft, "year": 1204 + 17 * number,
        "rebuilt": 1650 + 9 * number, "arches": ("three", "four", "five", "seven", "nine")[number * 3 % 5],
        "people": 310 + 47 * number,
    }  # fmt: skip
    kinds = (OPENINGS, FOUNDINGS, CRAFTS, BRIDGES, ENDINGS)
    addition = ADDITIONS[number // 3]
    sentences = [kind[(number + place) % 3] for place, kind in enumerate(kinds)]
    text = " ".join([sentences[0], *(f"{each[:-1]}{addition}." for each in sentences[1:4]), sentences[4]])
    text = text.format(**facts)
    qas = []
    for offset in (0, 2):
        question, answer = (part.format(**facts) for part in ASKED[(number + offset) % len(ASKED)])
        half = ("development", "test")[(number + offset // 2) % 2]
        answers = [{"text": answer, "answer_start": text.index(answer)}]
        qas.append({"id": f"{half}/{number:02}", "question": question, "answers": answers})
    return {"title": place, "paragraphs": [{"context": text, "qas": qas}]}
