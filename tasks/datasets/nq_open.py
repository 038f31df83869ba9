"""NQ-open: questions that people asked Google, with short answers.

Format: the `NQ-open.*.jsonl` files of google-research-datasets/natural-questions, the open-domain subset of Natural
Questions by Lee et al. (ACL 2019, arXiv 1906.00300).
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from vitalfew.tasks.datasets.base import Question, Record
from vitalfew.tasks.datasets.files import FileDataset, text_of, value_of
from vitalfew.tasks.datasets.rows import answers_of, json_lines, records_of


class NQOpen(FileDataset):
    """Questions of NQ-open with their gold answers; no passages.

    One JSON object a line: {"question", "answer": [string, ...]}. The offset is the line.
    """

    example: ClassVar[str] = "nq_open:data/NQ-open.dev.jsonl"
    has_passages: ClassVar[bool] = False

    def records(self) -> Iterator[tuple[int, Record]]:
        return records_of(json_lines(self.source()), _question)


def _question(row: dict[str, Any]) -> Iterator[Question]:
    """Yield the question of one row. Raises RowError."""
    yield Question(text=text_of(row, "question"), answers=answers_of(value_of(row, "answer")))
