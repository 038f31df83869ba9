"""A store in a bucket.

Lines that are appended to a file are objects `<file>/<number>`, numbered from 0 and written once. A process writes one
object after the other: what its threads append meanwhile goes into the next one. So the numbers have no gap, whenever a
kill comes, and a reader finds every object by its number, without a list. Several processes may append: where a number
is taken, whose object is then there, the next one is used.
"""

import fnmatch
import re
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import takewhile
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any

import obstore

from vitalfew.storage.files.medium import RECORDS, Medium, Status
from vitalfew.storage.files.objects import cache, leases
from vitalfew.storage.files.objects.client import client, explained, fetched, key, seen

_ATTEMPT = re.compile(r"\d+\.by-[\w-]+\..+")
"""A name that says which attempt wrote it: no other attempt writes it again (storage/artifacts.py)."""
_WILD = re.compile(r"[*?[]")
_LARGE = 64 << 20
"""Bytes from which an object is uploaded in parts."""


def _status(meta: Any) -> Status:
    """`inode` is a number for the entity tag. Times are the server's; they are never compared."""
    modified = int(meta["last_modified"].timestamp() * 1e9)
    return Status(meta["size"], modified, modified, 0, _number(meta["e_tag"]))


class Bucket(Medium):
    """The operations of `Medium` in a bucket."""

    locked = staticmethod(leases.locked)
    is_locked = staticmethod(leases.is_locked)
    confirm_lock = staticmethod(leases.confirm_lock)

    def status(self, path: Path) -> Status:
        with explained(path):
            return _status(obstore.head(client(path), key(path)))

    def statuses(self, path: Path) -> dict[Path, Status]:
        return {path / _below(path, meta["path"]): _status(meta) for meta in _listed(path)["objects"]}

    def exists(self, path: Path) -> bool:
        """A name with a suffix is an object's; another may be a folder's."""
        try:
            self.status(path)
            return True
        except FileNotFoundError:
            return not path.suffix and _has_some(path)

    def is_folder(self, path: Path) -> bool:
        return _has_some(path)

    def is_writable(self, path: Path) -> bool:
        probe = path / ".writable"
        try:
            self.write_bytes(probe, b"")
            self.remove(probe)
        except OSError:
            return False
        return True

    def local(self, path: Path) -> Path:
        """A copy on this machine, of an object or of all objects of a folder."""
        if _ATTEMPT.fullmatch(path.name):
            return self._copy(path, "", [path])
        version = ""
        with suppress(FileNotFoundError):
            version = str(self.status(path).inode)
        if version:
            return self._copy(path, version, [path])
        objects = _objects(path)
        if not objects:
            raise FileNotFoundError(f"{path} does not exist")
        version = blake2b(repr(sorted((name, str(meta["e_tag"])) for name, meta in objects)).encode()).hexdigest()
        return self._copy(path, version, [path / name for name, _ in objects])

    def _copy(self, path: Path, version: str, objects: list[Path]) -> Path:
        copy = cache.place(str(path), version, path.name)
        if known := cache.find(copy):
            return known
        with cache.scratch() as scratch:
            for place in objects:
                temporary = scratch / place.relative_to(path.parent)
                temporary.parent.mkdir(parents=True, exist_ok=True)
                cache.fill(temporary, partial(self.blocks, place))
            return cache.keep(copy, scratch / path.name)

    def refreshed(self, path: Path) -> Path:
        """Fetch the copy again: the one that is there is not as the object is."""
        cache.drop(self.local(path))
        return self.local(path)

    def blocks(self, path: Path) -> Iterator[bytes]:
        with explained(path):
            found = obstore.get(client(path), key(path))
            for block in found.stream(min_chunk_size=8 << 20):
                yield bytes(block)

    def read_bytes(self, path: Path) -> bytes:
        return fetched(path)[1]

    def find(self, path: Path, pattern: str = "*") -> list[Path]:
        """Objects, and folders among them; below the folders that the pattern names, by one list."""
        *above, last = pattern.split("/")
        while above and not _WILD.search(above[0]):
            path = path / above.pop(0)
        wanted = [*above, last]
        if len(wanted) > 1:
            names = [name for name, _ in _objects(path)]
        else:
            listed = _listed(path)
            entries = [*(meta["path"] for meta in listed["objects"]), *listed["common_prefixes"]]
            names = [_below(path, name.rstrip("/")) for name in entries]
        tops = {tuple(name.split("/")[: len(wanted)]) for name in names}
        whole = (parts for parts in tops if len(parts) == len(wanted))
        return sorted(path.joinpath(*parts) for parts in whole if all(map(fnmatch.fnmatchcase, parts, wanted)))

    def folders(self, path: Path) -> list[Path]:
        return sorted(path / prefix.rstrip("/").rpartition("/")[2] for prefix in _listed(path)["common_prefixes"])

    def tree_bytes(self, path: Path) -> int:
        return sum(meta["size"] for _, meta in _objects(path))

    def last_written(self, path: Path) -> float:
        """By the server's clock, of all that is below a folder."""
        return max((meta["last_modified"].timestamp() for _, meta in _objects(path)), default=0.0)

    def version(self, path: Path) -> str:
        """A hash of the names and entity tags of all records, by one list of the store."""
        tags = [(name, str(meta["e_tag"])) for name, meta in _objects(path) if _is_record(name)]
        return blake2b(repr(sorted(tags)).encode(), digest_size=16).hexdigest() if tags else ""

    def remove(self, path: Path) -> None:
        with suppress(FileNotFoundError), explained(path):
            obstore.delete(client(path), key(path))

    def remove_tree(self, path: Path) -> None:
        places = [path / name for name, _ in _objects(path)]
        for start in range(0, len(places), 1000):
            some = places[start : start + 1000]
            try:
                with explained(path):
                    obstore.delete(client(path), [key(place) for place in some])
            except FileNotFoundError:  # another process removed one of them: some servers stop there
                for place in some:
                    self.remove(place)

    def write_bytes(self, path: Path, content: bytes) -> None:
        with explained(path):
            obstore.put(client(path), key(path), content, use_multipart=False)

    def write_once(self, path: Path, content: bytes) -> bool:
        while True:
            try:
                with explained(path):
                    obstore.put(client(path), key(path), content, mode="create")
                return True
            except FileExistsError:  # or our own put was cut off after it was done, and tried again
                with suppress(FileNotFoundError):  # two at the same moment: the server took neither
                    return self.read_bytes(path) == content

    def rewrite(self, path: Path, fill: Callable[[Path], Any]) -> None:
        while True:
            try:
                with explained(path):
                    replaced: Any = seen(obstore.head(client(path), key(path)))
            except FileNotFoundError:
                replaced = "create"
            with suppress(FileExistsError):  # or our own put was cut off after it was done: `fill` reads that
                _upload(path, fill, replaced)
                return

    def write(self, path: Path, fill: Callable[[Path], Any]) -> None:
        _upload(path, fill, "overwrite")

    def append(self, path: Path, line: bytes) -> None:
        tail, written = _tail(path), Future[None]()
        tail.waiting.append((line, written))
        with tail.turn:
            if not written.done():  # else whoever had the turn before has written it
                _write(path, tail)
        written.result()

    def read_appended(self, path: Path) -> bytes:
        parts = _appended(path)
        tail = _tail(path)
        with tail.turn:
            tail.number = len(parts)
        if not parts:
            raise FileNotFoundError(f"{path} does not exist")
        return b"".join(parts)


BUCKET = Bucket()


def _upload(path: Path, fill: Callable[[Path], Any], replaced: Any) -> None:
    """Have `fill` write a file of this machine, and upload it. It stays as a copy: mostly it is read again here.

    `replaced`: the version in whose place it comes. Raises FileExistsError where that is not there any more.
    """
    with cache.scratch() as folder:
        temporary = folder / path.name
        with cache.room_explained():
            fill(temporary)
        large, part = temporary.stat().st_size > _LARGE, _LARGE // 4
        with explained(path):
            put = obstore.put(client(path), key(path), temporary, mode=replaced, use_multipart=large, chunk_size=part)
        version = "" if _ATTEMPT.fullmatch(path.name) else str(_number(put["e_tag"]))
        cache.keep(cache.place(str(path), version, path.name), temporary)


def _is_record(name: str) -> bool:
    """Return true for the name of a record, from the store on."""
    place = PurePosixPath(name)
    return any(len(place.parts) == pattern.count("/") + 1 and place.match(pattern) for pattern in RECORDS)


def _has_some(path: Path) -> bool:
    with explained(path):
        return any(obstore.list(client(path), prefix=_prefix(path), chunk_size=1))


def _number(tag: Any) -> int:
    return int.from_bytes(blake2b(str(tag).encode(), digest_size=8).digest(), "little")


def _below(folder: Path, name: str) -> str:
    """Return the name of an object from a folder on."""
    return name[len(_prefix(folder) or "") :]


def _listed(folder: Path) -> Any:
    """List the objects and folders in a folder, by one request."""
    with explained(folder):
        return obstore.list_with_delimiter(client(folder), prefix=_prefix(folder))


def _objects(folder: Path) -> list[tuple[str, Any]]:
    """List all objects below a folder: the name from there on, and the metadata."""
    with explained(folder):
        pages = obstore.list(client(folder), prefix=_prefix(folder))
        return [(_below(folder, meta["path"]), meta) for page in pages for meta in page]


def _prefix(folder: Path) -> str | None:
    return f"{key(folder)}/" if key(folder) else None


AT_ONCE = 32
"""Objects that are asked for at once."""


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


def _write(path: Path, tail: _Tail) -> None:
    """Write all lines that wait, and give their threads the result or the error."""
    taken: list[tuple[bytes, Future[None]]] = []
    try:
        while tail.waiting:
            taken.append(tail.waiting.popleft())
        while not BUCKET.write_once(path / f"{tail.number:08d}", b"".join(line for line, _ in taken)):
            tail.number += 1
        tail.number += 1
    except BaseException as error:
        for _, written in taken:
            written.set_exception(error)
    else:
        for _, written in taken:
            written.set_result(None)


def _appended(path: Path) -> list[bytes]:
    """The objects of a file: the first alone, as most files have no other, and then many at once."""
    parts, ahead = list[bytes](), 1
    with ThreadPoolExecutor(AT_ONCE) as readers:
        while True:
            more = [*readers.map(_read, (path / f"{len(parts) + number:08d}" for number in range(ahead)))]
            there = [*takewhile(lambda part: part is not None, more)]
            parts += filter(None, there)
            if len(there) < ahead:
                return parts
            ahead = AT_ONCE


def _read(place: Path) -> bytes | None:
    try:
        return fetched(place)[1]
    except FileNotFoundError:
        return None
