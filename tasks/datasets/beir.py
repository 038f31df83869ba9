"""BEIR: corpus, questions and relevance judgements of retrieval benchmarks, all in one layout.

Format: Thakur et al., "BEIR", NeurIPS 2021 (arXiv 2104.08663), as its datasets are published. One deviation: a
document that has only a title takes it as its text, where BEIR encodes title and text together.
"""

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from vitalfew.tasks.datasets.base import DatasetOptions, InputError, Passage, Question, Record
from vitalfew.tasks.datasets.files import FileDataset, check_source, id_of, text_of
from vitalfew.tasks.datasets.judged import judged_records, named, packed_or_not
from vitalfew.tasks.datasets.rows import json_lines, records_of


class BeirOptions(DatasetOptions):
    """Which questions to ask."""

    split: str | None = Field(
        default=None, min_length=1, description="the judgements to read, qrels/SPLIT.tsv; if not given, `test`"
    )


class Beir(FileDataset):
    """A corpus of BEIR, or one in its layout, with the questions of a split and their gold passages.

    A folder with corpus.jsonl ({"_id", "title", "text"}), queries.jsonl ({"_id", "text"}) and qrels/SPLIT.tsv
    (question, document, relevance), compressed (.gz, .zst, .bz2, .xz) or not. The questions are those that
    qrels/SPLIT.tsv judges; a document it rates above 0 is a gold passage. Without qrels, all questions are read,
    without gold passages. Without queries.jsonl, only the corpus is read. The offset is the line in the file.
    """

    example: ClassVar[str] = "beir:data/scifact?split=test"
    Options: ClassVar[type[DatasetOptions]] = BeirOptions
    options: BeirOptions

    def files(self) -> list[Path]:
        files = [path for path in (self._corpus, self._queries, self._qrels) if path is not None]
        for path in files:
            check_source(path)
        return files

    def records(self) -> Iterator[tuple[int, Record]]:
        corpus, queries = self._corpus, self._queries
        passages = named(corpus, records_of(json_lines(corpus), _passages))
        questions = named(queries, records_of(json_lines(queries), _questions)) if queries else ()
        return judged_records(self._qrels, passages, questions)

    @cached_property
    def _corpus(self) -> Path:
        folder = self.source()
        if not os.path.isdir(folder):
            check_source(folder)
            raise InputError(f"{folder} is a file, and this format reads the folder that has corpus.jsonl: name it")
        plain = folder / "corpus.jsonl"
        corpus = packed_or_not(plain)
        if corpus is None:
            check_source(plain)
        return corpus or plain

    @cached_property
    def _queries(self) -> Path | None:
        plain = self.source() / "queries.jsonl"
        queries = packed_or_not(plain)
        if queries is None and self.options.split:
            check_source(plain)
        return queries

    @cached_property
    def _qrels(self) -> Path | None:
        """The judgements of the split; None if the folder has no judgements or no questions. Raises InputError."""
        folder = self.source() / "qrels"
        qrels = packed_or_not(folder / f"{self.options.split or 'test'}.tsv")
        splits = sorted({path.name.partition(".tsv")[0] for path in folder.glob("*.tsv*")}) if not qrels else []
        if self._queries is None or not (qrels or splits or self.options.split):
            return None
        if qrels is None:
            known = f"it has {', '.join(splits)}: choose one with split=" if splits else "it has no file SPLIT.tsv"
            raise InputError(f"{folder} has no judgements {self.options.split or 'test'}.tsv; {known}")
        return qrels


def _passages(row: dict[str, Any]) -> Iterator[Passage]:
    """Yield the passage of a document. Raises RowError."""
    title = text_of(row, "title", blank=True) if row.get("title") is not None else ""
    yield Passage(title, text_of(row, "text", blank=bool(title)) or title, id_of(row, "_id").strip())


def _questions(row: dict[str, Any]) -> Iterator[Question]:
    """Yield the question of a query. Raises RowError."""
    yield Question(text_of(row, "text"), source_id=id_of(row, "_id").strip())
