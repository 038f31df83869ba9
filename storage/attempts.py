"""Attempts: who writes a file of a shard, where several may without knowing of each other.

In a directory an artifact's lock keeps its writers apart, and a shard's file is `00007.parquet`. In a bucket a lease
can be lost without its holder's knowledge, and a worker be given up that works still. There the name says which attempt
wrote it, `00007.by-<run>-<attempt>.parquet`: nobody replaces another's file, and the done-marker, which is written
once, says whose counts.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from secrets import token_hex

from vitalfew.storage import files

_NAME = re.compile(r"\.by-[\w-]+(?=\.)")
_current: ContextVar[str] = ContextVar("attempt", default=f"unknown-{token_hex(6)}")


@contextmanager
def attempt(run_id: str) -> Iterator[None]:
    """Within the block, what is written is an attempt's of this run."""
    token = _current.set(f"{re.sub(r'[^0-9A-Za-z_-]', '-', run_id)}-{token_hex(2)}")
    try:
        yield
    finally:
        _current.reset(token)


def new(plain: Path) -> Path:
    """Where this attempt writes a file of a shard, by its plain path."""
    if not files.names_attempts(plain):
        return plain
    shard, _, suffix = plain.name.partition(".")
    return plain.with_name(f"{shard}.by-{_current.get()}.{suffix}")


def of_copy(path: str, content: str) -> str:
    """What a shard's file is called that is copied to where names are written once; other files keep their name.

    `content`: a hash of all of the artifact's files, so that another copy of the same has the same names.
    """
    folder, _, name = path.rpartition("/")
    shard, _, suffix = name.partition(".")
    return f"{folder}/{shard}.by-copy-{content}.{suffix}" if shard.isdigit() else path


def plain(path: str) -> str:
    """The path of a shard's file, whoever wrote it."""
    return _NAME.sub("", path)


def is_attempt(name: str) -> bool:
    return _NAME.search(name) is not None
