"""Questions with the spans of their answers, and their passages split into sentences: for reader and critic."""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import InputError, Passage, Question, Record
from vitalfew.tasks.splitters.punkt import Punkt

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


@dataclass(frozen=True)
class Material:
    """Passages by id, and the questions on them."""

    passages: dict[int, Text]
    questions: list[MarkedQuestion]

    def without(self, articles: Iterable[str]) -> "Material":
        """Return the material without these articles and their questions."""
        gone = set(articles)
        passages = {number: text for number, text in self.passages.items() if text.article not in gone}
        return Material(passages, [asked for asked in self.questions if asked.passage in passages])

    def sample(self, size: int, seed: int) -> list[MarkedQuestion]:
        """Return `size` random questions, or all in their order if there are no more."""
        return self.questions if size >= len(self.questions) else random.Random(seed).sample(self.questions, size)

    def titles(self) -> set[str]:
        """Titles of the articles with questions."""
        return {self.passages[asked.passage].article for asked in self.questions}

    def of(self, articles: Iterable[str]) -> "Material":
        return self.without({text.article for text in self.passages.values()} - set(articles))


def read_material(records: Iterable[Record]) -> Material:
    """Return the passages, and the questions that have an answer in one. Raises InputError if there is none."""
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
    return Material(_split(passages), asked)


def _asked(question: Question, passages: dict[int, Passage]) -> Iterator[MarkedQuestion]:
    """Yield a question for every passage that has the answer within its supporting facts."""
    answers = set(question.answers)
    for number in question.gold_passages:
        if number not in passages:
            continue
        text = passages[number].text
        facts = [(fact.start, fact.end) for fact in question.supporting_facts if fact.passage_id == number]
        spans = dict.fromkeys(span for fact in facts for span in _spans(text, fact, answers))
        if spans:
            yield MarkedQuestion(question.text, question.answers, number, tuple(spans))


def _spans(text: str, fact: CharSpan, answers: set[str]) -> list[CharSpan]:
    """Return the supporting fact itself if it is an answer, as in SQuAD; else the answers in it, as whole words."""
    start, end = fact
    if text[start:end] in answers:
        return [fact]
    pattern = "|".join(rf"(?<!\w){re.escape(answer)}(?!\w)" for answer in sorted(answers, key=len, reverse=True))
    return [match.span() for match in re.compile(pattern).finditer(text, start, end)] if answers else []


def _split(passages: dict[int, Passage]) -> dict[int, Text]:
    splitter = Punkt(Punkt.Options())
    splitter.load(splitter.train(_sample(passages.values())))
    return {
        number: Text(passage.title, passage.text, tuple(splitter.split(passage.text)))
        for number, passage in passages.items()
    }


def _sample(passages: Iterable[Passage]) -> Iterator[str]:
    left = SAMPLE_CHARS
    for passage in passages:
        if left <= 0:
            return
        yield passage.text[:left]
        left -= len(passage.text)


class ArticleSplit(NamedTuple):
    """Titles of the articles that are held out of the training, and of the articles that choose the weights."""

    held_out: Sequence[str]
    choosing: Sequence[str]

    @property
    def unseen(self) -> set[str]:
        """Titles of the articles that the training does not learn from."""
        return {*self.held_out, *self.choosing}


def split_articles(articles: Iterable[str], held_out: int, choosing: int, seed: int, section: str = "") -> ArticleSplit:
    """Choose articles at random.

    `articles`: titles of those with questions, in any order and repeated or not; `section`: of the settings, for the
    message. Raises InputError if too few are left to learn from.
    """
    titles = sorted(set(articles))
    if len(titles) <= held_out + choosing:
        path = f"{section}." if section else ""
        raise InputError(
            f"{len(titles)} articles have questions, {held_out} are held out and {choosing} choose the "
            f"weights: no article is left to learn from. Use --set {path}held_out=1 {path}choosing=1, or "
            "name more data"
        )
    random.Random(seed).shuffle(titles)
    return ArticleSplit(sorted(titles[:held_out]), sorted(titles[held_out : held_out + choosing]))


def contains_answer(text: str, answers: Sequence[str]) -> bool:
    folded = text.lower()
    return any(answer.lower() in folded for answer in answers)
