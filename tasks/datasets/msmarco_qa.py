"""MS MARCO question answering: questions with the answers that people wrote from ten passages of a search engine.

Format: version 2.1 (`train_v2.1.json`, `dev_v2.1.json`, `eval_v2.1_public.json`), Bajaj et al., "MS MARCO" (arXiv
1611.09268), and rows of the same fields, one a line, with the passages as a list of objects or, as on the Hugging Face
hub, as an object of lists. Passage ranking (`msmarco`) has the same questions without answers.

The official files are objects of columns, each an object of all rows: {"answers": {"0": …}, "passages": {"0": …}, …}.
Every column is read by a cursor of its own, so that memory holds one row, whatever the order of the columns.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import DatasetOptions, InputError, Passage, Question, Record, Reject
from vitalfew.tasks.datasets.files import (
    FileDataset,
    RowError,
    check_text,
    id_of,
    list_of,
    object_of,
    open_source,
    text_of,
)
from vitalfew.tasks.datasets.json_stream import BrokenJson, JsonReader
from vitalfew.tasks.datasets.rows import json_lines, records_of

NO_ANSWER = "No Answer Present."
_COLUMNS = ("query", "query_id", "passages", "answers", "wellFormedAnswers")


class MSMarcoQAOptions(DatasetOptions):
    """Choice of the gold answers."""

    well_formed: bool = Field(
        default=False,
        description="use the answers rewritten as whole sentences, if there are any; false: use the answers as first "
        "written",
    )


class MSMarcoQA(FileDataset):
    """Questions of MS MARCO with the passages retrieved for them and the answers that people wrote.

    The JSON of question answering 2.1, compressed or not, or one object per line: {"query", "query_id", "answers":
    [...], "wellFormedAnswers": [...], "passages": [{"passage_text", "is_selected", "url"}, ...]}. A question's passages
    come before it. The selected passages are gold. "No Answer Present." does not count as a gold answer, so a question
    with this answer has no gold answers. The offset is the number of the row.
    """

    example: ClassVar[str] = "msmarco_qa:data/dev_v2.1.json.gz"
    Options: ClassVar[type[DatasetOptions]] = MSMarcoQAOptions
    options: MSMarcoQAOptions

    def records(self) -> Iterator[tuple[int, Record]]:
        rows = _rows(self.source()) if _has_columns(self.source()) else json_lines(self.source())
        return records_of(rows, self._records)

    def _records(self, row: object) -> Iterator[Record]:
        """Yield the passages of a row, then its question; a passage that cannot be used becomes a Reject. Raises
        RowError."""
        fields = object_of(row)
        gold = []
        for number, entry in enumerate(_entries(fields.get("passages", []))):
            try:
                passage = Passage("", text_of(entry, "passage_text"), id_of(entry, "url"))
            except RowError as error:
                yield error.reject(f"passages[{number}]")
                continue
            yield passage
            if entry.get("is_selected"):
                gold.append(passage_id(passage.text))
        yield Question(
            text=text_of(fields, "query"),
            answers=self._answers(fields),
            gold_passages=tuple(dict.fromkeys(gold)),
            source_id=id_of(fields, "query_id"),
        )

    def _answers(self, fields: dict[str, Any]) -> tuple[str, ...]:
        """The unique gold answers. Raises RowError."""
        key = "wellFormedAnswers" if self.options.well_formed and _given(fields, "wellFormedAnswers") else "answers"
        given = list_of(fields, key) if _given(fields, key) else []
        answers = [check_text(answer, f"{key}[{number}]", blank=True) for number, answer in enumerate(given)]
        return tuple(answer for answer in dict.fromkeys(answers) if answer and answer != NO_ANSWER)


def _given(fields: dict[str, Any], key: str) -> bool:
    """Whether there are answers; the official files write "[]", a text, where there are none."""
    return fields.get(key) not in (None, "[]", [])


def _entries(passages: Any) -> Iterator[dict[str, Any]]:
    """The passages as objects. Raises RowError."""
    if isinstance(passages, dict):
        columns = {key: list_of(passages, key) for key in ("passage_text", "is_selected", "url") if key in passages}
        for values in zip(*columns.values(), strict=False):
            yield dict(zip(columns, values, strict=True))
    else:
        yield from map(object_of, list_of({"passages": passages}, "passages"))


def _has_columns(path: Path) -> bool:
    """Whether the first value of the document's object is an object: a column, not a field of a row."""
    with open_source(path) as source:
        reader = JsonReader(source)
        try:
            return next((reader.peek() == "{" for _ in reader.members()), False)
        except BrokenJson:
            return False  # json_lines says of a broken line what is wrong with it


def _rows(path: Path) -> Iterator[tuple[int, Any]]:
    """Number and fields of every row of a file of columns. Raises InputError where it is broken."""
    number = 0
    with ExitStack() as opened:
        readers = {name: JsonReader(opened.enter_context(open_source(path))) for name in _COLUMNS}
        columns = {name: reader.object_at(name) for name, reader in readers.items()}
        try:
            while cells := {name: cell for name, column in columns.items() if (cell := next(column, None))}:
                number += 1
                yield number, _row(path, number, cells)
        except BrokenJson as error:
            remedy = error.remedy.replace("FILE", str(path))
            raise InputError(f"{path}: {error.what} after row {number}, at byte {error.byte}. {remedy}") from error
        if not number:
            raise InputError(f'{path} has no rows in a top-level "query": this format expects MS MARCO QA 2.1')


def _row(path: Path, number: int, cells: dict[str, tuple[str, Any]]) -> Any:
    """The fields of a row, or a Reject of a cell that is too long. Raises InputError where columns are not in step."""
    if len({key for key, _ in cells.values()}) > 1:
        keys = ", ".join(f"{name}: {key}" for name, (key, _) in cells.items())
        raise InputError(f"{path}: row {number} has different keys in its columns ({keys}); download the file again")
    values = {name: value for name, (_, value) in cells.items()}
    return next((value for value in values.values() if isinstance(value, Reject)), values)
