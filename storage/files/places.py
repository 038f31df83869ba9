"""What is at a place, wherever its store lies: in a directory of this machine, or in a bucket."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from vitalfew.configs.paths import BucketPath
from vitalfew.storage.files import directory
from vitalfew.storage.files.directory import Status

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_ONCE = 16
"""Requests that wait for a server at the same time."""


def medium(path: Path) -> ModuleType:
    """The module that reaches the place: both have the same functions. A store on this machine imports no client."""
    if isinstance(path, BucketPath):
        from vitalfew.storage.files.objects import bucket

        return bucket
    return directory


def is_in_bucket(path: Path) -> bool:
    return isinstance(path, BucketPath)


def names_attempts(path: Path) -> bool:
    """Whether several writers may be at work without knowing of each other, so that a shard's files carry the attempt
    that wrote them."""
    return bool(medium(path).NAMES_ATTEMPTS)


def status(path: Path) -> Status:
    """Raises FileNotFoundError."""
    return medium(path).status(path)


def statuses(folder: Path) -> dict[Path, Status]:
    """Of the files in a folder, as far as they are cheaper to have together; what is not among them may be there."""
    return medium(folder).statuses(folder)


def as_written(path: Path, now: Status, modified_ns: int) -> bool:
    """Whether a file of the right size is believed to be as it was written, with this date then, without reading it."""
    return medium(path).as_written(now, modified_ns)


def exists(path: Path) -> bool:
    return medium(path).exists(path)


def is_folder(path: Path) -> bool:
    return medium(path).is_folder(path)


def is_writable(folder: Path) -> bool:
    return medium(folder).is_writable(folder)


def is_link(path: Path) -> bool:
    return medium(path).is_link(path)


def is_inside(store: Path, path: Path) -> bool:
    """Whether a place below the store is reached without a symbolic link."""
    return medium(path).is_inside(store, path)


def absolute(path: Path) -> Path:
    """The place as every process names it, without symbolic links: what the catalog says where its files are."""
    return medium(path).absolute(path)


def local(path: Path) -> Path:
    """A real path of this machine with what is at a place, for what is mapped or opened by a library of its own.

    It keeps the name, and what is below a folder stays together. Raises FileNotFoundError where the place is in a
    bucket.
    """
    return medium(path).local(path)


def read_bytes(path: Path) -> bytes:
    """Raises FileNotFoundError."""
    return medium(path).read_bytes(path)


def read_text(path: Path) -> str:
    """Raises FileNotFoundError, and UnicodeDecodeError."""
    return read_bytes(path).decode()


def blocks(path: Path) -> Iterator[bytes]:
    """A file's bytes as they are now, in pieces. Raises FileNotFoundError."""
    return medium(path).blocks(path)


def find(folder: Path, pattern: str = "*") -> list[Path]:
    """What lies below a folder and matches (`*/*/manifest.json`), in the order of names; none without the folder.

    A record that a kill kept from being written may be among them.
    """
    return medium(folder).find(folder, pattern)


def folders(folder: Path) -> list[Path]:
    """The folders in a folder, in the order of names; none without it."""
    return medium(folder).folders(folder)


def tree_bytes(folder: Path) -> int:
    """Bytes of all files below a folder; what a symbolic link leads to is not counted."""
    return medium(folder).tree_bytes(folder)


def last_written(path: Path) -> float:
    """When a file was last written, or something into a folder (POSIX seconds); 0 of what is not there."""
    return medium(path).last_written(path)


def free_bytes(path: Path) -> int:
    """Room where a place lies, or will lie."""
    return medium(path).free_bytes(path)


def cache_folder() -> Path:
    """Where copies of objects lie on this machine."""
    from vitalfew.storage.files.objects import cache

    return cache.folder()


def variables_of_buckets() -> tuple[str, ...]:
    """How the environment variables begin by which buckets are reached, their credentials among them."""
    from vitalfew.storage.files.objects.client import SECRET_NAMES

    return SECRET_NAMES


def make_folder(path: Path) -> None:
    """For what asks for a folder before anything is written into it: a lock that is not waited for."""
    medium(path).make_folder(path)


def remove(path: Path) -> None:
    """Remove a file, or a symbolic link itself; nothing where there is none."""
    medium(path).remove(path)


def remove_tree(path: Path) -> None:
    """Remove a folder; a symbolic link in its place, or in it, is itself removed, and what it leads to left alone."""
    medium(path).remove_tree(path)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files in a folder whose processes are known to have ended."""
    medium(folder).remove_leftovers(folder)


def left_behind(store: Path, silence: timedelta) -> Iterator[tuple[Path, int]]:
    """Temporary files of processes that are known to have ended, with their bytes, and of any process where nothing was
    written for `silence`."""
    return medium(store).left_behind(store, silence)


def open_to_sql(connection: "DuckDBPyConnection", store: Path) -> None:
    """Let a connection read the files of a store by the paths that `absolute` gives, and nothing else in its bucket."""
    if is_in_bucket(store):
        from vitalfew.storage.files.objects.sql import StoreFiles

        connection.register_filesystem(StoreFiles(store))


def version(store: Path) -> str:
    """A text that changes when a record of the store is written or removed; empty where there is no store."""
    return medium(store).version(store)


def locked(path: Path, wait: bool = True) -> AbstractContextManager[bool]:
    """Hold the lock `path` against all other processes, waiting for whoever holds it.

    With `wait` False it yields whether the lock was free (and its directory there), instead of waiting. A process lets
    go of its locks however it ends; in a bucket, one of another machine does within a minute.
    """
    return medium(path).locked(path, wait)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock `path`."""
    return medium(path).is_locked(path)


def confirm_lock(path: Path) -> None:
    """Raises LeaseLost where this process had the lock and another has it by now. Where it has none, nothing."""
    medium(path).confirm_lock(path)


def at_once(store: Path, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The function of each; of a bucket many at a time, as each waits for a server's answer."""
    if not is_in_bucket(store):
        return [*map(function, items)]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return [*threads.map(function, items)]
