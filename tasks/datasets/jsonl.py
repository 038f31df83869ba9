"""JSON lines: one object a line, with the columns named by options; passages or questions."""

from collections.abc import Iterator
from typing import ClassVar

from tasks.datasets.base import DatasetOptions, Record
from tasks.datasets.columns import ColumnOptions
from tasks.datasets.files import FileDataset
from tasks.datasets.rows import json_lines, records_of


class JsonLines(FileDataset):
    """Passages, or questions, of a file with one JSON object a line.

    By default a row is a passage {"text", "title", "id"}, of which only the text must be there. With question=COLUMN a
    row is a question, with its gold answers (a string or a list) in the column that answers= names. Blank lines are
    passed over.
    """

    example: ClassVar[str] = "jsonl:data/notes.jsonl?text=body&title=headline"
    Options: ClassVar[type[DatasetOptions]] = ColumnOptions
    options: ColumnOptions

    def records(self) -> Iterator[tuple[int, Record]]:
        return records_of(json_lines(self.source()), self.options.records)
