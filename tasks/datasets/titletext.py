"""A JSON list of {title, text}: the corpus format of 2WikiMultihopQA, MuSiQue and HippoRAG."""

from collections.abc import Iterator
from typing import ClassVar

from vitalfew.tasks.datasets.base import Passage, Record, Reject
from vitalfew.tasks.datasets.files import FileDataset, RowError, object_of, stream_json, text_of


class TitleText(FileDataset):
    """Passages of a JSON list of {title, text}; no questions.

    Other keys are skipped. The title is required but may be empty.
    """

    example: ClassVar[str] = "titletext:data/2wikimultihopqa_corpus.json"

    def records(self) -> Iterator[tuple[int, Record]]:
        for number, row in stream_json(self.source(), "a JSON array of {title, text}"):
            yield number, _passage(row)


def _passage(row: object) -> Passage | Reject:
    try:
        fields = object_of(row)
        text = text_of(fields, "text")
        title = text_of(fields, "title", blank=True)
    except RowError as error:
        return error.reject()
    return Passage(title, text, title)
