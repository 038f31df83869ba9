"""BEIR: corpus, questions and relevance judgements of retrieval benchmarks, in the one layout they were brought into.

Format: Thakur et al., "BEIR", NeurIPS 2021 (arXiv 2104.08663), as its datasets are published. One deviation: a document
of which only the title is there has it for its text, where BEIR encodes title and text together.
"""

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from tasks.datasets.base import DatasetOptions, InputError, Passage, Question, Record
from tasks.datasets.files import FileDataset, check_source, id_of, text_of
from tasks.datasets.judged import judged_records, named, packed_or_not
from tasks.datasets.rows import json_lines, records_of


class BeirOptions(DatasetOptions):
    """Which questions are asked."""

    split: str | None = Field(
        default=None, min_length=1, description="the judgements that are read, qrels/SPLIT.tsv; if not given, `test`"
    )


class Beir(FileDataset):
    """A corpus of BEIR, or one of its layout, with the questions of a split and their gold passages.

    A folder with corpus.jsonl ({"_id", "title", "text"}), queries.jsonl ({"_id", "text"}) and qrels/SPLIT.tsv
    (question, document, relevance), each of them packed (.gz, .zst, .bz2, .xz) or not. The questions are those that
    qrels/SPLIT.tsv judges; what it rates above 0 is a gold passage. Without qrels all questions are read, with no gold
    passage; without queries.jsonl only the corpus. The offset is the line in the file.
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
            raise InputError(f"{folder} is a file, and this format reads the folder that has corpus.jsonl: name that")
        found = packed_or_not(folder / "corpus.jsonl")
        if found is None:
            check_source(folder / "corpus.jsonl")
        return found or folder / "corpus.jsonl"

    @cached_property
    def _queries(self) -> Path | None:
        found = packed_or_not(self.source() / "queries.jsonl")
        if found is None and self.options.split:
            check_source(self.source() / "queries.jsonl")
        return found

    @cached_property
    def _qrels(self) -> Path | None:
        """The judgements of the split; None where there are none at all, or no questions. Raises InputError."""
        folder = self.source() / "qrels"
        found = packed_or_not(folder / f"{self.options.split or 'test'}.tsv")
        splits = sorted({path.name.partition(".tsv")[0] for path in folder.glob("*.tsv*")}) if not found else []
        if self._queries is None or not (found or splits or self.options.split):
            return None
        if found is None:
            known = f"it has {', '.join(splits)}: choose one with split=" if splits else "it has no file SPLIT.tsv"
            raise InputError(f"{folder} has no judgements {self.options.split or 'test'}.tsv; {known}")
        return found


def _passages(row: dict[str, Any]) -> Iterator[Passage]:
    """The passage of a document. Raises RowError."""
    title = text_of(row, "title", blank=True) if row.get("title") is not None else ""
    yield Passage(title, text_of(row, "text", blank=bool(title)) or title, id_of(row, "_id").strip())


def _questions(row: dict[str, Any]) -> Iterator[Question]:
    """The question of a query. Raises RowError."""
    yield Question(text_of(row, "text"), source_id=id_of(row, "_id").strip())
