"""Questions with passages as retrieval returns them, and the single pass in which a causal model learns from one.

The passages are those that the labeller calls relevant, and distractors. A distractor is one of the passages whose
vectors are nearest to the question's (all-MiniLM-L6-v2), of whatever article, which is neither relevant nor holds an
answer's text. Held-out passages are never retrieved for questions to learn from.

`pack` lays an example out: prefix, blocks, for each block the assess control, then the generate control with the
answer. With attention `block` a block sees the prefix and itself, and all blocks start at the same position (Sparse
RAG, arXiv 2405.16178, section 3.2; PCW). With `full` each also sees the blocks before it, and stands behind them;
ratings are then learnt from copies of the blocks, which nothing else sees. An assess control sees the prefix and its
own block, and nothing sees it. The generate control stands where it would if the blocks had followed one another. So
both tasks of the paper's mixture are learnt from one pass: what is rated and what is answered do not meet.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from vitalfew.configs.evaluation import LabelConfig
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.encoders.transformer import MiniLM
from vitalfew.tasks.models.causal.adapters import Span
from vitalfew.tasks.models.causal.controls import Segmenter
from vitalfew.tasks.raters.base import RatedContext, Rater
from vitalfew.tasks.registry import make, with_options
from vitalfew.tasks.trainers.articles import contains_answer
from vitalfew.tasks.trainers.base import Tables


@dataclass(frozen=True, slots=True)
class RetrievedQuestion:
    """A question with gold answers and passages; `article`: the title of its first gold passage."""

    text: str
    answers: tuple[str, ...]
    gold: tuple[int, ...]
    facts: tuple[tuple[int, int, int], ...]
    """Passage, first character, one past the last."""
    article: str


@dataclass(frozen=True, slots=True)
class RetrievedExample:
    """A question with contexts in random order, which of them are relevant, and an answer of it."""

    question: str
    contexts: tuple[str, ...]
    relevant: tuple[bool, ...]
    answer: str


class Retrieved:
    """Passages with their vectors, and the questions on them."""

    def __init__(self, tables: Tables, labeller: str, depth: int) -> None:
        """`depth`: how many passages are retrieved for a question. Raises InputError without questions that have
        answers and gold passages."""
        self.depth = depth
        self.labeller: Rater = make(with_options(LabelConfig(labeller=labeller), "label"), "label")
        self.encoder = MiniLM(MiniLM.Options())
        rows = tables.passages.select(["passage_id", "title", "text"]).to_pylist()
        self.passages = {row["passage_id"]: (row["title"], row["text"]) for row in reversed(rows)}
        self.numbers = np.array([*self.passages])
        self.questions = [question for row in tables.questions.to_pylist() for question in self._question(row)]
        if not self.questions:
            raise InputError("no question has an answer and a gold passage; name data sets like squad or hotpotqa")

    def _question(self, row: Mapping[str, Any]) -> list[RetrievedQuestion]:
        gold = tuple(number for number in row["gold_passages"] if number in self.passages)
        facts = tuple((fact["passage_id"], fact["start"], fact["end"]) for fact in row["supporting_facts"])
        if not gold or not row["answers"]:
            return []
        return [RetrievedQuestion(row["text"], tuple(row["answers"]), gold, facts, self.passages[gold[0]][0])]

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        return self.encoder.encode([text for _, text in self.passages.values()]).vectors

    def examples(
        self,
        questions: Sequence[RetrievedQuestion],
        without: Collection[str],
        sizes: tuple[int, int],
        draw: random.Random,
    ) -> list[RetrievedExample]:
        """Return an example for every question, with a number of contexts between `sizes`.

        `without`: titles of articles whose passages may not be distractors.
        """
        near = self._near(questions, without)
        return [
            self._example(question, numbers, draw.randint(*sizes), draw)
            for question, numbers in zip(questions, near, strict=True)
        ]

    def _near(self, questions: Sequence[RetrievedQuestion], without: Collection[str]) -> list[list[int]]:
        """Return the nearest passages of every question, best first."""
        allowed = np.array([title not in without for title, _ in self.passages.values()])
        places = np.flatnonzero(allowed)
        scores = (
            self.encoder.encode_questions([question.text for question in questions]).vectors @ self.vectors[places].T
        )
        best = np.argsort(-scores, axis=1, kind="stable")[:, : self.depth]
        return [[int(self.numbers[places[place]]) for place in row] for row in best]

    def _example(
        self, question: RetrievedQuestion, near: Sequence[int], size: int, draw: random.Random
    ) -> RetrievedExample:
        pool = list(dict.fromkeys([*question.gold, *near]))
        labels = dict(zip(pool, self._labels(question, pool), strict=True))
        relevant = [number for number in pool if labels[number]]
        others = [
            number
            for number in pool
            if not labels[number]
            and number not in question.gold
            and not contains_answer(self.passages[number][1], question.answers)
        ]
        first = draw.sample(relevant, min(len(relevant), max(1, len(question.gold)), size))
        chosen = first + draw.sample(others, min(len(others), size - len(first)))
        draw.shuffle(chosen)
        return RetrievedExample(
            question.text,
            tuple(self.passages[number][1] for number in chosen),
            tuple(labels[number] for number in chosen),
            draw.choice(question.answers),
        )

    def _labels(self, question: RetrievedQuestion, passages: Sequence[int]) -> list[bool]:
        batch = [
            RatedContext(
                question=question.text,
                context=self.passages[number][1],
                answers=question.answers,
                gold_passages=question.gold,
                passage_id=number,
                title=self.passages[number][0],
                facts=tuple((start, end) for passage, start, end in question.facts if passage == number),
            )
            for number in passages
        ]
        return [(verdict.label or 0) >= 0.5 for verdict in self.labeller.rate(batch)]


Attention = Literal["block", "full"]


@dataclass
class PackedExample:
    """An example in one pass: token ids with their positions, and the layout of their segments. Targets: places of
    tokens, with the id that should come next."""

    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    layout: list[tuple[Span, list[Span]]] = field(default_factory=list)
    ratings: list[tuple[int, int]] = field(default_factory=list)
    answer: list[tuple[int, int]] = field(default_factory=list)

    @property
    def places(self) -> list[int]:
        """The places of all targets, the ratings' first."""
        return [place for place, _ in (*self.ratings, *self.answer)]

    def add(self, ids: Sequence[int], start: int, sees: Sequence[Span] = ()) -> Span:
        """Add a segment whose first token has the position `start`; return its place."""
        span = len(self.ids), len(self.ids) + len(ids)
        self.layout.append((span, list(sees)))
        self.ids += ids
        self.positions += range(start, start + len(ids))
        return span


def pack(
    segmenter: Segmenter, example: RetrievedExample, ratings: bool = True, attention: Attention = "block"
) -> PackedExample:
    """Lay an example out; without `ratings` none is learnt. With attention `full` contexts see those before them."""
    full = attention == "full"
    packed, prompt = PackedExample(), segmenter.segments(example.question, example.contexts)
    prefix, first = packed.add(prompt.prefix, 0), len(prompt.prefix)
    if full:
        shown = [packed.add([token for block in prompt.blocks for token in block], first, [prefix])]
    else:
        shown = [packed.add(block, first, [prefix]) for block in prompt.blocks]
    for number, is_relevant in enumerate(example.relevant if ratings else ()):
        block = prompt.blocks[number]
        rated = packed.add(block, first, [prefix]) if full else shown[number]
        packed.add(segmenter.assess, first + len(block), [prefix, rated])
        packed.ratings.append((len(packed.ids) - 1, segmenter.yes if is_relevant else segmenter.no))
    said = segmenter.answer(example.answer)
    behind = first + sum(map(len, prompt.blocks))
    packed.add([*segmenter.generate, *said[:-1]], behind, [prefix, *shown])
    start = len(packed.ids) - len(said)
    packed.answer = [(start + number, token) for number, token in enumerate(said)]
    return packed
