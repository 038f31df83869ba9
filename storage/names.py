"""The names in a store's records: tables, artifacts, files, runs.

A store may be copied from elsewhere. What its records name becomes a path, a word of SQL or a line on a terminal; a
record with another name than these is damaged.

In a directory an artifact's lock keeps its writers apart, and a shard's file is `00007.parquet`. In a bucket a lease
can be lost without its holder's knowledge. There the name has the attempt that wrote it,
`00007.by-<run>-<attempt>.parquet`: nobody replaces another's file, and the done-marker says whose counts.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from vitalfew.storage import files
from vitalfew.storage.files import Record

_FINGERPRINT = r"[0-9a-f]{16}"
_TABLE = r"[A-Za-z][A-Za-z0-9_]{0,63}"
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}"

Table = Annotated[str, StringConstraints(pattern=rf"^{_TABLE}$")]
ArtifactName = Annotated[str, StringConstraints(pattern=rf"^{_TABLE}/{_FINGERPRINT}$")]
FilePath = Annotated[str, StringConstraints(pattern=rf"^{_TABLE}/{_FINGERPRINT}(/{_PART})+$", max_length=1024)]
"""The path of a shard's file below its store. It stays one without the attempt in its name."""
RUN_ID = _PART
"""The pattern of a run's id, which names a file."""
RunId = Annotated[str, StringConstraints(pattern=rf"^{RUN_ID}$")]
IndexName = RunId
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$", max_length=200)]
"""A stage, a flow, a table's note."""
Number = Annotated[int, Field(ge=0, lt=2**31)]
"""The number of a generation of an index, from 1; 0 for none."""
Process = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]+(-[0-9A-Za-z_]+){0,2})?$", max_length=100)]
"""The name of a process (storage/files/processes.py); empty if it is not known."""


def _moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("it has no time zone")
    return text


Moment = Annotated[str, AfterValidator(_moment)]
"""A date and time as ISO 8601 writes it, with its time zone."""

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
"""Pydantic's settings for records: unknown members, infinity and NaN are errors."""


class Strict:
    """Base of a record that is a dataclass."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT


def read_named(path: Path, kind: type[Record], name: Callable[[Record], str]) -> Record:
    """Read a record that says whose it is. Raises FileNotFoundError, and DamagedRecord where it is not as it was
    written, or is the record of another `name` than the file's."""

    def named(value: dict[str, Any]) -> Record:
        record: Record = validated(kind, value)
        if name(record) != path.stem:
            raise ValueError(f"it is the record of {name(record)}")
        return record

    return files.read_record(path, named)


_adapter = cache(TypeAdapter)


def validated(kind: Any, value: Any) -> Any:
    """The record of this type that a value of JSON is. Raises ValueError, in one line."""
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}, got {first['input']!r:.80}") from None


_ATTEMPT = re.compile(r"\.by-[\w-]+(?=\.)")
_current: ContextVar[str] = ContextVar("attempt", default=f"unknown-{token_hex(6)}")


@contextmanager
def attempt(run_id: str) -> Iterator[None]:
    """Within the block, what is written is an attempt's of this run."""
    token = _current.set(f"{re.sub(r'[^0-9A-Za-z_-]', '-', run_id)}-{token_hex(2)}")
    try:
        yield
    finally:
        _current.reset(token)


def attempt_path(plain: Path) -> Path:
    """The path to which this attempt writes a file of a shard, given its plain path."""
    if not files.is_in_bucket(plain):
        return plain
    shard, _, suffix = plain.name.partition(".")
    return plain.with_name(f"{shard}.by-{_current.get()}.{suffix}")


def copied_path(path: str, content: str) -> str:
    """Name the copy of a shard's file in a bucket, where names are written once; other files keep their name.

    `content`: a hash of all of the artifact's files, so that another copy of the same has the same names.
    """
    folder, _, name = path.rpartition("/")
    shard, _, suffix = name.partition(".")
    return f"{folder}/{shard}.by-copy-{content}.{suffix}" if shard.isdigit() else path


def plain_path(path: str) -> str:
    """The path of a shard's file, whoever wrote it."""
    return _ATTEMPT.sub("", path)


def is_attempt(name: str) -> bool:
    return _ATTEMPT.search(name) is not None
