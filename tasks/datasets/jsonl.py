"""JSON lines: one object a line, with the columns named by options; passages or questions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from tasks.datasets.base import DatasetOptions, Passage, Question, Record
from tasks.datasets.files import FileDataset, check_text, id_of, text_of, value_of
from tasks.datasets.rows import answers_of, json_lines, records_of


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
        return records_of(json_lines(self.source()), self._records)

    def _records(self, row: dict[str, Any]) -> Iterator[Record]:
        """The record of one row. Raises RowError."""
        column = self.options.question
        yield self._passage(row) if column is None else self._question(row, column)

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
        return Question(text=text, answers=answers_of(answers), source_id=self._id(row))

    def _id(self, row: dict[str, Any]) -> str:
        if self.options.id is not None:
            value_of(row, self.options.id)
        return id_of(row, self.options.id or "id")


def _optional(row: dict[str, Any], named: str | None, usual: str) -> Any:
    """The value of the column the user named, which must be there, or of the usual one; null and absent are None."""
    return row.get(usual) if named is None else value_of(row, named)
