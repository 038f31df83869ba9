"""A small file in SQuAD's format: one article per town."""

import json
from collections.abc import Sequence
from pathlib import Path

TOWNS = ("Velmar", "Kessin", "Orrel", "Tamsin", "Dunmore", "Harrow")


def towns(path: Path, names: Sequence[str] = TOWNS) -> Path:
    articles = []
    for number, town in enumerate(names):
        year, people = 1700 + 7 * number, 100 * (number + 3)
        context = f"{town} lies on a river. The mill was built in {year}. Now {people} people live in {town}."
        qas = [("When was the mill built?", str(year)), (f"How many people live in {town}?", str(people))]
        entries = [
            {"id": f"{number}/{q}", "question": q, "answers": [{"text": a, "answer_start": context.index(a)}]}
            for q, a in qas
        ]
        articles.append({"title": town, "paragraphs": [{"context": context, "qas": entries}]})
    path.write_text(json.dumps({"data": articles}))
    return path
