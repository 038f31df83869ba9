"""Questions generated from any text, for training before the real questions, of which there are few.

Noisy clozes (Lewis et al., 2019, "Unsupervised Question Answering by Cloze Translation", arXiv 1906.04980, sections
2.1-2.3.2): a name or a number is removed from a sentence, a question word for its kind is put in front, and some of the
other words are dropped. Deviations: names and numbers are recognised by their spelling, not by a tagger, and the words
keep their order.
"""

import random
import re
from collections.abc import Iterator

from vitalfew.tasks.trainers.articles import Asked, Material, Text

NAME = r"[A-Z][\w’'-]*(?:(?: (?:of|the|de|and|von|van))* [A-Z][\w’'-]*)*"
NUMBER = r"\d[\d,.]*\d|\d"
CANDIDATE = re.compile(rf"(?<![\w-])(?:{NAME}|{NUMBER})(?![\w-])")
YEAR = re.compile(r"1\d{3}|20\d{2}")
DROPPED = 0.3
"""Share of the words that are left out of a question."""
REACH = 10
"""The maximal number of words on either side of the answer that go into a question."""


def clozes(material: Material, per_passage: int, seed: int) -> list[Asked]:
    """`per_passage` questions on every passage, or fewer if the passage has fewer names and numbers."""
    draw = random.Random(seed)
    return [
        asked
        for number in sorted(material.passages)
        for asked in _of_passage(number, material.passages[number], per_passage, draw)
    ]


def _of_passage(number: int, text: Text, count: int, draw: random.Random) -> Iterator[Asked]:
    gaps = [
        (start, end, match.span())
        for start, end in text.sentences
        for match in CANDIDATE.finditer(text.text, start, end)
        # The first word of a sentence has a capital, name or not.
        if match.start() > start or " " in match.group()
    ]
    for start, end, (first, last) in draw.sample(gaps, min(count, len(gaps))):
        answer = text.text[first:last]
        left, right = text.text[start:first].split()[-REACH:], text.text[last:end].split()[:REACH]
        kept = [word for word in left + right if draw.random() >= DROPPED]
        if kept:
            yield Asked(f"{_question_word(answer, draw)} {' '.join(kept)}?", (answer,), number, ((first, last),))


def _question_word(answer: str, draw: random.Random) -> str:
    if YEAR.fullmatch(answer):
        return draw.choice(("when", "what year", "in what year"))
    if answer[0].isdigit():
        return draw.choice(("how many", "what", "how much"))
    return draw.choice(("who", "what", "where", "which"))
