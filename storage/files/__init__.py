"""The only code that opens, lists, writes, renames or removes anything in a store.

A *place* in a store is a path without the file system: `/`, `.name`, `.parent` and `.relative_to` are for anybody. All
else goes through `from vitalfew.storage import files`: `files.exists(place)`, `files.find(place)`. A library that opens
or maps files by itself (FAISS, DuckDB) gets its path from `files.local(place)`.

A store is on one of two media: a directory of this machine (`directory.py`, which describes the operations) or a
prefix of a bucket (`objects/`).
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vitalfew.storage.files.arrays import (
    map_array,
    read_array,
    read_arrays,
    read_notes,
    read_tensors,
    write_array,
    write_arrays,
    write_rows,
    write_tensors,
)
from vitalfew.storage.files.checksums import (
    Damaged,
    checked,
    checksum,
    checksum_now,
    copy,
    has_checksum,
    remembered_checksum,
    seen_otherwise,
)
from vitalfew.storage.files.directory import (
    BucketError,
    CacheFull,
    Directory,
    LeaseLost,
    NotWritten,
    Status,
    make_private_folder,
    open_private,
    user_cache,
    write_private,
)
from vitalfew.storage.files.objects.cache import folder as cache_folder
from vitalfew.storage.files.places import is_in_bucket, reached
from vitalfew.storage.files.processes import has_ended, is_in_sight, is_leftover, is_temporary, this_process
from vitalfew.storage.files.records import (
    DamagedRecord,
    Lines,
    Record,
    append_lines,
    read_json,
    read_lines,
    read_record,
    rewrite_json,
    write_json,
    write_json_once,
)
from vitalfew.storage.files.tables import (
    OpenTable,
    arrow_bytes,
    read_arrow,
    read_schema,
    read_table,
    read_tables,
    rewrite_table,
    write_arrow,
    write_batches,
    write_table,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = [
    "BucketError", "CacheFull", "Damaged", "DamagedRecord", "LeaseLost", "Lines", "NotWritten",
    "OpenTable", "Record", "Status", "append_lines", "arrow_bytes", "cache_folder", "checked", "checksum",
    "checksum_now", "copy", "has_checksum", "has_ended", "is_in_bucket", "is_in_sight", "is_leftover", "is_temporary",
    "make_private_folder", "map_array", "open_private", "read_array", "read_arrays",
    "read_arrow", "read_json", "read_lines", "read_notes", "read_record", "read_schema", "read_table",
    "read_tables", "read_tensors", "remembered_checksum", "rewrite_json", "rewrite_table", "seen_otherwise",
    "this_process", "user_cache", "write_array", "write_arrays", "write_arrow", "write_batches", "write_json",
    "write_json_once", "write_private", "write_rows", "write_table", "write_tensors",
]  # fmt: skip

absolute = reached(Directory.absolute)
confirm_lock = reached(Directory.confirm_lock)
exists = reached(Directory.exists)
find = reached(Directory.find)
flush = reached(Directory.flush)
folders = reached(Directory.folders)
free_bytes = reached(Directory.free_bytes)
is_folder = reached(Directory.is_folder)
is_inside = reached(Directory.is_inside)
is_locked = reached(Directory.is_locked)
is_writable = reached(Directory.is_writable)
local = reached(Directory.local)
locked = reached(Directory.locked)
make_folder = reached(Directory.make_folder)
read_bytes = reached(Directory.read_bytes)
remove = reached(Directory.remove)
remove_tree = reached(Directory.remove_tree)
status = reached(Directory.status)
statuses = reached(Directory.statuses)
version = reached(Directory.version)
walk = reached(Directory.walk)
write_atomically = reached(Directory.write)
write_bytes = reached(Directory.write_bytes)

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_ONCE = 16
"""Requests that wait for a server at the same time."""


def read_text(path: Path) -> str:
    """Raises FileNotFoundError, and UnicodeDecodeError."""
    return read_bytes(path).decode()


def write_text(path: Path, text: str) -> None:
    """Raises NotWritten."""
    write_bytes(path, text.encode("utf-8"))


def tree_bytes(path: Path) -> int:
    """Add up the bytes of all files below a folder; the target of a symbolic link is not counted."""
    return sum(status.size for _, status in walk(path))


def at_once(store: Path, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Apply a function to all items; in a bucket to many at a time, as every one waits for a server's answer."""
    if not is_in_bucket(store):
        return [*map(function, items)]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return [*threads.map(function, items)]


def open_to_sql(connection: "DuckDBPyConnection", store: Path) -> None:
    """Let a connection read the files of a store by the paths that `absolute` gives, and nothing else in its bucket."""
    if is_in_bucket(store):
        from vitalfew.storage.files.objects.sql import StoreFiles

        connection.register_filesystem(StoreFiles(store))


def variables_of_buckets() -> tuple[str, ...]:
    """The beginnings of the environment variables by which buckets are reached, credentials included."""
    from vitalfew.storage.files.objects.client import SECRET_NAMES

    return SECRET_NAMES
