"""JSON lines: one object a line, whose columns the options name; passages or questions."""

from collections.abc import Iterator
from typing import ClassVar

from vitalfew.tasks.datasets.base import DatasetOptions, Record
from vitalfew.tasks.datasets.columns import ColumnOptions
from vitalfew.tasks.datasets.files import FileDataset
from vitalfew.tasks.datasets.rows import json_lines, records_of


class JsonLines(FileDataset):
    """Passages, or questions, of a file with one JSON object a line.

    By default a row is a passage {"text", "title", "id"}, of which only the text is required, or a question
    {"question", "answers", "id"}, whose answers are a string or a list. Options name other columns. Blank lines are
    skipped.
    """

    example: ClassVar[str] = "jsonl:data/notes.jsonl?text=body&title=headline"
    Options: ClassVar[type[DatasetOptions]] = ColumnOptions
    options: ColumnOptions

    def records(self) -> Iterator[tuple[int, Record]]:
        return records_of(json_lines(self.source()), self.options.records)
