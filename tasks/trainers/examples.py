"""Training examples from questions: a question with a context that has its answer, or with a distractor.

A context is a run of sentences, as retrieval returns them: one sentence (ParetoRAG), a whole passage, or something in
between. Distractors are drawn from the answer's own passage, from its article, and from the passages that BM25
retrieves for the question anywhere else; no distractor contains the text of an answer.
"""

import logging
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import bm25s

from vitalfew.tasks.retrievers.words import words
from vitalfew.tasks.trainers.articles import Asked, CharSpan, Material, Text, contains_answer

logging.getLogger("bm25s").setLevel(logging.WARNING)  # otherwise it logs every index

HARD = 9
"""Passages that BM25 retrieves for a question: the hardest distractors."""
SHAPES = ("sentence", "passage", "run")
SHAPE_WEIGHTS = (0.5, 0.2, 0.3)


@dataclass(frozen=True, slots=True)
class Example:
    """`spans`: half-open character ranges of the answer in the context; empty if the context lacks the answer."""

    question: str
    context: str
    spans: tuple[CharSpan, ...] = ()


@dataclass
class Sampler:
    """Draws different contexts for every pass over the questions. The same seed and pass give the same examples."""

    material: Material
    negatives: float
    seed: int
    hard: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.hard = hard_passages(self.material)
        self.articles: dict[str, list[int]] = {}
        for number, text in self.material.passages.items():
            self.articles.setdefault(text.article, []).append(number)

    def examples(self, epoch: int) -> Iterator[tuple[Asked, Example]]:
        """The examples of one pass, with the question that an example comes from."""
        draw = random.Random(f"{self.seed}/{epoch}")
        for row, asked in enumerate(self.material.questions):
            text = self.material.passages[asked.passage]
            yield asked, with_answer(asked, text, draw)
            count = int(self.negatives) + (draw.random() < self.negatives % 1)
            for _ in range(count):
                context = self._distractor(row, asked, draw)
                if not contains_answer(context, asked.answers):
                    yield asked, Example(asked.question, context)

    def _distractor(self, row: int, asked: Asked, draw: random.Random) -> str:
        kind = draw.random()
        if kind < 0.4:
            text = self.material.passages[asked.passage]
            others = [
                sentence for sentence in text.sentences if not any(_overlap(sentence, span) for span in asked.spans)
            ]
            if others:
                start, end = draw.choice(others)
                return text.text[start:end]
        near = self.articles[self.material.passages[asked.passage].article]
        pool = self.hard[row] if kind < 0.8 and self.hard[row] else near
        text = self.material.passages[draw.choice(pool)]
        first = draw.randrange(len(text.sentences))
        return _run(text, first, first, draw)[0]


def with_answer(asked: Asked, text: Text, draw: random.Random) -> Example:
    """The question with sentences of its passage that contain one of its answers in full."""
    start, end = draw.choice(asked.spans)
    touched = [number for number, sentence in enumerate(text.sentences) if _overlap(sentence, (start, end))]
    context, offset = _run(text, touched[0], touched[-1], draw)
    inside = [(first - offset, last - offset) for first, last in asked.spans]
    return Example(asked.question, context, tuple(span for span in inside if span[0] >= 0 and span[1] <= len(context)))


def _run(text: Text, first: int, last: int, draw: random.Random) -> tuple[str, int]:
    """Sentences `first` to `last`, with none, some or all of the sentences around them, and their first character."""
    shape = draw.choices(SHAPES, SHAPE_WEIGHTS)[0]
    if shape == "passage":
        first, last = 0, len(text.sentences) - 1
    elif shape == "run":
        first, last = draw.randint(0, first), draw.randint(last, len(text.sentences) - 1)
    start, end = text.sentences[first][0], text.sentences[last][1]
    return text.text[start:end].rstrip(), start


def _overlap(one: CharSpan, other: CharSpan) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def hard_passages(material: Material) -> list[list[int]]:
    """For every question, the passages without its answer that BM25 ranks highest, at most `HARD`."""
    numbers = list(material.passages)
    rankings = ranked([text.text for text in material.passages.values()], material.questions, 2 * HARD)
    return [
        _distractors(material, asked, [numbers[place] for place in ranking])
        for asked, ranking in zip(material.questions, rankings, strict=True)
    ]


def ranked(texts: Sequence[str], questions: Sequence[Asked], k: int) -> list[list[int]]:
    """For every question the `k` texts, by number, that BM25 ranks highest, best first."""
    index = bm25s.BM25()
    index.index(words(texts), show_progress=False)
    queries = words([asked.question for asked in questions])
    numbers, _ = index.retrieve(queries, k=min(k, len(texts)), show_progress=False)
    return numbers.tolist()


def _distractors(material: Material, asked: Asked, numbers: Sequence[int]) -> list[int]:
    """The passages without the answer, at most `HARD`."""
    texts = material.passages
    return [number for number in numbers if not contains_answer(texts[number].text, asked.answers)][:HARD]
