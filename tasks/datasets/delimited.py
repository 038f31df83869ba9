"""Comma- and tab-separated files, row by row, by the standard library's csv module where fields may be quoted.

The csv module alone loses rows where a quote is not closed: it takes all that follows, up to the next quote, for one
field. Here a row whose quotes do not match is a Reject of its first line, and reading goes on at the second.
"""

import csv
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tasks.datasets.base import InputError, Reject
from tasks.datasets.files import RowError, bounded_lines, open_source

ROW_LIMIT = 4 << 20
"""Bytes of a line, and characters of a row: more is taken for a quote that is never closed."""
_REREADING = 4
"""How often the file's length may be read again after unclosed quotes, so that no file takes a quadratic time."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How fields are told apart. Where they are not quoted, a field holds neither the delimiter nor a line's end."""

    delimiter: str = ","
    quoted: bool = True


CSV = Dialect()
TSV = Dialect("\t", quoted=False)
QUOTED_TSV = Dialect("\t")

Row = dict[str, str] | Reject


def delimited_rows(
    path: Path, dialect: Dialect = CSV, columns: tuple[str, ...] | None = None
) -> Iterator[tuple[int, Row]]:
    """Stream (line on which the row starts, {column: field}); blank lines are passed over.

    The first row names the columns unless `columns` does. A row that cannot be used is a Reject. Raises InputError
    where the file cannot be read, or its first row cannot be columns' names.
    """
    with open_source(path) as source:
        rows = _quoted_rows(source, dialect) if dialect.quoted else _plain_rows(source, dialect)
        names = list(columns) if columns else _header(path, rows, dialect)
        for number, fields in rows:
            if isinstance(fields, RowError):
                yield number, fields.reject()
            elif len(fields) == len(names):
                yield number, dict(zip(names, fields, strict=True))
            else:
                shown = ", ".join(repr(name[:40]) for name in islice(names, 12))
                yield number, Reject("malformed_row", f"{len(fields)} fields where {len(names)} are due: {shown}")


def columns_of(path: Path, dialect: Dialect = CSV) -> tuple[str, ...]:
    """The names in the first row. Raises InputError."""
    with open_source(path) as source:
        rows = _quoted_rows(source, dialect) if dialect.quoted else _plain_rows(source, dialect)
        return tuple(_header(path, rows, dialect))


def _header(path: Path, rows: Iterator[tuple[int, list[str] | RowError]], dialect: Dialect) -> list[str]:
    """The columns' names. Raises InputError."""
    number, names = next(rows, (1, RowError("malformed_row", "there is none")))
    if isinstance(names, RowError):
        raise InputError(f"{path}: line {number} has to name the columns: {names.detail}")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: line {number} names the column {twice[0]!r} twice. Rename one")
    return names


def _plain_rows(source: BufferedReader, dialect: Dialect) -> Iterator[tuple[int, list[str] | RowError]]:
    """Rows that are lines."""
    for number, line, fault in lines_of(source):
        content = line.rstrip("\r\n")
        if fault:
            yield number, fault
        elif content:
            yield number, content.split(dialect.delimiter)


class Line(NamedTuple):
    """A line with its end; `fault` where it is not UTF-8 or too long."""

    number: int
    text: str
    fault: RowError | None = None


def lines_of(source: BufferedReader) -> Iterator[Line]:
    """The lines of a file, in bounded memory whatever it holds. One with a fault has what text there is."""
    for number, raw in enumerate(bounded_lines(source, ROW_LIMIT), start=1):
        if raw is None:
            yield Line(number, "", RowError("over_long", f"line {number} is longer than {ROW_LIMIT:,} bytes"))
            continue
        try:
            yield Line(number, raw.decode())
        except UnicodeDecodeError as error:
            fault = RowError("invalid_unicode", f"not UTF-8 at byte {error.start + 1} of line {number}")
            yield Line(number, raw.decode(errors="replace"), fault)


def _quoted_rows(source: BufferedReader, dialect: Dialect) -> Iterator[tuple[int, list[str] | RowError]]:
    """Rows that the csv module reads."""
    # A limit of the whole process, which must not come before the limit of a row.
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
            number, fault = lines.take()
            if fault or fields:
                yield number, fault or fields


def _explained(error: csv.Error) -> str:
    """What the csv module found, in words that help with a file."""
    found = str(error)
    if "new-line character" in found:
        return "a carriage return within the row: lines have to end with a line feed"
    return f"{found}; a quote within a quoted field has to be doubled" if "expected after" in found else found


class _RowLines:
    """The lines of a file for csv.reader, which remembers those of the row that is being read."""

    def __init__(self, source: BufferedReader) -> None:
        self._fresh = lines_of(source)
        self._again: deque[Line] = deque()
        self._row: list[Line] = []
        self._size = 0
        self._credit = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """The next line. Raises RowError where a row cannot go on."""
        line = self._again.popleft() if self._again else self._read()
        self._row.append(line)
        self._size += len(line.text)
        if self._size > ROW_LIMIT:
            raise RowError("malformed_row", f"a quote is not closed within {ROW_LIMIT:,} characters")
        return line.text

    def _read(self) -> Line:
        line = next(self._fresh, None)
        if line is not None:
            self._credit += _REREADING * len(line.text)
            return line
        if self._row:
            raise RowError("malformed_row", "a quote is not closed before the end of the file")
        raise StopIteration

    def take(self) -> tuple[int, RowError | None]:
        """The row is complete: the line it starts on and the first fault of its lines. The next line starts another."""
        number = self._row[0].number
        fault = next((line.fault for line in self._row if line.fault), None)
        self._row.clear()
        self._size = 0
        return number, fault

    def give_up(self, fault: RowError) -> tuple[int, RowError]:
        """The row has no end: its first line is given up, and the others are read again."""
        (number, _, earlier), *following = self._row
        size, last = self._size, self._row[-1].number
        self.take()
        if size <= self._credit:
            self._again.extendleft(reversed(following))
            self._credit -= size
        elif following:
            fault = RowError(fault.reason, f"lines {number} to {last} are given up: {fault.detail}")
        return number, earlier or fault
