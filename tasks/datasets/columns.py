"""Which column of a table holds what: the column mapping that jsonl, csv, parquet and huggingface share."""

import json
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any, Self

from pydantic import Field, model_validator

from vitalfew.tasks.datasets.base import DatasetOptions, InputError, Passage, Question, Record
from vitalfew.tasks.datasets.files import RowError, check_text, id_of, object_of, value_of
from vitalfew.tasks.datasets.rows import answers_of


class ColumnOptions(DatasetOptions):
    """Which columns hold what. Every row must have a column named here; `a.b` is the field b of a column a."""

    text: str = Field(default="text", min_length=1, description="column of the passage's text")
    title: str | None = Field(
        default=None,
        min_length=1,
        description="column of the passage's title; if not given, `title` if a row has it",
    )
    id: str | None = Field(
        default=None,
        min_length=1,
        description="column of the row's name or number; if not given, `id` if a row has it",
    )
    question: str | None = Field(
        default=None,
        min_length=1,
        description="column of the question; if given, the rows are questions instead of passages; if not given, a row "
        "with `question` and without `text` is a question",
    )
    answers: str | None = Field(
        default=None,
        min_length=1,
        description="column of the gold answer or list of gold answers; if not given, `answers` if a row has it",
    )

    @model_validator(mode="after")
    def _rows_are_one_thing(self) -> Self:
        if self.answers is not None and self.question is None:
            self.question = "question"
        if self.question is not None and (self.title is not None or self.text != "text"):
            raise ValueError(
                "question= and answers= make every row a question, which has no text= or title=: leave them out"
            )
        return self

    def question_of(self, present: Collection[str]) -> str | None:
        """Return the column of the question, if rows with these columns are questions."""
        usual = self.text == "text" and self.title is None and "text" not in present and "question" in present
        return "question" if self.question is None and usual else self.question

    def named(self, present: Collection[str]) -> list[str]:
        """Return the columns that every row of a table with these columns must have."""
        question = self.question_of(present)
        first, second = (self.text, self.title) if question is None else (question, self.answers)
        return [column for column in (first, second, self.id) if column is not None]

    def used(self, present: Collection[str]) -> list[str]:
        """Return the columns that are read if the table has them."""
        other = self.title or "title" if self.question_of(present) is None else self.answers or "answers"
        return list(dict.fromkeys([*self.named(present), other, self.id or "id"]))

    def records(self, row: dict[str, Any]) -> Iterator[Record]:
        """Yield the record of one row. Raises RowError."""
        name = id_of({"id": self._value(row, self.id, "id")}, "id")
        if (question := self.question_of(row)) is not None:
            text = check_text(self._value(row, question), repr(question))
            yield Question(text, self.answers_in(self._value(row, self.answers, "answers")), source_id=name)
            return
        if self.text == "text" and "text" not in row:
            keys = ", ".join(repr(key[:40]) for key in islice(row, 20)) or "none"
            raise RowError(
                "missing_column",
                f"no 'text' for a passage and no 'question' for a question; the keys present: {keys}; name the column "
                "with text= or question=",
            )
        text = check_text(self._value(row, self.text), repr(self.text))
        title = self._value(row, self.title, "title")
        yield Passage("" if title is None else check_text(title, "the title", blank=True), text, name)

    def answers_in(self, value: object) -> tuple[str, ...]:
        """Return the gold answers that a column's value holds. Raises RowError."""
        return answers_of(value)

    def _value(self, row: dict[str, Any], named: str | None, usual: str = "") -> Any:
        """Return the value of the column the user named, which must exist, else of the usual one, else None."""
        return row.get(usual) if named is None else _value_at(row, named)


def _value_at(row: dict[str, Any], name: str) -> Any:
    """Return the value of a column, or, if `name` is `column.field`, of that field in the column's object."""
    column, dot, field = name.partition(".")
    if name in row or not dot:
        return value_of(row, name)
    value = value_of(row, column)
    return None if value is None else _value_at(object_of(value), field)


class TableOptions(ColumnOptions):
    """Columns of a table. Some formats have no lists, so a list of answers may be written as a string."""

    separator: str | None = Field(
        default=None,
        min_length=1,
        description="separator of answers in a string, as in `answer one|answer two`; if not given, a string "
        "in square brackets is a JSON list, and any other string is one answer",
    )

    def answers_in(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, str):
            return answers_of(value)
        if self.separator is not None:
            return answers_of([answer for answer in value.split(self.separator) if answer.strip()])
        written = value.strip()
        if not (written.startswith("[") and written.endswith("]")):
            return answers_of(written or None)
        try:
            return answers_of(json.loads(written))
        except (ValueError, RecursionError) as error:
            raise RowError("malformed_json", f"the answers {written[:40]!r} are not a JSON list") from error


def present_columns(options: ColumnOptions, present: Collection[str], where: object) -> list[str]:
    """Return the columns of a table to read. Raises InputError if the user named one that is not present."""
    columns = {name: name if name in present else name.partition(".")[0] for name in options.used(present)}
    for name in options.named(present):
        if columns[name] not in present:
            shown = ", ".join(repr(column[:40]) for column in islice(present, 40)) or "none"
            raise InputError(
                f"{where} has no column {name!r}; it has {shown}. Name the columns with text=, title= and id=, or "
                "with question=, answers= and id="
            )
    return list(dict.fromkeys(column for column in columns.values() if column in present))
