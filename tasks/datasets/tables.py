"""Tables whose columns the user names: the formats jsonl, csv and parquet, and the mapping they share with huggingface.

A row is a passage or a question. CSV is RFC 4180 and files like it; Parquet is a file, or a folder of files with the
same columns.

Corpora with columns of their own, without questions: `dpr_wiki` reads `psgs_w100.tsv`, 21 million blocks of 100 words:
Karpukhin et al., "Dense Passage Retrieval", EMNLP 2020 (arXiv 2004.04906), section 4.1. `titletext` is the corpus
format of 2WikiMultihopQA, MuSiQue and HippoRAG.
"""

import os
import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field, field_validator, model_validator

from vitalfew.tasks.datasets.base import (
    DatasetOptions,
    GoldPlace,
    InputError,
    OptionalName,
    Passage,
    Question,
    Record,
    Reject,
)
from vitalfew.tasks.datasets.delimited import QUOTED_TSV, Dialect, columns_of, delimited_rows
from vitalfew.tasks.datasets.files import check_source
from vitalfew.tasks.datasets.rows import (
    Row,
    RowDataset,
    RowError,
    answers_of,
    attempt,
    check_text,
    id_of,
    json_lines,
    object_of,
    opens_with,
    stream_json,
    text_of,
    text_of_scalar,
    texts_in,
    value_of,
)


class ColumnOptions(DatasetOptions):
    """Which columns hold what. Every row must have a column named here; `a.b` is the field b of a column a. A column
    that is found by its usual name may have capitals and blanks around it."""

    text: str = Field("text", min_length=1, description="column of the passage's text")
    title: OptionalName = Field(
        None, description="column of the passage's title; if not given, `title` if a row has it"
    )
    id: OptionalName = Field(None, description="column of the row's name or number; if not given, `id` if a row has it")
    question: OptionalName = Field(
        None,
        description="column of the question. If given, rows are questions, not passages. Default: a row with "
        "`question` and without `text` is a question",
    )
    answers: OptionalName = Field(
        None,
        description="column of the gold answer or list of gold answers; if not given, `answers` or `answer`, if a row "
        "has one of them",
    )
    source: OptionalName = Field(
        None,
        description="column of the source, or list of sources, that holds the answer. A source is a file of a folder "
        "(`guide.md`), a heading or page of it (`guide.md#usage`, `rules.pdf#page=3`), or a row's name. Default: "
        "`source`, if a row has it",
    )
    quote: OptionalName = Field(
        None,
        description="column of the quote, or list of quotes, that supports the answer, in the given source if there "
        "is one. Default: `quote`, if a row has it",
    )

    @model_validator(mode="after")
    def _rows_are_one_thing(self) -> Self:
        if self.answers is not None and self.question is None:
            self.question = "question"
        if self.question is not None and (self.title is not None or self.text != "text"):
            raise ValueError("with question= or answers=, every row is a question: leave out text= and title=")
        return self

    def question_of(self, present: Collection[str]) -> str | None:
        """Return the column of the question, if rows with these columns are questions."""
        if self.question is not None or self.text != "text" or self.title is not None or _usual(present, "text"):
            return self.question
        return next(iter(_usual(present, "question")), None)

    def named(self, present: Collection[str]) -> list[str]:
        """Return the columns that every row of a table with these columns must have; the text or question first."""
        text = next(iter(_usual(present, "text")), "text") if self.text == "text" else self.text
        own = [text, self.title]
        if (question := self.question_of(present)) is not None:
            own = [question, self.answers, self.source, self.quote]
        return [column for column in (*own, self.id) if column is not None]

    def used(self, present: Collection[str]) -> list[str]:
        """Return the columns that are read if the table has them."""
        usual = ("title", "id") if self.question_of(present) is None else ("answers", "source", "quote", "id")
        found = (name for what in usual if getattr(self, what) is None for name in _usual(present, what))
        return list(dict.fromkeys([*self.named(present), *found]))

    def records(self, row: Row) -> Iterator[Record]:
        """Yield the record of one row. Raises RowError."""
        name, column = text_of_scalar(self._value(row, "id"), "the id"), self.named(row)[0]
        if self.question_of(row) is not None:
            text = check_text(_value_at(row, column), repr(column))
            answers = self.answers_in(self._value(row, "answers"))
            given = [self._places(row, what) for what in ("source", "quote")]
            yield from (left for left in given if isinstance(left, Reject))
            places = _paired(*(() if isinstance(some, Reject) else some for some in given))
            yield Question(text, answers, source_id=name, gold_places=places)
            return
        if column == "text" and "text" not in row:
            keys = ", ".join(repr(key[:40]) for key in islice(row, 20)) or "none"
            raise RowError(
                "missing_column",
                f"no 'text' for a passage and no 'question' for a question; the keys present: {keys}; name the column "
                "with text= or question=",
            )
        text, title = check_text(_value_at(row, column), repr(column)), self._value(row, "title")
        yield Passage("" if title is None else check_text(title, "the title", blank=True), text, name)

    def _places(self, row: Row, what: str) -> tuple[str, ...] | Reject:
        """Return the sources or quotes of a question; a Reject where a column that nobody named holds something else,
        without which the question is asked. Raises RowError."""
        value = self._value(row, what)
        if getattr(self, what) is not None:
            return self.places_in(value, what)
        return attempt("the question is asked without its place", self.places_in, value, what)

    def answers_in(self, value: object) -> tuple[str, ...]:
        """Return the gold answers that a column's value holds. Raises RowError."""
        return answers_of(value)

    def places_in(self, value: object, what: str) -> tuple[str, ...]:
        """Return the sources or quotes that a column's value holds. Raises RowError."""
        return texts_in(value, what)

    def _value(self, row: Row, what: str) -> Any:
        """Return the value of the column the user named, which must exist, else of the first usual one that holds
        something, else None."""
        if (named := getattr(self, what)) is not None:
            return _value_at(row, named)
        return next((value for name in _usual(row, what) if (value := row[name]) not in (None, "", [])), None)


def _usual(present: Collection[str], what: str) -> tuple[str, ...]:
    """Return the columns that are called so, whatever their case and the blanks around them."""
    return _called(tuple(present), what)


@lru_cache(4096)
def _called(present: tuple[str, ...], what: str) -> tuple[str, ...]:
    wanted = ("answers", "answer") if what == "answers" else (what,)
    return tuple(name for each in wanted for name in present if name == each or name.strip().lower() == each)


def _paired(sources: tuple[str, ...], quotes: tuple[str, ...]) -> tuple[GoldPlace, ...]:
    """Pair sources and quotes; a single source has all quotes. Raises RowError."""
    if sources and quotes and len(sources) not in (1, len(quotes)):
        raise RowError(
            "wrong_type",
            f"{len(quotes)} quotes for {len(sources)} sources: give one source, or as many sources as quotes",
        )
    count = max(len(sources), len(quotes))
    some = [each * count if len(each) == 1 else each or ("",) * count for each in (sources, quotes)]
    return tuple(map(GoldPlace, *some))


def _value_at(row: Row, name: str) -> Any:
    """Return the value of a column, or, if `name` is `column.field`, of that field in the column's object."""
    column, dot, field = name.partition(".")
    if name in row or not dot:
        return value_of(row, name)
    value = value_of(row, column)
    return None if value is None else _value_at(object_of(value), field)


_AS_DECIMAL = re.compile(r"^(-?\d+)\.0$")


class TableOptions(ColumnOptions):
    """Columns of a table. Some formats have no lists, so a list of answers may be written as a string."""

    separator: OptionalName = Field(
        None,
        description="separator of answers in a string, as in `answer one|answer two`. Default: a list in JSON or "
        "Python syntax is several answers, any other string is one",
    )

    def answers_in(self, value: object) -> tuple[str, ...]:
        """As `ColumnOptions`; "1250.0" stands for 1250 too, as tables write whole numbers beside missing ones."""
        found = self.places_in(value, "answer")
        return tuple(dict.fromkeys(text for each in found for text in (each, _AS_DECIMAL.sub(r"\1", each))))

    def places_in(self, value: object, what: str) -> tuple[str, ...]:
        if isinstance(value, str) and self.separator is not None:
            value = value.split(self.separator)
        return answers_of(value, what)


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


BATCH_ROWS = 1_000
"""The number of rows converted to Python at a time."""


def rows_of(batch: pa.RecordBatch | pa.Table) -> Iterator[Row | Reject]:
    """Yield the rows of a batch; a row with a value that is broken or has no Python equivalent becomes a Reject."""
    try:
        # Arrow trusts a file's buffers: an offset that points outside them would crash the process.
        batch.validate(full=True)
        yield from batch.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException) as error:
        if batch.num_rows == 1:
            reason = "invalid_unicode" if "UTF8" in str(error) else "wrong_type"
            yield Reject(reason, f"a value of the row cannot be read: {ascii(str(error))[1:-1][:120]}")
        else:
            yield from chain.from_iterable(rows_of(batch.slice(place, 1)) for place in range(batch.num_rows))


class ColumnsDataset(RowDataset):
    """A dataset whose rows are passages or questions, in columns that the options name."""

    names_gold: ClassVar[bool] = True
    version: ClassVar[str] = "3"  # since 3, answers may be numbers, dates and what is written in a string
    options: ColumnOptions

    def read(self, row: Row, number: int) -> Iterator[Record]:
        return self.options.records(row)


class JsonLines(ColumnsDataset):
    """Passages, or questions, of a file with one JSON object a line, or an array of such objects.

    By default a row is a passage {"text", "title", "id"}, of which only the text is required, or a question
    {"question", "answers", "id"}, whose answers are a text, a number, a date, a list of them, or an object of SQuAD. A
    question may say where its answer stands, by a source ("guide.md", "guide.md#usage"), by a quote, or by both: these
    become its gold passages. Options name other columns. Blank lines are skipped.
    """

    example: ClassVar[str] = "jsonl:data/notes.jsonl?text=body&title=headline"
    Options: ClassVar[type[DatasetOptions]] = ColumnOptions

    def rows(self) -> Iterator[tuple[int, Any]]:
        if opens_with(self.source(), rb"\[\s*\{"):
            return stream_json(self.source(), "JSON lines or an array of objects")
        return json_lines(self.source())


class Csv(ColumnsDataset):
    """Passages, or questions, of a file of comma- or tab-separated values.

    The first row names the columns unless columns= does. By default a row is a passage with the columns text, title
    and id, of which only the text is required, or a question with the columns question and answers: one answer, a
    list of JSON or Python, or several answers separated by separator=. Options name other columns. A quoted field may
    hold delimiters, line breaks and doubled quotes. If a quote is not closed, only the line it is in is rejected.
    Spreadsheets may save UTF-16, or semicolons and tabs instead of commas: these are read too.
    """

    example: ClassVar[str] = "csv:data/notes.csv?text=body&title=headline"

    class Options(TableOptions):
        delimiter: str | None = Field(
            None,
            description="field delimiter: one character, or `tab`; if not given, the first of comma, tab, semicolon "
            "and bar with which the first row names the columns",
        )
        quoted: bool = Field(
            True, description="quotes enclose fields; false if they are ordinary characters, as in many TSV files"
        )
        columns: OptionalName = Field(
            None, description="column names, separated by commas, for a file whose first row is data"
        )

        @field_validator("delimiter")
        @classmethod
        def _is_one_character(cls, value: str | None) -> str | None:
            if value is None:
                return None
            value = {"tab": "\t", "\\t": "\t"}.get(value.lower(), value)
            if len(value) != 1 or value in '"\r\n':
                raise ValueError("expected one character, neither a quote nor a line break; write `tab` for a tab")
            return value

    options: Options

    def rows(self) -> Iterator[tuple[int, Any]]:
        names = tuple(self.options.columns.split(",")) if self.options.columns else None
        fault = None
        for delimiter in self.options.delimiter or ("," if names else ",\t;|"):
            dialect = Dialect(delimiter, self.options.quoted)
            present = names or columns_of(self.source(), dialect)
            try:
                present_columns(self.options, present, self.source())
                return delimited_rows(self.source(), dialect, names)
            except InputError as error:
                hint = f". If {delimiter!r} does not separate its columns, set delimiter="
                fault = fault or InputError(f"{error}{hint if len(present) == 1 else ''}")
        raise fault or AssertionError("no delimiter")


BATCH_BYTES = 64 << 20
"""Bytes of the texts that are converted at a time and that rows may share."""
LONGEST_CHAINED = 4 << 20
"""Bytes that a text may have where texts are stored by what they have beyond the one before, without a dictionary."""


class Parquet(ColumnsDataset):
    """Passages, or questions, of a Parquet file, or of all files `*.parquet` in a folder and its subfolders.

    By default a row is a passage with the columns text, title and id, of which only the text is required, or a
    question with the columns question and answers: a list of strings, or a string that is one answer, a JSON list,
    or several answers separated by separator=. Options name other columns, where `a.b` is the field b of a struct
    a. Only the columns in use are read. The offset is the row's number, which continues from file to file in the
    order of their names; names that start with "." or "_" are skipped.
    """

    example: ClassVar[str] = "parquet:data/wiki/?text=body&title=headline"
    Options: ClassVar[type[DatasetOptions]] = TableOptions

    def files(self) -> list[Path]:
        source = self.source()
        if not os.path.isdir(source):
            check_source(source)
            return [source]
        files = sorted(_listed(source))
        if not files:
            raise InputError(f"{source} has no files *.parquet. Name the folder they are in, or one file")
        return files

    def rows(self) -> Iterator[tuple[int, Any]]:
        return enumerate(chain.from_iterable(map(self._rows_of, self.files())), start=1)

    def _rows_of(self, path: Path) -> Iterator[Row | Reject]:
        """Yield the rows of one file, with one batch of a row group in memory at a time. Raises InputError."""
        check_source(path)
        position = 0
        try:
            with _opened(path) as file, _opened(path, file.schema) as shared:
                columns = present_columns(self.options, file.schema_arrow.names, path)
                for group in range(file.num_row_groups):
                    rows = max(1, min(BATCH_ROWS, BATCH_BYTES // _longest_shared(shared, group, columns)))
                    for batch in file.iter_batches(rows, row_groups=[group], columns=columns):
                        position += batch.num_rows
                        yield from rows_of(batch)
                if file.metadata.num_rows != position:
                    raise ValueError(f"its footer announces {file.metadata.num_rows} rows")
        except InputError:
            raise
        except (pa.ArrowException, OSError, MemoryError, ValueError) as error:
            raise InputError(
                f"{path}: not readable as Parquet after row {position} ({str(error)[:200]}). It has another format, is "
                "cut short or is broken: fetch or write it again"
            ) from error


def _opened(path: Path, shared: pq.ParquetSchema | None = None) -> pq.ParquetFile:
    """Open a file to read it batch by batch; with its schema, the texts that rows share stay a dictionary."""
    columns = [shared.column(number) for number in range(len(shared))] if shared else []
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    # With read-ahead it would hold the columns of all row groups at once.
    return pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True, read_dictionary=texts)


def _longest_shared(file: pq.ParquetFile, group: int, columns: list[str]) -> int:
    """Return the bytes, at least 1, of the longest text in a row group's dictionaries.

    Every row may be this text, which costs the file a few bits and memory all of it.
    """
    try:
        first = next(file.iter_batches(1, row_groups=[group], columns=columns), None)
    except OSError:  # texts that are stored as what they add to the one before; or the file is broken
        return LONGEST_CHAINED
    shared = chain.from_iterable(map(_dictionaries, first or ()))
    return max([1, *(pc.max(pc.binary_length(texts)).as_py() or 0 for texts in shared)])


def _dictionaries(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the dictionaries of a column, also those within its structs and lists."""
    if pa.types.is_dictionary(column.type):
        yield column.dictionary
    elif pa.types.is_nested(column.type):
        for part in column.flatten() if pa.types.is_struct(column.type) else [column.values]:
            yield from _dictionaries(part)


def _listed(folder: Path) -> Iterator[Path]:
    """Yield the Parquet files under a folder, in any order."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in names:
            if name.lower().endswith((".parquet", ".pq")) and not name.startswith((".", "_")):
                yield Path(parent, name)


_DPR_COLUMNS = ("id", "text", "title")


class DprWiki(RowDataset):
    """Wikipedia passages as DPR, Contriever, Atlas and Self-RAG use them; no questions.

    Tab-separated, quoted like CSV, compressed or not; the first line names the columns id, text and title, in any
    order. The offset is the line.
    """

    example: ClassVar[str] = "dpr_wiki:data/psgs_w100.tsv.gz"

    def rows(self) -> Iterator[tuple[int, Any]]:
        present = columns_of(self.source(), QUOTED_TSV)
        if not set(_DPR_COLUMNS) <= set(present):
            raise InputError(
                f"{self.source()}: the first line must name the columns {', '.join(_DPR_COLUMNS)}, separated by "
                f"tabs; it has {', '.join(repr(name[:40]) for name in present[:12])}"
            )
        return delimited_rows(self.source(), QUOTED_TSV)

    def read(self, row: Row, number: int) -> Iterator[Passage]:
        yield Passage(text_of(row, "title", blank=True), text_of(row, "text"), id_of(row, "id"))


class TitleText(RowDataset):
    """Passages of a JSON list of {title, text}; no questions.

    Other keys are skipped. The title is required but may be empty.
    """

    example: ClassVar[str] = "titletext:data/2wikimultihopqa_corpus.json"

    def rows(self) -> Iterator[tuple[int, Any]]:
        return stream_json(self.source(), "a JSON array of {title, text}")

    def read(self, row: Row, number: int) -> Iterator[Passage]:
        text, title = text_of(row, "text"), text_of(row, "title", blank=True)
        yield Passage(title, text, title)
