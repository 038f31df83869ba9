"""Rows of a source: JSON lines and JSON arrays as a stream, and the checks of a row's values.

A row, or a part of one, that cannot be used raises `RowError`; the format turns it into a `Reject` and reads on.
"""

import ast
import json
import math
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from io import StringIO
from itertools import islice
from pathlib import Path
from token import NUMBER, STRING
from tokenize import TokenError, generate_tokens
from typing import Any, TypeVar

from vitalfew.tasks.datasets.base import InputError, Record, Reject
from vitalfew.tasks.datasets.base import RowError as RowError  # for the formats that read rows
from vitalfew.tasks.datasets.files import FileDataset, bounded_lines, open_source, uncounted
from vitalfew.tasks.datasets.json_stream import BrokenJson, JsonReader, over_long

REASONS = {
    "malformed_json": "a line or a column that should hold JSON does not (a broken JSON array is an error of the file)",
    "wrong_type": "the row, or a value the format needs, has another JSON type than the format expects",
    "missing_column": "a key that the format or one of its options names is absent",
    "empty_text": "a passage, a question or an answer is blank",
    "invalid_unicode": "the text has bytes that are not UTF-8 or a lone surrogate, and cannot be stored as UTF-8",
    "malformed_row": "a row of a delimited file has unmatched quotes, or more or fewer fields than columns",
    "over_long": "a line, row or file is longer than the format reads at once",
    "no_gold_passage": "the source names a gold passage, but no passage that could be read supports the question",
    "outside_folder": "a symbolic link leads out of the given folder",
    "unreadable_file": "a file of a folder cannot be opened, is an archive or is broken",
    "binary_file": "a file of a folder is not text",
    "missing_reader": "a file of a folder has a format whose reader is not installed",
    "malformed_front_matter": "fields at the head of a file are not YAML or TOML; the readable ones are kept",
    "over_time": "reading a file of a folder takes longer than `load.document_seconds`",
    "over_memory": "reading a file of a folder takes more memory than `load.document_mb`",
    "encrypted": "a file of a folder needs a password",
    "no_text": "a file of a folder has pages without text, such as scans",
    "unknown_question": "relevance judgements are about a question that is missing or was rejected",
    "unknown_label": "the gold label is not one of the labels that the format or the row offers",
    "left_out": "an option of the format leaves this row out",
}
"""Every reason for which a dataset rejects a row."""

T = TypeVar("T")
Row = dict[str, Any]


class RowDataset(FileDataset):
    """A dataset whose records follow from single rows of a file, which are JSON lines unless a format overrides it."""

    def rows(self) -> Iterator[tuple[int, Any]]:
        """Stream (number, row); a Reject stands for a row that cannot be read. Raises InputError."""
        return json_lines(self.source())

    @abstractmethod
    def read(self, row: Row, number: int) -> Iterator[Record]:
        """Yield the records of a row. Raises RowError."""

    def records(self) -> Iterator[tuple[int, Record]]:
        return records_of(self.rows(), self.read)


def records_of(
    rows: Iterable[tuple[int, Any]], read: Callable[[Row, int], Iterable[Record]]
) -> Iterator[tuple[int, Record]]:
    """Yield the records that `read` makes of every row, with the row's number; a RowError becomes a Reject."""
    for number, row in rows:
        try:
            for record in read(object_of(row), number):
                yield number, record
        except RowError as error:
            yield number, error.reject()


def attempt(where: str, read: Callable[..., T], *arguments: Any, **named: Any) -> T | Reject:
    """Return what `read` returns, or a Reject that names the part `where` of a row if it raises RowError."""
    try:
        return read(*arguments, **named)
    except RowError as error:
        return error.reject(where)


def each_of(row: Row, key: str, read: Callable[..., T], *further: Any, where: str = "") -> Iterator[T | Reject]:
    """Yield what `read` makes of every entry of the list at a key, or a Reject that names the entry. Raises RowError if
    there is no list."""
    for place, entry in enumerate(list_of(row, key)):
        yield attempt(f"{where}{key}[{place}]", read, entry, *further)


def stream_json(path: Path, expects: str, key: str | None = None, what: str = "rows") -> Iterator[tuple[int, Any]]:
    """Stream (record number, value) from a JSON file, with one value in memory at a time.

    A Reject stands for a value that is too long to be held.

    The records are a top-level array, or the array at `key` of a top-level object, which must have some. For messages,
    `expects` says what the format expects, and `what` its records are. Raises InputError if the JSON is cut short or
    broken.
    """
    number = 0
    with open_source(path) as source:
        reader = JsonReader(source)
        try:
            if (first := reader.peek()) != ("{" if key else "["):
                kinds = {"": "only white space", "[": "a JSON array", "{": "a JSON object"}
                hint = "; for one JSON object a line, use the format jsonl" if first == "{" else ""
                holds = kinds.get(first, f"no JSON ({first!r} first)")
                raise InputError(f"{path} holds {holds}, and this format expects {expects}{hint}")
            for row in reader.array_at(key) if key else reader.array():
                number += 1
                yield number, row
            reader.end()
        except BrokenJson as error:
            raise error.told(path, f"record {number}") from error
    if key and not number:
        raise InputError(f'{path} has no {what} in a top-level "{key}": this format expects {expects}')


LINE_LIMIT = 64 << 20
"""The longest JSON line, in bytes, so that a file without line breaks is not read into memory as a whole."""


def json_lines(path: Path) -> Iterator[tuple[int, Row | Reject]]:
    """Stream (line number, object) from a file of JSON lines; a line without an object becomes a Reject.

    Skips blank lines. Raises InputError if the file cannot be read.
    """
    with open_source(path) as source:
        for number, line in enumerate(bounded_lines(source, LINE_LIMIT), start=1):
            if line is None:
                yield number, Reject("over_long", f"the line is longer than {LINE_LIMIT:,} bytes")
            elif not line.isspace():
                yield number, attempt("", _object_in, line)


def _object_in(line: bytes) -> Row:
    """Parse one line as a JSON object. Raises RowError."""
    if reason := over_long(line):
        raise RowError("over_long", reason)
    try:
        return object_of(json.loads(line.decode("utf-8")))
    except UnicodeDecodeError as error:
        fault = f"not UTF-8 at byte {error.start + 1} of the line ({error.reason})"
        raise RowError("invalid_unicode", fault) from error
    except json.JSONDecodeError as error:
        excerpt = error.doc[error.pos : error.pos + 30].strip()
        fault = f"{error.msg.removesuffix(' at')} at column {error.pos + 1}, got {excerpt!r}"
        raise RowError("malformed_json", fault) from error
    except (ValueError, RecursionError) as error:
        # An integer has too many digits, or values are nested deeper than the interpreter's stack.
        raise RowError("malformed_json", str(error)[:120]) from error


def json_rows(path: Path, expects: str) -> Iterator[tuple[int, Any]]:
    """Stream (number, value) from a file that is a JSON array or JSON lines; a Reject stands for a broken line.

    `expects`: what the format expects, for messages. Raises InputError.
    """
    return json_lines(path) if opens_with(path, rb"\{") else stream_json(path, expects)


PEEKED = 1 << 12
"""Bytes in which a file shows what it is."""


def opens_with(path: Path, start: bytes) -> bool:
    """Return whether a file starts with this expression, after white space. Raises InputError."""
    with uncounted(), open_source(path) as source:
        return re.match(rb"\s*" + start, source.peek(PEEKED)) is not None


def kind_of(value: object) -> str:
    """Describe a value of JSON or of a table for messages: its type, and the start of a scalar value."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case dict():
            return "an object"
        case list():
            return f"a list of {len(value)}"
        case int() | float():
            return f"a number ({str(value)[:40]})"
    return f"a {'string' if isinstance(value, str) else type(value).__name__} ({repr(value)[:40]})"


def object_of(row: object) -> Row:
    """Return the row if it is a JSON object. Raises RowError, also for a row that could not be read."""
    if isinstance(row, Reject):
        raise RowError(row.reason, row.detail)
    if not isinstance(row, dict):
        raise RowError("wrong_type", f"{kind_of(row)} instead of an object")
    return row


def value_of(row: Row, key: str) -> Any:
    """Return the value of a key that the row must have. Raises RowError."""
    if key not in row:
        present = ", ".join(repr(name[:40]) for name in islice(row, 12)) or "none"
        raise RowError("missing_column", f"no {key!r}; the keys present: {present}")
    return row[key]


def list_of(row: Row, key: str) -> list[Any]:
    """Return the list at a key. Raises RowError."""
    value = value_of(row, key)
    if not isinstance(value, list):
        raise RowError("wrong_type", f"{key!r} is {kind_of(value)}; expected a list")
    return value


def text_of(row: Row, key: str, *, blank: bool = False, strip: bool = True) -> str:
    """Return the string at a key, stripped unless `strip` is false. Raises RowError, also if blank unless `blank`."""
    return check_text(value_of(row, key), repr(key), blank=blank, strip=strip)


def check_text(value: object, name: str, *, blank: bool = False, strip: bool = True) -> str:
    """Return `value` if it is a non-blank Unicode string that can be stored. Raises RowError, calling it `name`."""
    if not isinstance(value, str):
        raise RowError("wrong_type", f"{name} is {kind_of(value)}; expected a string")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        surrogate = f"U+{ord(value[error.start]):04X}"
        raise RowError("invalid_unicode", f"{name} has the lone surrogate {surrogate} at {error.start}") from error
    stripped = value.strip()
    if not (stripped or blank):
        raise RowError("empty_text", f"{name} is blank")
    return stripped if strip else value


def id_of(row: Row, key: str) -> str:
    """Return a row's name in its source, from a string, a number or a date, "" without any. Raises RowError."""
    return text_of_scalar(row.get(key), repr(key))


def answers_of(value: object, what: str = "answer") -> tuple[str, ...]:
    """Return the unique gold answers that a value holds, in order: one, or a list, each a text, a number or a date;
    SQuAD's object of them; or such a list or object written in a string, by JSON, Python or NumPy. Null, NaN and blank
    texts are no answers. Raises RowError. `what` they are, for messages, if not answers."""
    return texts_in(written_in(value, what) if isinstance(value, str) else value, what)


def texts_in(value: object, what: str) -> tuple[str, ...]:
    """As `answers_of`; a string is one text, whatever is written in it. Raises RowError."""
    if isinstance(value, dict):
        value = value.get("text", value)
    given = value if isinstance(value, list) else [value]
    # SQuAD's answers may also be a list of objects.
    texts = [each["text"] if isinstance(each, dict) and "text" in each else each for each in given]
    names = [f"{what} {place}" for place in range(len(texts))] if len(texts) > 1 else [f"the {what}"]
    return tuple(dict.fromkeys(filter(None, map(text_of_scalar, texts, names))))


def text_of_scalar(value: object, name: str) -> str:
    """Return the text of a string, a number or a date; "" of null and NaN. Raises RowError, calling it `name`."""
    match value:
        case None:
            return ""
        case bool():
            raise RowError("wrong_type", f'{name} is {kind_of(value)}: write a text in quotes, such as "yes"')
        case float() if math.isnan(value):
            return ""
        case float() if value.is_integer():
            return str(int(value))
        case datetime() if value.time() == time():
            return value.date().isoformat()
        case int() | float() | Decimal():
            return str(value)
        case date() | time():
            return value.isoformat()
        case str():
            return check_text(value, name, blank=True)
    raise RowError(
        "wrong_type",
        f"{name} is {kind_of(value)}; expected a text, a number, a date or a list of them. To read a field of an "
        "object, name it: answers=COLUMN.FIELD",
    )


MOST_LITERAL = 1 << 18
"""Characters of a literal of Python: to tokenise more takes seconds."""
_LITERAL = re.compile(r"""[\[{]\s*["']|(?=\[.*\]\Z)(?:\[\s*[]\[{0-9-]|.*,)""", re.DOTALL)
"""How a list or an object that is written in a string looks."""


def written_in(text: str, what: str) -> Any:
    """Return the list or object that is written in a string; else the string. Raises RowError where one is broken."""
    inner = text.strip()
    if not _LITERAL.match(inner):
        return text
    for read in (json.loads, _literal):
        try:
            return read(inner)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TokenError):
            continue
    raise RowError("malformed_json", f'the {what}s {inner[:40]!r} are not a list of JSON or Python: write ["…", "…"]')


def _literal(text: str) -> Any:
    """Read a literal of Python, or a list as NumPy prints it, without commas. Raises ValueError, SyntaxError and
    others."""
    if len(text) > MOST_LITERAL:
        raise ValueError("too long")
    words: list[str] = []
    before = None
    for token in generate_tokens(StringIO(text).readline):
        own = token.type if token.type in (STRING, NUMBER) else None
        words += [","] if own and before else []
        words.append(token.string)
        before = own
    return ast.literal_eval(" ".join(words).strip())
