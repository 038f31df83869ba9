"""What the row-based formats share: JSON lines, the records of a row, gold answers."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from vitalfew.tasks.datasets.base import Record, Reject
from vitalfew.tasks.datasets.delimited import QUOTED_TSV, delimited_rows
from vitalfew.tasks.datasets.files import (
    RowError,
    bounded_lines,
    check_text,
    kind_of,
    open_source,
    parse_line,
    stream_json,
)

LINE_LIMIT = 64 << 20
"""The longest JSON line, in bytes, so that a file without line breaks is not read into memory as a whole."""


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | Reject]]:
    """Stream (line number, object) from a file of JSON lines; a line without an object becomes a Reject.

    Skips blank lines. Raises InputError if the file cannot be read.
    """
    with open_source(path) as source:
        for number, line in enumerate(bounded_lines(source, LINE_LIMIT), start=1):
            if line is None:
                yield number, Reject("over_long", f"the line is longer than {LINE_LIMIT:,} bytes")
                continue
            if line.isspace():
                continue
            try:
                yield number, parse_line(line)
            except RowError as error:
                yield number, error.reject()


def tsv_or_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | Reject]]:
    """Stream (line number, row) from JSON lines, or from a TSV whose first line names the columns.

    A file is JSON lines if its first non-blank line starts with "{". Raises InputError.
    """
    return json_lines(path) if _opens_with(path, b"{") else delimited_rows(path, QUOTED_TSV)


def json_rows(path: Path, expects: str) -> Iterator[tuple[int, Any]]:
    """Stream (number, value) from a file that is a JSON array or JSON lines; a Reject stands for a broken line.

    `expects`: what the format expects, for messages. Raises InputError.
    """
    return json_lines(path) if _opens_with(path, b"{") else stream_json(path, expects)


def _opens_with(path: Path, bracket: bytes) -> bool:
    """Whether a file's first non-blank line starts with `bracket`. Raises InputError."""
    with open_source(path) as source:
        # Read in pieces, because a file without line breaks is one line.
        first = next((part for part in iter(partial(source.readline, 1024), b"") if not part.isspace()), b"")
    return first.lstrip().startswith(bracket)


def records_of(
    rows: Iterable[tuple[int, Any]], read: Callable[[Any], Iterable[Record]]
) -> Iterator[tuple[int, Record]]:
    """Yield the records that `read` returns for every row, with the row's number; a RowError becomes a Reject."""
    for number, row in rows:
        if isinstance(row, Reject):
            yield number, row
            continue
        try:
            for record in read(row):
                yield number, record
        except RowError as error:
            yield number, error.reject()


def answers_of(value: object) -> tuple[str, ...]:
    """Return the unique gold answers of a string or a list of strings, in order; () for null. Raises RowError."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (check_text(value, "the answer"),)
    if not isinstance(value, list):
        raise RowError("wrong_type", f"the answers are {kind_of(value)}; expected a string or a list of strings")
    return tuple(dict.fromkeys(check_text(answer, f"answer {index}") for index, answer in enumerate(value)))
