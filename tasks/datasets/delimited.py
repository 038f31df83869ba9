"""Comma- and tab-separated files, row by row; the standard library's csv module reads those with quoted fields.

The csv module alone loses rows after an unclosed quote: it takes everything up to the next quote as one field. Here, if
a row's quotes do not match, its first line becomes a Reject and reading continues at its second line.

Why not DuckDB 2.0's `read_csv(store_rejects=true)`: after an unclosed quote it drops all lines up to the next quote and
records only one of them; a quote still open at the end of the file drops the rest without a record; a carriage return
within a row ends the whole read; and the rows that it accepts have no line number.
"""

import csv
from collections import deque
from collections.abc import Iterator
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from vitalfew.tasks.datasets.base import InputError, Reject
from vitalfew.tasks.datasets.files import bounded_lines, open_source
from vitalfew.tasks.datasets.rows import RowError, json_lines, opens_with

ROW_LIMIT = 4 << 20
"""The largest line, in bytes, and row, in characters: a longer row counts as one with an unclosed quote."""
_REREADING = 4
"""How many times the file's length may be read again after unclosed quotes, so that no file takes quadratic time."""


class Dialect(NamedTuple):
    """How a row separates its fields. Without quotes, a field can hold neither the delimiter nor a line break."""

    delimiter: str = ","
    quoted: bool = True


CSV = Dialect()
TSV = Dialect("\t", quoted=False)
QUOTED_TSV = Dialect("\t")
Fields = tuple[int, list[str] | RowError]
"""The line on which a row starts, and its fields, or why it cannot be used."""


def delimited_rows(
    path: Path, dialect: Dialect = CSV, columns: tuple[str, ...] | None = None
) -> Iterator[tuple[int, dict[str, str] | Reject]]:
    """Stream (line on which the row starts, {column: field}) and skip blank lines.

    The first row names the columns unless `columns` does. A row that cannot be used is a Reject. Raises InputError if
    the file cannot be read or its first row cannot be column names.
    """
    with open_source(path) as source:
        rows = _fields(source, dialect)
        names = columns or _header(path, rows)
        for number, fields in rows:
            if isinstance(fields, RowError):
                yield number, fields.reject()
            elif len(fields) == len(names):
                yield number, dict(zip(names, fields, strict=True))
            else:
                shown = ", ".join(repr(name[:40]) for name in islice(names, 12))
                yield number, Reject("malformed_row", f"{len(fields)} fields instead of {len(names)}: {shown}")


def columns_of(path: Path, dialect: Dialect = CSV) -> tuple[str, ...]:
    """Return the names in the first row. Raises InputError."""
    with open_source(path) as source:
        return _header(path, _fields(source, dialect))


def _header(path: Path, rows: Iterator[Fields]) -> tuple[str, ...]:
    """Return the column names. Raises InputError."""
    number, names = next(rows, (1, RowError("malformed_row", "the file has no rows")))
    if isinstance(names, RowError):
        raise InputError(f"{path}: line {number} must name the columns: {names.detail}")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"{path}: line {number} names the column {twice[0]!r} twice. Rename one")
    return tuple(names)


def _fields(source: BufferedReader, dialect: Dialect) -> Iterator[Fields]:
    if dialect.quoted:
        yield from _quoted_rows(source, dialect)
        return
    for number, line, fault in lines_of(source):
        content = line.rstrip("\r\n")
        if fault or content:
            yield number, fault or content.split(dialect.delimiter)


class TextLine(NamedTuple):
    """A line including its line break; `fault` is set if the line is not UTF-8 or too long."""

    number: int
    text: str
    fault: RowError | None = None


def lines_of(source: BufferedReader) -> Iterator[TextLine]:
    """Yield the lines of a file, in bounded memory whatever it holds. A faulty line keeps the text that is readable."""
    for number, raw in enumerate(bounded_lines(source, ROW_LIMIT), start=1):
        if raw is None:
            yield TextLine(number, "", RowError("over_long", f"line {number} is longer than {ROW_LIMIT:,} bytes"))
            continue
        try:
            yield TextLine(number, raw.decode())
        except UnicodeDecodeError as error:
            fault = RowError("invalid_unicode", f"not UTF-8 at byte {error.start + 1} of line {number}")
            yield TextLine(number, raw.decode(errors="replace"), fault)


def _quoted_rows(source: BufferedReader, dialect: Dialect) -> Iterator[Fields]:
    """Yield the rows that the csv module reads; a row may go over several lines."""
    # This limit holds for the whole process and must not take effect before the limit of a row.
    csv.field_size_limit(max(csv.field_size_limit(), 2 * ROW_LIMIT))
    lines = _RowLines(source)
    reader = csv.reader(lines, delimiter=dialect.delimiter, strict=True)
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except RowError as error:
            yield lines.give_up(error)
        except csv.Error as error:
            yield lines.give_up(RowError("malformed_row", _explained(error)))
        else:
            row = lines.taken()
            fault = next((line.fault for line in row if line.fault), None)
            if fault or fields:
                yield row[0].number, fault or fields


def _explained(error: csv.Error) -> str:
    """Describe an error of the csv module in words that help to fix the file."""
    message = str(error)
    if "new-line character" in message:
        return "a carriage return within the row: lines must end with a line feed"
    return f"{message}; a quote within a quoted field must be doubled" if "expected after" in message else message


class _RowLines:
    """The lines of a file for csv.reader. Remembers the lines of the row that is being read."""

    def __init__(self, source: BufferedReader) -> None:
        self._fresh = lines_of(source)
        self._again: deque[TextLine] = deque()
        self._row: list[TextLine] = []
        self._size = 0
        self._credit = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """Return the next line. Raises RowError if the row is too long or the file ends within it."""
        line = self._again.popleft() if self._again else self._read()
        self._row.append(line)
        self._size += len(line.text)
        if self._size > ROW_LIMIT:
            raise RowError("malformed_row", f"a quote is not closed within {ROW_LIMIT:,} characters")
        return line.text

    def _read(self) -> TextLine:
        line = next(self._fresh, None)
        if line is not None:
            self._credit += _REREADING * len(line.text)
            return line
        if self._row:
            raise RowError("malformed_row", "a quote is not closed before the end of the file")
        raise StopIteration

    def taken(self) -> list[TextLine]:
        """End the row and return its lines."""
        row, self._row, self._size = self._row, [], 0
        return row

    def give_up(self, fault: RowError) -> Fields:
        """Give up the first line of a row that has no end, and read its other lines again."""
        size = self._size
        first, *following = self.taken()
        if size <= self._credit:
            self._again.extendleft(reversed(following))
            self._credit -= size
        elif following:
            last = following[-1].number
            fault = RowError(fault.reason, f"lines {first.number} to {last} are skipped: {fault.detail}")
        return first.number, first.fault or fault


def tsv_or_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | Reject]]:
    """Stream (line number, row) from JSON lines, or from a TSV whose first line names the columns.

    A file is JSON lines if its first non-blank line starts with "{". Raises InputError.
    """
    return json_lines(path) if opens_with(path, rb"\{") else delimited_rows(path, QUOTED_TSV)
