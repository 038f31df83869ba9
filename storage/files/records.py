"""Records: JSON files, written whole, and read back with a check of their bytes and of what they hold.

A file of *lines* grows: what is appended is on the disk before the call returns, whatever becomes of the process. A
line is JSON and the checksum of it. It begins with the newline that ends the one before, so that a line which a kill
tore in its middle spoils no other. In a bucket, where nothing grows, lines are objects.
"""

import json
import re
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from vitalfew.storage.files.checksums import Damaged
from vitalfew.storage.files.places import medium

Record = TypeVar("Record")

_FIRST = {"vitalfew": 1}
"""The first member of a sealed record: the version of the form."""
_SEAL = "seal"
_END = 36
"""The bytes of a seal, and the `"\\n}\\n` that follows it."""


class DamagedRecord(Damaged):
    """A record of the store (JSON) is not as it was written: the message names the file and what is wrong with it."""


def write_json(path: Path, value: Any) -> None:
    """Write a record. An object is sealed: its last member is a checksum of the other bytes. Raises NotWritten."""
    medium(path).write_bytes(path, _sealed(value).encode())


def write_json_once(path: Path, value: Any) -> bool:
    """Write a record that nobody is to replace; return False if another process was first. Raises NotWritten."""
    return medium(path).write_once(path, _sealed(value).encode())


def rewrite_json(path: Path, change: Callable[[], Any]) -> None:
    """Replace a record by `change` of it, with no other change in between: see `Directory.rewrite`,
    which may call it again. Raises NotWritten, and what `change` raises; then the record stays."""
    medium(path).rewrite(path, lambda temporary: temporary.write_bytes(_sealed(change()).encode()))


def _sealed(value: Any) -> str:
    if not isinstance(value, dict):
        return _text(value)
    blank = _text(_FIRST | value | {_SEAL: ""})
    return _text(_FIRST | value | {_SEAL: _digest(blank.encode())})


def read_json(path: Path) -> Any:
    """Read what `write_json` wrote. Raises FileNotFoundError, and DamagedRecord where the file is not JSON (any more)
    or not as it was sealed; one without a seal (written by hand) is read as it is."""
    try:
        return _opened(medium(path).read_bytes(path))
    except ValueError as error:  # not UTF-8, not JSON, not as it was sealed
        raise DamagedRecord(f"{path} is damaged: {error}") from error


def _text(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _opened(content: bytes) -> Any:
    """The value of a record, without its seal. Raises ValueError."""
    opening, closing = _text(_FIRST).encode()[:-3], f'\n "{_SEAL}": "'.encode()
    before, seal, after = content[:-_END], content[-_END:-4], content[-4:]
    # Either end says that it is sealed, so that damage of one cannot hide it.
    sealed = content.startswith(opening) or before.endswith(closing)
    if sealed and _digest(before + after) != seal.decode():
        raise ValueError("it differs from what was written (seal)")
    value = json.loads(content)
    if isinstance(value, dict):
        return {name: member for name, member in value.items() if name not in (*_FIRST, _SEAL)}
    return value


def read_record(path: Path, kind: Callable[[dict[str, Any]], Record]) -> Record:
    """Read a record of the store. Raises FileNotFoundError, and DamagedRecord where it is not as it was written."""
    value = read_json(path)
    try:
        return kind(value)
    except Damaged:  # of another file, which it names
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        named = error if isinstance(error, ValueError) else f"{type(error).__name__} {error}"
        raise DamagedRecord(f"{path} is damaged: {named}") from error


_LINE = re.compile(rb"(.*) ([0-9a-f]{32})", re.DOTALL)


class Lines(NamedTuple):
    """The lines that were appended to a file, in order, without those that a kill tore; and how many were changed
    since."""

    values: list[Any]
    damaged: int


def append_lines(path: Path, values: Iterable[Any]) -> None:
    """Append lines and flush them to the disk; several threads and processes may at once. Raises NotWritten."""
    contents = [json.dumps(value).encode() for value in values]
    medium(path).append(path, b"".join(b"\n%b %b" % (each, _digest(each).encode()) for each in contents))


def read_lines(path: Path) -> Lines:
    """Read what `append_lines` wrote; nothing where there is no file."""
    try:
        content = medium(path).read_appended(path)
    except FileNotFoundError:
        return Lines([], 0)
    whole = [*filter(None, map(_LINE.fullmatch, content.split(b"\n")))]
    good = [json.loads(match[1]) for match in whole if _digest(match[1]) == match[2].decode()]
    return Lines(good, len(whole) - len(good))
