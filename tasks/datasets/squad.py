"""SQuAD v1.1 and v2.0: Wikipedia paragraphs with questions whose answers are spans of the paragraph.

Format: Rajpurkar et al., "SQuAD", EMNLP 2016 (arXiv 1606.05250). Two deviations: a paragraph loses its outer white
space and the spans move with it, so that the same text has the same id in every format; and the unanswerable questions
of v2.0 are kept, with no answers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import InputError, Passage, Question, Record, Reject, Span
from vitalfew.tasks.datasets.files import (
    FileDataset,
    RowError,
    check_text,
    id_of,
    kind_of,
    list_of,
    object_of,
    stream_json,
    text_of,
    value_of,
)

_EXPECTS = 'the JSON of SQuAD: {"data": [{"title", "paragraphs"}, ...]}'


@dataclass(frozen=True, slots=True)
class _Paragraph:
    """A paragraph as the file has it, to which its answers' offsets refer, and the id of its passage."""

    context: str
    passage: int


class Squad(FileDataset):
    """Paragraphs and questions of SQuAD v1.1 or v2.0.

    An object {"data": [{"title", "paragraphs": [{"context", "qas": [...]}]}]}, where an entry of "qas" is {"id",
    "question", "answers": [{"text", "answer_start"}]}; underscores in titles become spaces. A paragraph comes before
    its questions. The record number is the article's. The supporting facts are the spans of the answers as given:
    `answer_start` is often the first mention of an answer instead of the intended one.
    """

    example: ClassVar[str] = "squad:data/dev-v1.1.json"

    def records(self) -> Iterator[tuple[int, Record]]:
        number = 0
        for number, article in stream_json(self.source(), _EXPECTS, "data"):
            for record in _records_of(article):
                yield number, record
        if number == 0:
            raise InputError(f'{self.source()} has no articles in a top-level "data": this format expects {_EXPECTS}')


def _records_of(article: object) -> Iterator[Record]:
    """Yield the paragraphs of one article; a paragraph's questions follow it."""
    try:
        fields = object_of(article)
        title = text_of(fields, "title", blank=True).replace("_", " ").strip()
        paragraphs = list_of(fields, "paragraphs")
    except RowError as error:
        yield error.reject()
        return
    for position, paragraph in enumerate(paragraphs):
        where = f"paragraphs[{position}]"
        try:
            fields = object_of(paragraph)
        except RowError as error:
            yield error.reject(where)
            continue
        yield from _paragraph_records(fields, title, where, f"{title}#{position}")


def _paragraph_records(fields: dict[str, Any], title: str, where: str, name: str) -> Iterator[Record]:
    """Yield a paragraph, then its questions."""
    paragraph = None
    try:
        context = text_of(fields, "context", strip=False)
    except RowError as error:
        yield error.reject(where)
    else:
        text = context.strip()
        paragraph = _Paragraph(context, passage_id(text))
        yield Passage(title, text, name)
    try:
        entries = list_of(fields, "qas")
    except RowError as error:
        yield error.reject(where)
        return
    for position, entry in enumerate(entries):
        yield _question(entry, paragraph, f"{where}.qas[{position}]")


def _question(entry: object, paragraph: _Paragraph | None, where: str) -> Question | Reject:
    try:
        fields = object_of(entry)
        text = text_of(fields, "question")
        if paragraph is None:
            raise RowError("no_gold_passage", "its paragraph was rejected")
        pairs = [_answer(answer) for answer in list_of(fields, "answers")]
        spans = [span for answer, start in pairs if (span := _span_of(answer, start, paragraph)) is not None]
        return Question(
            text=text,
            answers=tuple(dict.fromkeys(answer.strip() for answer, _ in pairs)),
            gold_passages=(paragraph.passage,),
            supporting_facts=tuple(dict.fromkeys(spans)),
            source_id=id_of(fields, "id"),
        )
    except RowError as error:
        return error.reject(where)


def _answer(entry: object) -> tuple[str, int]:
    """Return the text and the offset of an answer, as given. Raises RowError."""
    fields = object_of(entry)
    text = check_text(value_of(fields, "text"), "the text of an answer", strip=False)
    start = value_of(fields, "answer_start")
    if type(start) is not int:
        raise RowError("wrong_type", f"'answer_start' is {kind_of(start)}; expected an integer")
    return text, start


def _span_of(answer: str, start: int, paragraph: _Paragraph) -> Span | None:
    """Return the span of an answer, without outer white space; None if the answer is not at its offset."""
    # A negative offset would count from the end.
    if start < 0 or not paragraph.context.startswith(answer, start):
        return None
    context = paragraph.context
    left_out = len(context) - len(context.lstrip())
    first = start + len(answer) - len(answer.lstrip()) - left_out
    return Span(paragraph.passage, first, first + len(answer.strip()))
