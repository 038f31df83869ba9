"""A store in a bucket: what is there, its bytes, and its removal. Each function is as storage/files/directory.py's.

Lines that are appended to a file are objects `<file>/<number>`, numbered from 0 and written once. A process writes one
object after the other: what its threads append meanwhile goes into the next one. So the numbers have no gap, whenever a
kill comes, and a reader finds every object by its number, without a list. Several processes may append: where a number
is taken, whose object is then there, the next one is used.
"""

import fnmatch
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any

import obstore

from vitalfew.storage.files.directory import Status
from vitalfew.storage.files.objects import cache, register
from vitalfew.storage.files.objects.client import client, explained, fetched, key, seen
from vitalfew.storage.files.objects.leases import confirm_lock, is_locked, locked
from vitalfew.storage.files.objects.register import version

__all__ = ["append", "confirm_lock", "is_locked", "locked", "read_appended", "version"]

_ATTEMPT = re.compile(r"\d+\.by-[\w-]+\..+")
"""A name that says which attempt wrote it: no other attempt writes it again (storage/artifacts.py)."""
_LARGE = 64 << 20
"""Bytes from which an object is uploaded in parts."""
NAMES_ATTEMPTS = True
"""Whether a shard's files carry the attempt that wrote them, so that a late writer replaces nothing."""


def _status(meta: Any) -> Status:
    """`inode` stands for the entity tag; dates are the server's, and judge nothing."""
    modified = int(meta["last_modified"].timestamp() * 1e9)
    return Status(meta["size"], modified, modified, 0, _number(meta["e_tag"]))


def status(path: Path) -> Status:
    """Raises FileNotFoundError."""
    with explained(path):
        return _status(obstore.head(client(path), key(path)))


def statuses(folder: Path) -> dict[Path, Status]:
    """Of the objects in a folder, by one list: it may be old, so that what is not in it may be there."""
    with explained(folder):
        listed = obstore.list_with_delimiter(client(folder), prefix=_prefix(folder))
    return {_place(folder, meta): _status(meta) for meta in listed["objects"]}


def as_written(now: Status, modified_ns: int) -> bool:
    """Objects are written once, and a date would be another machine's: the size has been compared."""
    return True


def exists(path: Path) -> bool:
    """A name with a suffix is an object's; another may be a folder's."""
    try:
        status(path)
        return True
    except FileNotFoundError:
        return not path.suffix and _has_some(path)


def is_folder(path: Path) -> bool:
    return bool(register.version(path)) or _has_some(path)


def _has_some(path: Path) -> bool:
    with explained(path):
        page = next(iter(obstore.list(client(path), prefix=_prefix(path), chunk_size=1)), None)
    return bool(page)


def is_writable(folder: Path) -> bool:
    probe = folder / ".writable"
    try:
        write_bytes(probe, b"")
        remove(probe)
    except OSError:
        return False
    return True


def is_link(path: Path) -> bool:
    return False


def is_inside(store: Path, path: Path) -> bool:
    return path.is_relative_to(store)


def absolute(path: Path) -> Path:
    return path


def local(path: Path) -> Path:
    """A copy on this machine, of an object or of all objects of a folder. Raises FileNotFoundError, CacheFull."""
    if not _ATTEMPT.fullmatch(path.name):
        try:
            now = status(path)
        except FileNotFoundError:
            return _local_folder(path)
        return _copy(path, str(now.inode))
    return _copy(path, "")


def _copy(path: Path, version: str) -> Path:
    copy = cache.place(str(path), version, path.name)
    if known := cache.find(copy):
        return known
    with cache.scratch() as folder:
        _download(path, folder / path.name)
        return cache.keep(copy, folder / path.name)


def refreshed(path: Path) -> Path:
    """A copy that is fetched again, where the one that is there is not as the object is."""
    cache.drop(local(path))
    return local(path)


def _download(path: Path, temporary: Path) -> None:
    def write(file: Any) -> None:
        for block in blocks(path):
            file.write(block)

    cache.fill(temporary, write)


def blocks(path: Path) -> Iterator[bytes]:
    """An object's bytes as they are now, in pieces. Raises FileNotFoundError, BucketError."""
    with explained(path):
        found = obstore.get(client(path), key(path))
        for block in found.stream(min_chunk_size=8 << 20):
            yield bytes(block)


def _local_folder(folder: Path) -> Path:
    objects = _below(folder)
    if not objects:
        raise FileNotFoundError(f"{folder} does not exist")
    version = blake2b(repr(sorted((name, str(meta["e_tag"])) for name, meta in objects)).encode()).hexdigest()
    copy = cache.place(str(folder), version, folder.name)
    if known := cache.find(copy):
        return known
    with cache.scratch() as scratch:
        for name, _ in objects:
            target = scratch / folder.name / name
            target.parent.mkdir(parents=True, exist_ok=True)
            _download(folder / name, target)
        return cache.keep(copy, scratch / folder.name)


def read_bytes(path: Path) -> bytes:
    """Raises FileNotFoundError."""
    return fetched(path)[1]


def find(folder: Path, pattern: str = "*") -> list[Path]:
    """Records by the register; anything else by a list, and folders among it."""
    if register.is_registered(folder, pattern):
        return register.find(folder, pattern)
    wanted = pattern.split("/")
    names = [name for name, _ in _below(folder)] if len(wanted) > 1 else _entries(folder)
    tops = {tuple(name.split("/")[: len(wanted)]) for name in names}
    whole = (parts for parts in tops if len(parts) == len(wanted))
    return sorted(folder.joinpath(*parts) for parts in whole if all(map(fnmatch.fnmatchcase, parts, wanted)))


def folders(folder: Path) -> list[Path]:
    with explained(folder):
        listed = obstore.list_with_delimiter(client(folder), prefix=_prefix(folder))
    return sorted(folder / prefix.rstrip("/").rpartition("/")[2] for prefix in listed["common_prefixes"])


def tree_bytes(folder: Path) -> int:
    return sum(meta["size"] for _, meta in _below(folder))


def last_written(path: Path) -> float:
    """By the server's clock, of all that is below a folder."""
    return max((meta["last_modified"].timestamp() for _, meta in _below(path)), default=0.0)


def free_bytes(path: Path) -> int:
    """A bucket has no end."""
    return sys.maxsize


def make_folder(path: Path) -> None:
    """A bucket has none."""


def remove(path: Path) -> None:
    with suppress(FileNotFoundError), explained(path):
        obstore.delete(client(path), key(path))
    register.forget(path)


def remove_tree(path: Path) -> None:
    places = [path / name for name, _ in _below(path)]
    for start in range(0, len(places), 1000):
        some = places[start : start + 1000]
        try:
            with explained(path):
                obstore.delete(client(path), [key(place) for place in some])
        except FileNotFoundError:  # another process removed one of them: some servers stop there
            for place in some:
                remove(place)
    for place in places:
        register.forget(place)


def remove_leftovers(folder: Path) -> None:
    """An upload that was cut off leaves no object."""


def left_behind(store: Path, silence: timedelta) -> Iterator[tuple[Path, int]]:
    yield from ()


def write_bytes(path: Path, content: bytes) -> None:
    register.note(path)
    with explained(path):
        obstore.put(client(path), key(path), content, use_multipart=False)


def write_once(path: Path, content: bytes) -> bool:
    """Whether the object has these bytes now: not where another process was first with others."""
    register.note(path)
    while True:
        try:
            with explained(path):
                obstore.put(client(path), key(path), content, mode="create")
            return True
        except FileExistsError:  # or our own put was cut off after it was done, and tried again
            with suppress(FileNotFoundError):  # two at the same moment: the server took neither
                return read_bytes(path) == content


def rewrite(path: Path, fill: Callable[[Path], Any]) -> None:
    """`write`, where `fill` reads what is there: again where another process has written meanwhile."""
    while True:
        try:
            with explained(path):
                replaced: Any = seen(obstore.head(client(path), key(path)))
        except FileNotFoundError:
            replaced = "create"
        with suppress(FileExistsError):  # or our own put was cut off after it was done: `fill` reads that
            write(path, fill, replaced)
            return


def write(path: Path, fill: Callable[[Path], Any], replaced: Any = "overwrite") -> None:
    """Have `fill` write a file of this machine, and upload it. It stays as a copy: mostly it is read again here.

    `replaced`: the version in whose place it comes. Raises FileExistsError where that is not there any more.
    """
    with cache.scratch() as folder:
        temporary = folder / path.name
        with cache.room_explained():
            fill(temporary)
        register.note(path)
        large, part = temporary.stat().st_size > _LARGE, _LARGE // 4
        with explained(path):
            put = obstore.put(client(path), key(path), temporary, mode=replaced, use_multipart=large, chunk_size=part)
        version = "" if _ATTEMPT.fullmatch(path.name) else str(_number(put["e_tag"]))
        cache.keep(cache.place(str(path), version, path.name), temporary)


def _number(tag: Any) -> int:
    """An entity tag as a number."""
    return int.from_bytes(blake2b(str(tag).encode(), digest_size=8).digest(), "little")


def _prefix(folder: Path) -> str | None:
    return f"{key(folder)}/" if key(folder) else None


def _place(folder: Path, meta: Any) -> Path:
    return folder / meta["path"][len(_prefix(folder) or "") :]


def _below(folder: Path) -> list[tuple[str, Any]]:
    """Of all objects below a folder: the name from there on, and the metadata."""
    with explained(folder):
        pages = obstore.list(client(folder), prefix=_prefix(folder))
        return [(meta["path"][len(_prefix(folder) or "") :], meta) for page in pages for meta in page]


def _entries(folder: Path) -> list[str]:
    """The names of the objects and folders in a folder."""
    with explained(folder):
        listed = obstore.list_with_delimiter(client(folder), prefix=_prefix(folder))
    names = [*(meta["path"] for meta in listed["objects"]), *listed["common_prefixes"]]
    return [name.rstrip("/")[len(_prefix(folder) or "") :] for name in names]


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
