"""DuckDB on the objects of a store: a file system that has that store and nothing else.

DuckDB's own way to a bucket is the extension httpfs, which is a download, and would be given the credentials. This one
works without either: DuckDB asks for the bytes it needs, block by block, and a block that was read lately is not read
again. It never lists: which files there are is said by the catalog.
"""

import datetime
from collections import OrderedDict
from io import RawIOBase
from pathlib import Path
from threading import Lock
from typing import Any

import obstore
from fsspec.spec import AbstractFileSystem

from vitalfew.configs.paths import BucketPath
from vitalfew.storage.files.objects.client import client, explained, key

BLOCK = 1 << 20
"""Bytes that are read at once, at least."""
BLOCKS = 64
"""Blocks that a connection keeps."""


class StoreFiles(AbstractFileSystem):
    """The objects below a store, to be read."""

    cachable = False

    def __init__(self, store: Path) -> None:
        super().__init__()
        self.store = store
        self.protocol = (store.parts[0].rstrip(":"),)
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._known: dict[str, Any] = {}
        self._lock = Lock()

    def open(self, path: str, mode: str = "rb", **options: Any) -> "_Object":
        """Raises PermissionError outside the store or for another mode, and FileNotFoundError."""
        if mode != "rb":
            raise PermissionError(f"{path}: SQL only reads a store")
        return _Object(self, path, self.info(path)["size"])

    def glob(self, path: str, **options: Any) -> list[str]:
        """The path itself: names with a sign of a pattern are not in a store. Raises PermissionError outside it.

        Whether it is there is asked when it is opened: a table has thousands of files.
        """
        self._place(path)
        return [path]

    def exists(self, path: str, **options: Any) -> bool:
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def isfile(self, path: str) -> bool:
        return self.exists(path)

    def isdir(self, path: str) -> bool:
        return False

    def size(self, path: str) -> int:
        return int(self.info(path)["size"])

    def modified(self, path: str) -> datetime.datetime:
        modified: datetime.datetime = self.info(path)["last_modified"]
        return modified

    def info(self, path: str, **options: Any) -> Any:
        """Raises PermissionError outside the store, and FileNotFoundError."""
        place = self._place(path)
        with self._lock:
            known = self._known.get(path)
        if known is None:
            with explained(place):
                known = {**obstore.head(client(place), key(place)), "name": path, "type": "file"}
            with self._lock:
                self._known[path] = known
        return known

    def block(self, path: str, number: int) -> bytes:
        """A block of an object, from the ones that are kept if it is among them."""
        with self._lock:
            if found := self._blocks.get((path, number)):
                self._blocks.move_to_end((path, number))
                return found
        content = self.range(path, number * BLOCK, min(self.size(path), (number + 1) * BLOCK))
        with self._lock:
            self._blocks[path, number] = content
            if len(self._blocks) > BLOCKS:
                self._blocks.popitem(last=False)
        return content

    def range(self, path: str, start: int, end: int) -> bytes:
        place = self._place(path)
        if start >= end:
            return b""
        with explained(place):
            return bytes(obstore.get_range(client(place), key(place), start=start, end=end))

    def _place(self, path: str) -> BucketPath:
        scheme, _, rest = path.partition("://")
        place = BucketPath(f"{scheme}:", *rest.split("/"))
        if ".." in place.parts or not place.is_relative_to(self.store):
            raise PermissionError(f"{path} is not in the store {self.store}")
        return place


class _Object(RawIOBase):
    """An object that is open for reading at any place."""

    def __init__(self, files: StoreFiles, path: str, size: int) -> None:
        self.files, self.path, self.size, self.position = files, path, size, 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = 0) -> int:
        self.position = offset + (0, self.position, self.size)[whence]
        return self.position

    def read(self, size: int = -1) -> bytes:
        end = self.size if size < 0 else min(self.size, self.position + size)
        if end - self.position >= 2 * BLOCK:
            content = self.files.range(self.path, self.position, end)
        else:
            numbers = range(self.position // BLOCK, -(-end // BLOCK))
            whole = b"".join(self.files.block(self.path, number) for number in numbers)
            start = self.position - self.position // BLOCK * BLOCK
            content = whole[start : start + end - self.position]
        self.position += len(content)
        return content
