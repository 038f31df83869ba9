"""Questions with the spans of their answers, and their passages split into sentences: for reader and critic."""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from vitalfew.configs.training import SplitBy
from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import InputError, Passage, Question, Record
from vitalfew.tasks.splitters.base import sample
from vitalfew.tasks.splitters.punkt import Punkt
from vitalfew.tasks.trainers.splits import SplitRule, TrainingSplit

SAMPLE_CHARS = 2_000_000
"""The maximal size of the sample that the sentence splitter is trained on."""

CharSpan = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Text:
    """A passage and the half-open character ranges of its sentences."""

    article: str
    text: str
    sentences: tuple[CharSpan, ...]


@dataclass(frozen=True, slots=True)
class MarkedQuestion:
    """A question, its gold answers, and their half-open character ranges in its passage."""

    question: str
    answers: tuple[str, ...]
    passage: int
    spans: tuple[CharSpan, ...]
    group: str = ""
    """The group by which it is split (splits.py)."""


@dataclass(frozen=True)
class Material:
    """Passages by id, and the questions on them."""

    passages: dict[int, Text]
    questions: list[MarkedQuestion]

    def grouped(self, rule: SplitRule) -> "Material":
        """The material with the questions' groups."""
        articles = [self.passages[asked.passage].article for asked in self.questions]
        pairs = zip(self.questions, articles, strict=True)
        return replace(self, questions=[replace(one, group=rule.group(one.question, name)) for one, name in pairs])

    def learnt(self, rule: SplitRule, split: TrainingSplit) -> "Material":
        """The questions to learn from, and the passages that may be read in training."""
        return self._part(
            [asked for asked in self.questions if asked.group not in split.unseen],
            {number for number, text in self.passages.items() if rule.is_apart(number, text.article, split)},
        )

    def of(self, groups: Iterable[str], by: SplitBy = "article") -> "Material":
        """The questions of these groups with all passages; by article, with those of these articles."""
        kept = set(groups)
        if by != "article":
            return self._part([asked for asked in self.questions if asked.group in kept], set())
        return self._part(self.questions, {n for n, text in self.passages.items() if text.article not in kept})

    def _part(self, questions: list[MarkedQuestion], without: set[int]) -> "Material":
        """These questions, as far as their passages are left."""
        passages = {number: text for number, text in self.passages.items() if number not in without}
        return Material(passages, [asked for asked in questions if asked.passage in passages])

    def sample(self, size: int, seed: int) -> list[MarkedQuestion]:
        """`size` random questions, or all in their order if there are no more."""
        return self.questions if size >= len(self.questions) else random.Random(seed).sample(self.questions, size)

    @property
    def groups(self) -> set[str]:
        """The groups of the questions."""
        return {asked.group for asked in self.questions}


def read_material(records: Iterable[Record]) -> Material:
    """The passages, and the questions that have an answer in one. Raises InputError if there is none."""
    passages: dict[int, Passage] = {}
    questions: list[Question] = []
    for record in records:
        if isinstance(record, Passage):
            passages.setdefault(passage_id(record.text), record)
        elif isinstance(record, Question):
            questions.append(record)
    asked = [asked for question in questions for asked in _asked(question, passages)]
    if not asked:
        raise InputError(
            "no question has its answer marked in its passage: reader and critic need datasets like "
            "squad, whose supporting facts are spans of passages"
        )
    splitter = Punkt(Punkt.Options())
    splitter.load(splitter.train(sample((passage.text for passage in passages.values()), SAMPLE_CHARS)))
    texts = {
        number: Text(passage.title, passage.text, tuple(splitter.split(passage.text)))
        for number, passage in passages.items()
    }
    return Material(texts, asked)


def _asked(question: Question, passages: dict[int, Passage]) -> Iterator[MarkedQuestion]:
    """A question for every passage that has the answer within its supporting facts."""
    for number in filter(passages.__contains__, question.gold_passages):
        text = passages[number].text
        facts = [(fact.start, fact.end) for fact in question.supporting_facts if fact.passage_id == number]
        spans = dict.fromkeys(span for fact in facts for span in _spans(text, fact, {*question.answers}))
        if spans:
            yield MarkedQuestion(question.text, question.answers, number, tuple(spans))


def _spans(text: str, fact: CharSpan, answers: set[str]) -> list[CharSpan]:
    """The supporting fact itself if it is an answer, as in SQuAD; else the answers in it, as whole words."""
    start, end = fact
    if text[start:end] in answers:
        return [fact]
    pattern = "|".join(rf"(?<!\w){re.escape(answer)}(?!\w)" for answer in sorted(answers, key=len, reverse=True))
    return [match.span() for match in re.compile(pattern).finditer(text, start, end)] if answers else []


def contains_answer(text: str, answers: Sequence[str]) -> bool:
    folded = text.lower()
    return any(answer.lower() in folded for answer in answers)
