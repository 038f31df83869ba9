"""MS MARCO passage ranking: 8.8 million passages, questions of a search engine's users, sparse judgements.

Format: Bajaj et al., "MS MARCO" (arXiv 1611.09268), as in `collectionandqueries.tar.gz` of passage ranking.
"""

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from vitalfew.tasks.datasets.base import DatasetOptions, Passage, Question, Record
from vitalfew.tasks.datasets.delimited import TSV, delimited_rows
from vitalfew.tasks.datasets.files import FileDataset, check_source, text_of
from vitalfew.tasks.datasets.judged import judged_records, named, packed_or_not
from vitalfew.tasks.datasets.rows import records_of

_SPLIT = "dev.small"


class MSMarcoOptions(DatasetOptions):
    """Which questions to ask, and the names of the files."""

    split: str | None = Field(
        default=None,
        min_length=1,
        description=f"questions and judgements to read, queries.SPLIT.tsv and qrels.SPLIT.tsv; if not given, {_SPLIT}, "
        "if it exists",
    )
    collection: str = Field(default="collection.tsv", min_length=1, description="file of the passages in the folder")
    queries: str | None = Field(
        default=None, min_length=1, description="file of the questions; if not given, that of the split"
    )
    qrels: str | None = Field(
        default=None, min_length=1, description="file of the judgements; if not given, that of the split"
    )


class MSMarco(FileDataset):
    """Passages of MS MARCO with the questions of a split and their gold passages.

    A folder with collection.tsv (number, passage), queries.SPLIT.tsv (number, question) and qrels.SPLIT.tsv (question,
    0, passage, relevance): tab-separated, with neither quotes nor a header line, compressed or not. The questions are
    those with a judgement; without judgements, all are read, without gold passages. The file collection.tsv alone is a
    corpus without questions, unless split= or queries= names some. The offset is the line in the file.
    """

    example: ClassVar[str] = "msmarco:data/msmarco?split=dev.small"
    Options: ClassVar[type[DatasetOptions]] = MSMarcoOptions
    options: MSMarcoOptions

    def files(self) -> list[Path]:
        files = [path for path in (self._collection, self._queries, self._qrels) if path is not None]
        for path in files:
            check_source(path)
        return files

    def records(self) -> Iterator[tuple[int, Record]]:
        passages = named(self._collection, records_of(_rows(self._collection), _passages))
        questions = named(self._queries, records_of(_rows(self._queries), _questions)) if self._queries else ()
        return judged_records(self._qrels, passages, questions)

    @cached_property
    def _folder(self) -> Path:
        return self.source() if os.path.isdir(self.source()) else self.source().parent

    @cached_property
    def _collection(self) -> Path:
        source = self.source()
        return (self._file(self.options.collection, required=True) or source) if os.path.isdir(source) else source

    @cached_property
    def _queries(self) -> Path | None:
        return self._of_split("queries", self.options.queries)

    @cached_property
    def _qrels(self) -> Path | None:
        return self._of_split("qrels", self.options.qrels) if self._queries is not None else None

    def _of_split(self, kind: str, name: str | None) -> Path | None:
        """Return the named file, or that of the split; None if no file is named and the split has none."""
        if name or self.options.split or os.path.isdir(self.source()):
            required = name is not None or (kind == "queries" and self.options.split is not None)
            return self._file(name or f"{kind}.{self.options.split or _SPLIT}.tsv", required)
        return None

    def _file(self, name: str, required: bool) -> Path | None:
        file = packed_or_not(self._folder / name)
        if file is None and required:
            check_source(self._folder / name)
        return file


def _rows(path: Path) -> Iterator[tuple[int, Any]]:
    return delimited_rows(path, TSV, ("id", "text"))


def _passages(row: dict[str, Any]) -> Iterator[Passage]:
    """Yield the passage of a row. Raises RowError."""
    yield Passage("", text_of(row, "text"), row["id"].strip())


def _questions(row: dict[str, Any]) -> Iterator[Question]:
    """Yield the question of a row. Raises RowError."""
    yield Question(text_of(row, "text"), source_id=row["id"].strip())
