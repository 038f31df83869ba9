"""Questions with passages as retrieval returns them, and the single pass in which a causal model learns from one.

Where a file ranks the passages of every question (`run_file`), or a run has labelled them (`labels`), an example has
the first of them in that order, as Sparse RAG's data have it. Else the passages are those that the labeller calls
relevant, and distractors, in random order: of the passages whose vectors are nearest to the question's
(all-MiniLM-L6-v2), those that are neither relevant nor hold an answer's text. Held-out passages are never retrieved for
questions to learn from. A passage that the labeller cannot label is left out.

`pack` lays an example out: prefix, blocks, for each block the assess control, then the generate control with the
answer. With attention `block` a block sees the prefix and itself, and all blocks start at the same position (Sparse
RAG, arXiv 2405.16178, section 3.2; PCW). With `full` each also sees the blocks before it, and stands after them;
ratings are then learnt from copies of the blocks, which nothing else sees. An assess control sees the prefix and its
own block, and nothing sees it. The generate control stands where it would if the blocks had followed one another. So
both tasks of the paper's mixture are learnt from one pass.
"""

import logging
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, SerializeAsAny

from vitalfew.configs.evaluation import LabelConfig
from vitalfew.configs.section import NOT_IN_FINGERPRINT, AbsolutePath
from vitalfew.configs.training import ArticleOptions
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.encoders.transformer import MiniLM
from vitalfew.tasks.models.causal.adapters import Span
from vitalfew.tasks.models.causal.controls import Segmenter
from vitalfew.tasks.raters.base import RatedContext, Rater
from vitalfew.tasks.raters.recorded import GoldPassage
from vitalfew.tasks.retrievers.base import QuestionBatch
from vitalfew.tasks.retrievers.run_file import RunFile
from vitalfew.tasks.trainers.articles import contains_answer
from vitalfew.tasks.trainers.base import Tables
from vitalfew.tasks.trainers.splits import SplitRule, TrainingSplit

logger = logging.getLogger("vitalfew")


def _several(given: Any) -> Any:
    """Return a list of files, which may be given as one file."""
    return () if given is None else (given,) if isinstance(given, str | Path) else given


class RetrievedOptions(ArticleOptions):
    """Where the contexts of a question come from, and what decides which of them are relevant."""

    label: SerializeAsAny[LabelConfig] = Field(
        LabelConfig(), description="Labeller that decides which contexts are relevant, with its settings."
    )
    run_file: Annotated[tuple[AbsolutePath, ...], BeforeValidator(_several), NOT_IN_FINGERPRINT] = Field(
        (),
        description="File of rankings, or a list of files, in a format of retriever run_file: a TREC run, questions "
        "with ctxs, or HotpotQA. The first passages of a question are its contexts. Default: relevant passages and "
        "distractors.",
    )
    retrieved: int = Field(20, ge=1, description="Nearest passages per question from which distractors are drawn.")

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "label": self.label.identity()}

    def recipe(self) -> dict[str, Any]:
        return {**super().recipe(), **({"run_file": [*map(str, self.run_file)]} if self.run_file else {})}


@dataclass(frozen=True, slots=True)
class RetrievedQuestion:
    """A question as a labeller is asked about it, without a context; `group`: by which it is split; `facts`: passage,
    first character, one past the last."""

    question_id: int
    asked: RatedContext
    facts: tuple[tuple[int, int, int], ...]
    group: str


@dataclass(frozen=True, slots=True)
class RetrievedExample:
    """A question with contexts, which of them are relevant, and an answer of it."""

    question: str
    contexts: tuple[str, ...]
    relevant: tuple[bool, ...]
    answer: str


class Retrieved:
    """Passages, the questions on them, and the contexts of a question."""

    def __init__(self, tables: Tables, depth: int, rule: SplitRule, labeller: Rater, runs: Sequence[RunFile]) -> None:
        """`depth`: how many passages are retrieved for a question; `labeller`: decides what is relevant, unless
        `tables` have labels; `runs`: rank the passages. Raises InputError where no question can be learnt from."""
        self.depth, self.rule = depth, rule
        self.labeller = labeller if tables.labels is None else None
        self.encoder = MiniLM(MiniLM.Options())
        rows = tables.passages.select(["passage_id", "title", "text"]).to_pylist()
        self.passages = {row["passage_id"]: (row["title"], row["text"]) for row in reversed(rows)}
        self.numbers = np.array([*self.passages])
        self.known: dict[tuple[int, int], bool | None] = {}
        """Labels by question and passage; None: it has no label."""
        asked = tables.questions.to_pylist()
        self.rankings: dict[int, list[int]] | None = None
        """The passages of questions by the question's id, best first, where a file or the labels rank them."""
        if tables.labels is not None:
            self.rankings = self._labelled(tables.labels, asked)
        if runs:
            self.rankings = self._ranked(runs, tables, asked)
        self.questions = [question for row in asked for question in self._question(row)]
        self._check(asked)

    def _question(self, row: Mapping[str, Any]) -> list[RetrievedQuestion]:
        gold = tuple(number for number in row["gold_passages"] if number in self.passages)
        facts = tuple((fact["passage_id"], fact["start"], fact["end"]) for fact in row["supporting_facts"])
        is_found = self.rankings is None or bool(self.rankings.get(row["question_id"]))
        if not row["answers"] or not is_found or (self.rule.by == "article" and not gold):
            return []
        titles = [self.passages[number][0] for number in gold]
        asked = RatedContext(
            question=row["text"],
            context="",
            answers=tuple(row["answers"]),
            gold_passages=gold,
            gold_titles=tuple(dict.fromkeys(filter(None, titles))),
        )
        group = self.rule.group(row["text"], titles[0] if titles else "")
        return [RetrievedQuestion(row["question_id"], asked, facts, group)]

    def _check(self, asked: Sequence[Mapping[str, Any]]) -> None:
        """Raises InputError."""
        if not any(row["answers"] for row in asked):
            raise InputError(f"none of {len(asked)} questions has a gold answer; name data sets with answers")
        if not self.questions:
            raise InputError(
                f"none of {len(asked)} questions has an answer, a ranking and, to split by article, a gold "
                "passage. Name data sets like squad or hotpotqa, or use --set split=question"
            )
        if isinstance(self.labeller, GoldPassage) and not any(one.asked.gold_passages for one in self.questions):
            raise InputError(
                "labeller gold calls gold passages relevant, but no question has any; use --set "
                "label.labeller=answer_text, or the labels of a run: --set labels=RUN"
            )
        if left := len(asked) - len(self.questions):
            logger.warning("%d of %d questions are left out: without answers or contexts", left, len(asked))

    def _labelled(self, labels: pa.Table, asked: Sequence[Mapping[str, Any]]) -> dict[int, list[int]]:
        """Remember the labels of these questions; returns their labelled passages. Raises InputError."""
        wanted = {row["question_id"] for row in asked}
        rankings: dict[int, list[int]] = {}
        for row in labels.select(["question_id", "passage_id", "label"]).to_pylist():
            question, passage, label = row["question_id"], row["passage_id"], row["label"]
            if question not in wanted:
                continue
            if passage not in self.passages:
                raise InputError(
                    f"labels: passage {passage}, which was labelled for question {question}, is not among the "
                    "passages of this training. Name the data sets that were searched: --passages FORMAT:PATH"
                )
            self.known[question, passage] = None if label is None else label >= 0.5
            if label is not None:
                rankings.setdefault(question, []).append(passage)
        if not rankings:
            raise InputError(
                f"labels: none of the {len(wanted)} questions of this training has a label in that run. Name the data "
                "sets whose questions it asked, and their passages"
            )
        return rankings

    def _ranked(
        self, runs: Sequence[RunFile], tables: Tables, asked: Sequence[Mapping[str, Any]]
    ) -> dict[int, list[int]]:
        """The passages of these questions as the first file that has the question ranks them. Raises InputError."""
        rows = tables.passages.select(["passage_id", "source_id", "also"]).to_pylist()
        called = {name: row["passage_id"] for row in reversed(rows) for name in (row["source_id"], *row["also"])}
        called |= {str(row["passage_id"]): row["passage_id"] for row in rows}
        keys = [(str(row["question_id"]), row["source_id"]) for row in asked]
        questions = QuestionBatch([row["text"] for row in asked], self._encoded, keys)
        rankings: dict[int, list[int]] = {}
        for run in runs:
            for place, ranking in run.rankings(questions).items():
                if lacking := [ranked for ranked in ranking if ranked.passage not in called]:
                    raise InputError(
                        f"{run.file}, line {lacking[0].number}: passage {lacking[0].passage!r} is not among the "
                        "passages of this training; name the file itself, or what was ranked: --passages ctxs:FILE"
                    )
                rankings.setdefault(asked[place]["question_id"], [called[ranked.passage] for ranked in ranking])
        if not any(rankings.values()):
            raise InputError(
                f"{', '.join(str(run.file) for run in runs)} ranks passages for none of the {len(asked)} questions. "
                "It must name questions by the id or the text that they have in their data set"
            )
        return rankings

    def _encoded(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.encoder.encode_questions(texts).vectors

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        return self.encoder.encode([text for _, text in self.passages.values()]).vectors

    def apart(self, split: TrainingSplit) -> set[int]:
        """The passages that may not be distractors in training."""
        return {number for number, (title, _) in self.passages.items() if self.rule.is_apart(number, title, split)}

    def examples(
        self,
        questions: Sequence[RetrievedQuestion],
        without: Collection[int],
        sizes: tuple[int, int],
        draw: random.Random,
    ) -> list[RetrievedExample]:
        """An example for every question that has contexts, with a number of them between `sizes`. `without`: passages
        that may not be distractors."""
        near = self._near(questions, without) if self.rankings is None else [[] for _ in questions]
        examples = []
        for question, nearest in zip(questions, near, strict=True):
            size = draw.randint(*sizes)
            if self.rankings is None:
                labels = self._drawn(question, nearest, size, draw)
            else:
                labels = self._labels(question, self.rankings[question.question_id][:size])
            contexts = tuple(self.passages[number][1] for number in labels)
            answer = draw.choice(question.asked.answers)
            examples.append(RetrievedExample(question.asked.question, contexts, tuple(labels.values()), answer))
        return [example for example in examples if example.contexts]

    def _near(self, questions: Sequence[RetrievedQuestion], without: Collection[int]) -> list[list[int]]:
        """The nearest passages of every question, best first."""
        allowed = np.array([number not in without for number in self.passages])
        places = np.flatnonzero(allowed)
        scores = self._encoded([question.asked.question for question in questions]) @ self.vectors[places].T
        best = np.argsort(-scores, axis=1, kind="stable")[:, : self.depth]
        return [[int(self.numbers[places[place]]) for place in row] for row in best]

    def _drawn(
        self, question: RetrievedQuestion, near: Sequence[int], size: int, draw: random.Random
    ) -> dict[int, bool]:
        """Relevant passages and distractors in random order, with their labels."""
        gold, answers = question.asked.gold_passages, question.asked.answers
        labels = self._labels(question, [*dict.fromkeys([*gold, *near])])
        relevant = [number for number, label in labels.items() if label]
        others = [
            number
            for number, label in labels.items()
            if not label and number not in gold and not contains_answer(self.passages[number][1], answers)
        ]
        first = draw.sample(relevant, min(len(relevant), max(1, len(gold)), size))
        chosen = first + draw.sample(others, min(len(others), size - len(first)))
        draw.shuffle(chosen)
        return {number: labels[number] for number in chosen}

    def _labels(self, question: RetrievedQuestion, passages: Sequence[int]) -> dict[int, bool]:
        """Which of the passages are relevant, of those that have a label; a labeller is asked once."""
        key = question.question_id
        new = [number for number in passages if self.labeller and (key, number) not in self.known]
        batch = []
        for number in new:
            title, text = self.passages[number]
            facts = tuple((start, end) for passage, start, end in question.facts if passage == number)
            batch.append(replace(question.asked, context=text, passage_id=number, title=title, facts=facts))
        for number, verdict in zip(new, self.labeller.rate(batch) if self.labeller and batch else [], strict=True):
            self.known[key, number] = None if verdict.label is None else verdict.label >= 0.5
        labels = {number: self.known.get((key, number)) for number in passages}
        return {number: label for number, label in labels.items() if label is not None}


Attention = Literal["block", "full"]


@dataclass(slots=True)
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
        """Add a segment whose first token has the position `start`; returns its place."""
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
    shown: list[Span] = []
    for block in prompt.blocks:  # one at a time with `full`, too: what a token does not see is not computed
        shown.append(packed.add(block, len(packed.ids) if full else first, [prefix, *(shown if full else ())]))
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
