"""Checksums, and a memory of the files of a store that this machine has read and verified.

A FAISS index, an array or an Arrow file does not see that a bit of it was flipped. So all its bytes are read when it is
first opened on a machine, and its checksum is remembered in the user's cache directory (`$XDG_CACHE_HOME/vitalfew`,
else `~/.cache/vitalfew`) while it is the same file by device, inode, size and both dates: modified and *changed*, which
no program can set back. A copied store is thus read once per machine, not in every process and not at every search.
Where nothing can be written there, a file is read once per process.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from vitalfew.storage.files.directory import BucketError, CacheFull, Status, user_cache
from vitalfew.storage.files.places import is_in_bucket, medium

SETTLED_NS = 1_000_000_000
"""A file that was changed so recently could change once more and keep its date: its checksum is not remembered."""


class Damaged(ValueError):
    """A file of the store is not as it was written: the message names it, what is wrong with it, and the remedy."""

    @classmethod
    def because(cls, path: Path, cause: str) -> "Damaged":
        remedy = "`vitalfew store verify` lists all damage and the commands that repair it; they redo nothing else"
        return cls(f"{path} is damaged: {' '.join(cause.split()).rstrip('.')}. {remedy}")


@contextmanager
def damage_named(path: Path, *errors: type[Exception]) -> Iterator[None]:
    """Within the block, these errors of a library that reads the file say that it is damaged. An error of the system
    (the file is missing, reading it is forbidden, its server does not answer) stays what it is. Raises Damaged."""
    try:
        yield
    except errors as error:
        refused = isinstance(error, OSError) and error.errno is not None
        if refused or isinstance(error, (FileNotFoundError, MemoryError, BucketError, CacheFull)):
            raise
        with suppress(OSError):
            _beside(path).read(path)  # so that `seen_otherwise` knows, and a run makes it again
        raise Damaged.because(path, str(error)) from error


def checksum(path: Path) -> str:
    """128-bit BLAKE2b of a file's bytes (of an object's: of the copy that is here), hexadecimal."""
    return _digest(medium(path).local(path))


def _digest(path: Path, progress: Callable[[int], Any] = lambda read: None) -> str:
    digest = blake2b(digest_size=16)
    for block in medium(path).blocks(path):
        digest.update(block)
        progress(len(block))
    return digest.hexdigest()


def checked(path: Path, expected: str) -> Path:
    """`files.local(path)` of a file that has this checksum, for what maps or opens it by itself.

    The copy of an object is fetched again where it is damaged. Raises FileNotFoundError, Damaged.
    """
    if is_in_bucket(path):
        from vitalfew.storage.files.objects import cache
        from vitalfew.storage.files.objects.bucket import BUCKET

        for copy in (BUCKET.local, BUCKET.refreshed):
            if cache.is_whole(here := copy(path), expected):
                return here
    elif has_checksum(path, expected):
        return path
    raise Damaged.because(path, "it differs from what was written (checksum)")


def copy(source: Path, target: Path, expected: str) -> None:
    """Write a copy of a file that has this checksum. Raises FileNotFoundError, Damaged, NotWritten."""

    def fill(temporary: Path) -> None:
        digest = blake2b(digest_size=16)
        with temporary.open("wb") as file:
            for block in medium(source).blocks(source):
                digest.update(block)
                file.write(block)
        if digest.hexdigest() != expected:
            raise Damaged.because(source, "it differs from what was written (checksum)")

    medium(target).write(target, fill)


def has_checksum(path: Path, expected: str) -> bool:
    """Return true if a file has this checksum. It is read unless this machine knows so. Raises FileNotFoundError."""
    return remembered_checksum(path) == expected or checksum_now(path) == expected


def remembered_checksum(path: Path) -> str:
    """A file's checksum. It is read unless this machine has read it as it is. Raises FileNotFoundError."""
    memory, now = _beside(path), medium(path).status(path)
    if known := memory.known(path, now):
        return known
    memory.read_on()
    return memory.known(path, now) or memory.read(path)


def checksum_now(path: Path, progress: Callable[[int], Any] = lambda read: None) -> str:
    """A file's checksum, of every byte as it is now. This machine remembers it: a run makes again what was damaged."""
    return _beside(path).read(path, progress)


def seen_otherwise(path: Path, now: Status, expected: str) -> bool:
    """Return true if this machine has read the file as it is now, with another checksum."""
    return _beside(path).known(path, now) not in (None, expected)


class _Memory:
    """The checksums of a folder's files, by name: a log in the cache directory, to which any process adds lines."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.bytes_read = 0
        self.checksums: dict[str, tuple[str, str]] = {}
        self.read_on()

    def known(self, path: Path, now: Status) -> str | None:
        key, known = self.checksums.get(path.name, ("", None))
        return known if key == _key(now) else None

    def read(self, path: Path, progress: Callable[[int], Any] = lambda read: None) -> str:
        """The checksum of the bytes as they are, which is remembered if they did not change meanwhile."""
        before = medium(path).status(path)
        found, settled = _digest(path, progress), time.time_ns() - before.changed_ns > SETTLED_NS
        if settled and self.known(path, before) != found and medium(path).status(path) == before:
            self._remember(path.name, _key(before), found)
        return found

    def _remember(self, name: str, key: str, known: str) -> None:
        self.checksums[name] = key, known
        with suppress(OSError):  # a read-only or full disk: this process remembers it
            self.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, (json.dumps([name, key, known]) + "\n").encode())
            finally:
                os.close(descriptor)

    def read_on(self) -> None:
        """Take in what other processes have added since. A line that is damaged says nothing."""
        with suppress(OSError), self.log.open("rb") as log:
            log.seek(self.bytes_read)
            whole, end, _ = log.read().rpartition(b"\n")
            self.bytes_read += len(whole + end)
            for line in whole.splitlines():
                with suppress(ValueError):
                    name, key, known = map(str, json.loads(line))
                    self.checksums[name] = key, known


@cache
def _memory(log: Path) -> _Memory:
    return _Memory(log)


def _beside(path: Path) -> _Memory:
    home, name = user_cache(), blake2b(os.fsencode(str(path.parent.absolute())), digest_size=16).hexdigest()
    return _memory(home / "checked" / f"{name}.jsonl" if home else Path(os.devnull))


def _key(now: Status) -> str:
    """Identify a file at a moment."""
    return "-".join(map(str, now))
