"""Lines that are appended to a file, in a bucket: objects `<file>/<number>`, numbered from 0 and written once.

Whoever appends takes the next number, on the condition that nobody has it; so a reader finds them by their numbers,
without a list. A number that a write failed for may be left out: one looks for some numbers more before the end.
"""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import obstore

from vitalfew.storage.files.objects.client import client, explained, key

AHEAD = 32
"""Numbers that are looked for beyond the last that was found, at once; more than threads write at a time."""

_next: dict[Path, int] = defaultdict(int)
_lock = Lock()


def append(path: Path, line: bytes) -> None:
    """Several threads and processes may at once. Raises BucketError."""
    while True:
        with _lock:
            number = _next[path]
            _next[path] += 1
        place = path / f"{number:08d}"
        try:
            with explained(place):
                obstore.put(client(place), key(place), line, mode="create")
            return
        except FileExistsError:
            if _read(place) == line:  # our own put was cut off after it was done, and tried again
                return


def read_appended(path: Path) -> bytes:
    """The lines, one below the other. Raises FileNotFoundError where there is none."""
    first = _read(path / f"{0:08d}")
    if first is None:
        raise FileNotFoundError(f"{path} does not exist")
    lines: list[bytes | None] = [first]
    with ThreadPoolExecutor(AHEAD) as readers:
        while True:
            more = [*readers.map(_read, (path / f"{len(lines) + ahead:08d}" for ahead in range(AHEAD)))]
            lines += more
            if not any(more):
                break
    with _lock:
        _next[path] = max(_next[path], max(number for number, line in enumerate(lines, 1) if line))
    return b"".join(filter(None, lines))


def _read(place: Path) -> bytes | None:
    try:
        with explained(place):
            return bytes(obstore.get(client(place), key(place)).bytes())
    except FileNotFoundError:
        return None
