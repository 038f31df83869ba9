"""Lines that are appended to a file, in a bucket: objects `<file>/<number>`, numbered from 0 and written once.

A process writes one object after the other: what its threads append meanwhile goes into the next one. So the numbers
have no gap, whenever a kill comes, and a reader finds every object by its number, without a list. Several processes may
append: one whose number is taken, which is then there, takes the next.
"""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import obstore

from vitalfew.storage.files.objects.client import client, explained, fetched, key

AT_ONCE = 32
"""Objects that are asked for at once. Versions before 2026-11-25 left gaps: one that long is the end of their files."""


@dataclass
class _Tail:
    """The end of a file, as far as this process knows: the number of its next object, and the lines that wait."""

    number: int = 0
    waiting: deque[tuple[bytes, Future[None]]] = field(default_factory=deque)
    turn: Lock = field(default_factory=Lock)


_tails: dict[Path, _Tail] = {}
_lock = Lock()


def _tail(path: Path) -> _Tail:
    with _lock:
        return _tails.setdefault(path, _Tail())


def append(path: Path, line: bytes) -> None:
    """Several threads and processes may at once. Raises BucketError."""
    tail, written = _tail(path), Future[None]()
    tail.waiting.append((line, written))
    with tail.turn:
        if not written.done():  # else whoever had the turn before has written it
            _write(path, tail)
    written.result()


def _write(path: Path, tail: _Tail) -> None:
    """Write all lines that wait, and tell their threads what came of it."""
    lines: list[bytes] = []
    told: list[Future[None]] = []
    try:
        while tail.waiting:
            line, written = tail.waiting.popleft()
            lines.append(line)
            told.append(written)
        while not _put(path / f"{tail.number:08d}", b"".join(lines)):
            tail.number += 1
        tail.number += 1
    except BaseException as error:
        for written in told:
            written.set_exception(error)
    else:
        for written in told:
            written.set_result(None)


def _put(place: Path, content: bytes) -> bool:
    """Return true if the object has this content now, false if another process was first."""
    try:
        with explained(place):
            obstore.put(client(place), key(place), content, mode="create")
        return True
    except FileExistsError:  # or our own put was cut off after it was done, and tried again
        return _read(place) == content


def read_appended(path: Path) -> bytes:
    """The lines, one below the other. Raises FileNotFoundError where there is none."""
    first = _read(path / f"{0:08d}")
    parts = [] if first is None else [first, *_further(path)]
    tail = _tail(path)
    with tail.turn:
        tail.number = len(parts)
    if first is None:
        raise FileNotFoundError(f"{path} does not exist")
    return b"".join(filter(None, parts))


def _further(path: Path) -> list[bytes | None]:
    """The objects after the first, None for a gap."""
    parts: list[bytes | None] = []
    with ThreadPoolExecutor(AT_ONCE) as readers:
        while True:
            more = [*readers.map(_read, (path / f"{len(parts) + ahead:08d}" for ahead in range(1, AT_ONCE + 1)))]
            parts += more
            if not any(more):
                break
    while parts and parts[-1] is None:
        del parts[-1]
    return parts


def _read(place: Path) -> bytes | None:
    try:
        return fetched(place)[1]
    except FileNotFoundError:
        return None
