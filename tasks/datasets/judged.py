"""A corpus, its questions and its relevance judgements (qrels) in separate files: the formats beir and msmarco.

Judgements name documents as their source does, while gold passages have ids from their content. So the judgements are
read first, then the corpus, of which only the relevant documents' content ids are kept, then the questions: memory
grows with the judgements, never with the corpus.

BEIR: Thakur et al., "BEIR", NeurIPS 2021 (arXiv 2104.08663), as its datasets are published. One deviation: a document
that has only a title takes it as its text, where BEIR encodes title and text together.

A relevance above 0 is the grade of a gold passage; of a fraction, the next whole number. In BEIR a document with the id
of a question is the question itself, as in ArguAna and Quora, and no hit for it, as in BEIR's own evaluation
(`ignore_identical_ids`); one that is judged relevant is.

MS MARCO passage ranking: 8.8 million passages, questions of a search engine's users, sparse judgements; Bajaj et al.,
"MS MARCO" (arXiv 1611.09268), as in `collectionandqueries.tar.gz` of passage ranking.
"""

import math
import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import DatasetOptions, InputError, OptionalName, Passage, Question, Record, Reject
from vitalfew.tasks.datasets.delimited import TSV, TextLine, delimited_rows, lines_of
from vitalfew.tasks.datasets.files import FileDataset, check_source, open_source
from vitalfew.tasks.datasets.rows import Row, RowError, id_of, json_lines, records_of, text_of

_MOST_GRADE = 2**31 - 1
_PACKED = ("", ".gz", ".zst", ".bz2", ".xz")


class JudgedDataset(FileDataset):
    """A corpus, its questions and its judgements in three files, of which the last two may be missing."""

    identical_ids: ClassVar[bool] = False
    """A passage with the id of a question is the question itself."""

    @abstractmethod
    def found(self) -> tuple[Path, Path | None, Path | None]:
        """Return the files of corpus, questions and judgements; None where there is none. Raises InputError."""

    @abstractmethod
    def rows(self, path: Path) -> Iterator[tuple[int, Any]]:
        """Stream (line, row) of a file of passages or questions."""

    @abstractmethod
    def passage(self, row: Row, number: int) -> Iterator[Record]:
        """Yield the passage of a row. Raises RowError."""

    @abstractmethod
    def question(self, row: Row, number: int) -> Iterator[Record]:
        """Yield the question of a row. Raises RowError."""

    def files(self) -> list[Path]:
        files = [path for path in self.found() if path is not None]
        for path in files:
            check_source(path)
        return files

    def records(self) -> Iterator[tuple[int, Record]]:
        """Yield the passages, then the questions that are judged, with their gold passages.

        Without judgements, yield all questions, without gold passages. The judgements know a passage or a question by
        its `source_id`. A question becomes a Reject if none of its relevant documents could be read; so do the
        judgements of a question that is missing. Raises InputError.
        """
        corpus, queries, qrels = self.found()
        judgements = Judgements(self.identical_ids)
        if qrels is not None:
            yield from _named(qrels, judgements.read(qrels))
        for number, record in _named(corpus, records_of(self.rows(corpus), self.passage)):
            if isinstance(record, Passage):
                judgements.note(record)
            yield number, record
        for number, record in _named(queries, records_of(self.rows(queries), self.question)) if queries else ():
            judged = judgements.of(record) if qrels is not None and isinstance(record, Question) else record
            if judged is not None:
                yield number, judged
        if qrels is not None:
            yield from _named(qrels, judgements.without_question())


def _named(path: Path, records: Iterable[tuple[int, Record]]) -> Iterator[tuple[int, Record]]:
    """Yield the records of one of several files, with its name at the start of the rejects' details."""
    for number, record in records:
        yield number, Reject(record.reason, f"{path.name}: {record.detail}") if isinstance(record, Reject) else record


def _find(path: Path, required: bool = False) -> Path | None:
    """Return the file, or its compressed copy (`.gz`, `.zst`, `.bz2`, `.xz`); None if neither exists. Raises InputError
    if it is `required`."""
    copies = (path.with_name(path.name + suffix) for suffix in _PACKED)
    file = next((copy for copy in copies if copy.exists()), None)
    if file is None and required:
        check_source(path)
    return file


class Judgements:
    """Which documents are relevant to which question, by their names in the source, and how much."""

    def __init__(self, identical_ids: bool) -> None:
        """`identical_ids`: as of a data set."""
        self._identical_ids = identical_ids
        self._itself: dict[str, int] = {}
        self._relevant: dict[str, dict[str, int]] = {}
        self._unasked: dict[str, int] = {}
        self._passages: dict[str, int | None] = {}

    def read(self, path: Path) -> Iterator[tuple[int, Record]]:
        """Read BEIR's three columns (question, document, relevance; the first line names them) or TREC's four.

        TREC has a number between question and document. Yields the lines that cannot be used. Raises InputError.
        """
        with open_source(path) as source:
            for line in lines_of(source):
                try:
                    self._add(line)
                except RowError as error:
                    yield line.number, error.reject()

    def _add(self, line: TextLine) -> None:
        """Store the judgement of one line. Raises RowError."""
        if line.fault:
            raise line.fault
        text = line.text.strip("\r\n")
        fields = text.split("\t") if "\t" in text else text.split()
        if not fields:
            return
        if len(fields) not in (3, 4):
            raise RowError("malformed_row", f"{len(fields)} fields instead of question, document and relevance")
        question, document, number = fields[0].strip(), fields[-2].strip(), fields[-1]
        try:
            relevance = min(math.ceil(float(number)), _MOST_GRADE)
        except (ValueError, OverflowError) as error:
            if line.number == 1:
                return
            raise RowError("wrong_type", f"the relevance is {number[:40]!r}; expected a number") from error
        if question not in self._relevant:
            self._unasked[question] = line.number
        relevant = self._relevant.setdefault(question, {})
        if relevance > 0:
            relevant[document] = relevance
            self._passages[document] = None

    def note(self, passage: Passage) -> None:
        """Store a passage's content id if the passage is relevant to a question, or is the question itself."""
        name = passage.source_id
        if self._identical_ids and name in self._relevant:
            self._itself.setdefault(name, passage_id(passage.text))
        if self._passages.get(name, 0) is None:
            self._passages[name] = passage_id(passage.text)

    def of(self, question: Question) -> Question | Reject | None:
        """Return the question with its gold passages; None if it has no judgement."""
        name = question.source_id
        relevant = self._relevant.get(name)
        if relevant is None:
            return None
        self._unasked.pop(name, None)
        grades: dict[int, int] = {}
        for document, grade in relevant.items():
            if (passage := self._passages[document]) is not None:
                grades[passage] = max(grade, grades.get(passage, 0))
        if relevant and not grades:
            some = f"{len(relevant)} relevant documents ({next(iter(relevant))[:40]!r}, ...)"
            return Reject("no_gold_passage", f"none of the {some} of question {name[:40]!r} could be read")
        itself = tuple({self._itself[name]} - grades.keys()) if name in self._itself else ()
        return replace(question, gold_passages=tuple(grades), gold_grades=tuple(grades.values()), itself=itself)

    def without_question(self) -> Iterator[tuple[int, Reject]]:
        """Yield a Reject, at its first judgement, for every question that `of` did not get."""
        for question, number in self._unasked.items():
            yield number, Reject("unknown_question", f"there is no question {question[:40]!r}")


class Beir(JudgedDataset):
    """A corpus of BEIR, or one in its layout, with the questions of a split and their gold passages.

    A folder with corpus.jsonl ({"_id", "title", "text"}), queries.jsonl ({"_id", "text"}) and qrels/SPLIT.tsv
    (question, document, relevance), compressed (.gz, .zst, .bz2, .xz) or not. The questions are those that
    qrels/SPLIT.tsv judges; a document it rates above 0 is a gold passage of that grade, and one with the question's id
    is no hit for it. Without qrels, all questions are read,
    without gold passages. Without queries.jsonl, only the corpus is read. The offset is the line in the file.
    """

    example: ClassVar[str] = "beir:data/scifact?split=test"
    identical_ids: ClassVar[bool] = True

    class Options(DatasetOptions):
        split: OptionalName = Field(None, description="the judgements to read, qrels/SPLIT.tsv; if not given, `test`")

    options: Options

    def rows(self, path: Path) -> Iterator[tuple[int, Any]]:
        return json_lines(path)

    def passage(self, row: Row, number: int) -> Iterator[Passage]:
        title = text_of(row, "title", blank=True) if row.get("title") is not None else ""
        yield Passage(title, text_of(row, "text", blank=bool(title)) or title, id_of(row, "_id").strip())

    def question(self, row: Row, number: int) -> Iterator[Question]:
        yield Question(text_of(row, "text"), source_id=id_of(row, "_id").strip())

    def found(self) -> tuple[Path, Path | None, Path | None]:
        folder = self.source()
        if not os.path.isdir(folder):
            check_source(folder)
            raise InputError(f"{folder} is a file, and this format reads the folder that has corpus.jsonl: name it")
        corpus = _find(folder / "corpus.jsonl", required=True)
        queries = _find(folder / "queries.jsonl", required=self.options.split is not None)
        return corpus or folder, queries, self._qrels(folder / "qrels") if queries else None

    def _qrels(self, folder: Path) -> Path | None:
        """The judgements of the split; None if the folder has none of any split. Raises InputError."""
        split = self.options.split or "test"
        qrels = _find(folder / f"{split}.tsv")
        splits = sorted({path.name.partition(".tsv")[0] for path in folder.glob("*.tsv*")})
        if qrels or not (splits or self.options.split):
            return qrels
        known = f"it has {', '.join(splits)}: choose one with split=" if splits else "it has no file SPLIT.tsv"
        raise InputError(f"{folder} has no judgements {split}.tsv; {known}")


_MSMARCO_SPLIT = "dev.small"


class MSMarco(JudgedDataset):
    """Passages of MS MARCO with the questions of a split and their gold passages.

    A folder with collection.tsv (number, passage), queries.SPLIT.tsv (number, question) and qrels.SPLIT.tsv (question,
    0, passage, relevance): tab-separated, with neither quotes nor a header line, compressed or not. The questions are
    those with a judgement; without judgements, all are read, without gold passages. The file collection.tsv alone is a
    corpus without questions, unless split= or queries= names some. The offset is the line in the file.
    """

    example: ClassVar[str] = "msmarco:data/msmarco?split=dev.small"

    class Options(DatasetOptions):
        split: OptionalName = Field(
            None,
            description="questions and judgements to read, queries.SPLIT.tsv and qrels.SPLIT.tsv; if not given, "
            f"{_MSMARCO_SPLIT}, if it exists",
        )
        collection: str = Field("collection.tsv", min_length=1, description="file of the passages in the folder")
        queries: OptionalName = Field(None, description="file of the questions; if not given, that of the split")
        qrels: OptionalName = Field(None, description="file of the judgements; if not given, that of the split")

    options: Options

    def rows(self, path: Path) -> Iterator[tuple[int, Any]]:
        return delimited_rows(path, TSV, ("id", "text"))

    def passage(self, row: Row, number: int) -> Iterator[Passage]:
        yield Passage("", text_of(row, "text"), row["id"].strip())

    def question(self, row: Row, number: int) -> Iterator[Question]:
        yield Question(text_of(row, "text"), source_id=row["id"].strip())

    def found(self) -> tuple[Path, Path | None, Path | None]:
        source = self.source()
        corpus = _find(source / self.options.collection, required=True) if os.path.isdir(source) else source
        queries = self._of_split("queries", self.options.queries)
        return corpus or source, queries, self._of_split("qrels", self.options.qrels) if queries else None

    def _of_split(self, kind: str, name: str | None) -> Path | None:
        """Return the named file, or that of the split; None if neither exists."""
        source = self.source()
        if name or self.options.split or os.path.isdir(source):
            required = name is not None or (kind == "queries" and self.options.split is not None)
            folder = source if os.path.isdir(source) else source.parent
            return _find(folder / (name or f"{kind}.{self.options.split or _MSMARCO_SPLIT}.tsv"), required)
        return None
