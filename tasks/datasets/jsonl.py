"""JSON lines: one object a line, with the columns named by options; passages or questions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from tasks.datasets.base import DatasetOptions, Passage, Question, Record
from tasks.datasets.files import (
    FileDataset,
    RowError,
    check_text,
    id_of,
    kind_of,
    open_source,
    parse_line,
    text_of,
    value_of,
)


class JsonLinesOptions(DatasetOptions):
    """Which columns hold what. A column that is named here must be in every row."""

    text: str = Field(default="text", min_length=1, description="column of the passage's text")
    title: str | None = Field(
        default=None,
        min_length=1,
        description="column of the passage's title; if not given, `title` where a row has it",
    )
    id: str | None = Field(
        default=None,
        min_length=1,
        description="column of the row's name or number; if not given, `id` where a row has it",
    )
    question: str | None = Field(
        default=None,
        min_length=1,
        description="column of the question; if given, the rows are questions and not passages",
    )
    answers: str | None = Field(
        default=None,
        min_length=1,
        description="column of the gold answer or the list of them; if not given, `answers` where a row has it",
    )

    @model_validator(mode="after")
    def _rows_are_one_thing(self) -> Self:
        if self.question is None and self.answers is not None:
            raise ValueError("answers= is for a file of questions: name their column with question= as well")
        if self.question is not None and (self.title is not None or self.text != "text"):
            raise ValueError("question= makes every row a question: text= and title= have no use, leave them out")
        return self


class JsonLines(FileDataset):
    """Passages, or questions, of a file with one JSON object a line.

    By default a row is a passage {"text", "title", "id"}, of which only the text must be there. With question=COLUMN a
    row is a question, with its gold answers (a string or a list) in the column that answers= names. Blank lines are
    passed over.
    """

    example: ClassVar[str] = "jsonl:data/notes.jsonl?text=body&title=headline"
    Options: ClassVar[type[DatasetOptions]] = JsonLinesOptions
    options: JsonLinesOptions

    def __init__(self, path: Path | None, options: JsonLinesOptions) -> None:
        super().__init__(path, options)

    def records(self) -> Iterator[tuple[int, Record]]:
        with open_source(self.source()) as source:
            for number, line in enumerate(source, start=1):
                if line.isspace():
                    continue
                try:
                    yield number, self._record(parse_line(line))
                except RowError as error:
                    yield number, error.reject()

    def _record(self, row: dict[str, Any]) -> Passage | Question:
        """The record of one row. Raises RowError."""
        if self.options.question is None:
            return self._passage(row)
        return self._question(row, self.options.question)

    def _passage(self, row: dict[str, Any]) -> Passage:
        text = text_of(row, self.options.text)
        title = _optional(row, self.options.title, "title")
        return Passage(
            title="" if title is None else check_text(title, "the title", blank=True),
            text=text,
            source_id=self._id(row),
        )

    def _question(self, row: dict[str, Any], column: str) -> Question:
        text = text_of(row, column)
        answers = _optional(row, self.options.answers, "answers")
        return Question(text=text, answers=_answers(answers), source_id=self._id(row))

    def _id(self, row: dict[str, Any]) -> str:
        if self.options.id is not None:
            value_of(row, self.options.id)
        return id_of(row, self.options.id or "id")


def _optional(row: dict[str, Any], named: str | None, usual: str) -> Any:
    """The value of the column the user named, which must be there, or of the usual one; null and absent are None."""
    return row.get(usual) if named is None else value_of(row, named)


def _answers(value: object) -> tuple[str, ...]:
    """The gold answers, unique and in order. Raises RowError."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (check_text(value, "the answer"),)
    if not isinstance(value, list):
        raise RowError("wrong_type", f"the answers are {kind_of(value)}, a string or a list of strings is due")
    return tuple(dict.fromkeys(check_text(answer, f"answer {index}") for index, answer in enumerate(value)))
