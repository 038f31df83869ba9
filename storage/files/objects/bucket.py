"""A store in a bucket: write-once objects, leases, copies in a bounded cache.

A list of objects has what was written before it was asked for, as those of the clouds have. Lines that are appended to
a file are an object of their own, `<file>/<time>-<token>`: nobody else writes that name, and a reader finds all of them
by a list, in the order of their times.
"""

import fnmatch
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import Any

import obstore

from vitalfew.storage.files.directory import RECORDS, Directory, Status
from vitalfew.storage.files.objects import cache, leases
from vitalfew.storage.files.objects.client import client, explained, fetched, key, seen

_ATTEMPT = re.compile(r"\d+\.by-[\w-]+\..+")
"""A name that says which attempt wrote it: no other attempt writes it again (storage/artifacts.py)."""
_WILD = re.compile(r"[*?[]")
_LARGE = 64 << 20
"""Bytes from which an object is uploaded in parts."""
AT_ONCE = 32
"""Objects that are asked for at once."""


def _status(meta: Any) -> Status:
    """`inode` is a number for the entity tag. Times are the server's; they are never compared."""
    modified = int(meta["last_modified"].timestamp() * 1e9)
    return Status(meta["size"], modified, modified, 0, _number(meta["e_tag"]))


class Bucket(Directory):
    """The operations of `Directory` in a bucket."""

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

    def is_inside(self, store: Path, path: Path) -> bool:
        return path.is_relative_to(store)

    def absolute(self, path: Path) -> Path:
        return path

    def free_bytes(self, path: Path) -> int:
        return sys.maxsize

    def make_folder(self, path: Path) -> None:
        return

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

    def walk(self, path: Path) -> Iterator[tuple[Path, Status]]:
        """By one list, with the server's dates."""
        return ((path / name, _status(meta)) for name, meta in _objects(path))

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

    def append(self, path: Path, lines: bytes) -> None:
        self.write_bytes(path / f"{time.time_ns():020d}-{token_hex(4)}", lines)

    def read_appended(self, path: Path) -> bytes:
        parts = self.find(path)
        if not parts:
            raise FileNotFoundError(f"{path} does not exist")
        with ThreadPoolExecutor(AT_ONCE) as readers:
            return b"".join(readers.map(self.read_bytes, parts))

    def flush(self, path: Path) -> None:
        return


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
