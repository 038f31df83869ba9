"""DuckDB on the objects of a store: a file system that has that store and nothing else.

DuckDB's own way to a bucket is the extension httpfs, which is a download, and would be given the credentials. This one
works without either: DuckDB asks for the bytes it needs, block by block, and a block that was read lately is not read
again. It never lists: the catalog says which files there are.
"""

import datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from weakref import proxy

import obstore
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

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
        own: Any = proxy(self)  # a cache that held its file system would keep it, and the blocks, beyond the connection
        self._described = lru_cache(None)(partial(StoreFiles._describe, own))
        self._block = lru_cache(BLOCKS)(partial(StoreFiles._read_block, own))

    def _open(self, path: str, mode: str = "rb", **options: Any) -> "_Object":
        """Raises PermissionError outside the store or for another mode, and FileNotFoundError."""
        if mode != "rb":
            raise PermissionError(f"{path}: SQL only reads a store")
        return _Object(self, path, cache_type="none", size=self.size(path))

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
        return self.exists(path)  # fsspec's own takes any error for "no"

    def modified(self, path: str) -> datetime.datetime:
        return self.info(path)["last_modified"]

    def info(self, path: str, **options: Any) -> Any:
        """Raises PermissionError outside the store, and FileNotFoundError."""
        return self._described(path)

    def _describe(self, path: str) -> dict[str, Any]:
        place = self._place(path)
        with explained(place):
            return {**obstore.head(client(place), key(place)), "name": path, "type": "file"}

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Bytes of an object, by blocks that are kept; those of a long range are not."""
        if end - start >= 2 * BLOCK:
            return self._range(path, start, end)
        first = start // BLOCK
        whole = b"".join(self._block(path, number) for number in range(first, -(-end // BLOCK)))
        return whole[start - first * BLOCK : end - first * BLOCK]

    def _read_block(self, path: str, number: int) -> bytes:
        return self._range(path, number * BLOCK, min(self.size(path), (number + 1) * BLOCK))

    def _range(self, path: str, start: int, end: int) -> bytes:
        place = self._place(path)
        with explained(place):
            return bytes(obstore.get_range(client(place), key(place), start=start, end=end))

    def _place(self, path: str) -> BucketPath:
        scheme, _, rest = path.partition("://")
        place = BucketPath(f"{scheme}:", *rest.split("/"))
        if ".." in place.parts or not place.is_relative_to(self.store):
            raise PermissionError(f"{path} is not in the store {self.store}")
        return place


class _Object(AbstractBufferedFile):
    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.fs.read_range(self.path, start, min(end, self.size))
