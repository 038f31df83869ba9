"""The medium of a store, a directory of this machine or a bucket: the operations of both, and their errors."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol

RECORDS = (
    "*/*/manifest.json",
    "runs/*.json",
    "indexes/*.json",
    "generations/*.json",
    "quotes/*/*.parquet",
    "costs/*/*.parquet",
    "requests/*/*.parquet",
    "reviews/*/*.parquet",
)
"""Where the records of a store lie."""


class NotWritten(OSError):
    """A file of a store could not be written. The message has the place, the cause and the remedy, as those below."""


class BucketError(OSError):
    """A bucket does not exist, refuses access, or fails a request."""


class CacheFull(OSError):
    """There is no room on this machine for a copy of an object."""


class LeaseLost(OSError):
    """Another process holds by now what this one did."""


class Status(NamedTuple):
    """Bytes and dates (ns since 1970) of a file: `modified` can be set, `changed` is the system's own. `device` and
    `inode` say which file it is, whatever its name."""

    size: int
    modified_ns: int
    changed_ns: int
    device: int
    inode: int


class Medium(Protocol):
    """The operations on a place, by the path that it has on this medium. Those that one medium has no use for do
    nothing unless the other overrides them."""

    def status(self, path: Path) -> Status:
        """Raises FileNotFoundError."""

    def statuses(self, path: Path) -> dict[Path, Status]:
        """List the files in a folder, as far as they are cheaper to have together."""
        return {}

    def exists(self, path: Path) -> bool: ...

    def is_folder(self, path: Path) -> bool: ...

    def is_writable(self, path: Path) -> bool: ...

    def is_link(self, path: Path) -> bool:
        return False

    def is_inside(self, store: Path, path: Path) -> bool:
        """Return true if a place below the store is reached without a symbolic link."""
        return path.is_relative_to(store)

    def absolute(self, path: Path) -> Path:
        """Return the place as every process names it, without symbolic links: so the catalog names its files."""
        return path

    def local(self, path: Path) -> Path:
        """Return a real path of this machine with the content of a place, for libraries that map or open files.

        It keeps the name, and what is below a folder stays together. Raises FileNotFoundError, and CacheFull where an
        object cannot be copied here.
        """

    def read_bytes(self, path: Path) -> bytes:
        """Raises FileNotFoundError."""

    def blocks(self, path: Path) -> Iterator[bytes]:
        """Yield a file's bytes as they are now, in pieces. Raises FileNotFoundError."""

    def find(self, path: Path, pattern: str = "*") -> list[Path]:
        """List what is below a folder and matches (`*/*/manifest.json`), in the order of names; nothing without the
        folder."""

    def folders(self, path: Path) -> list[Path]:
        """List the folders in a folder, in the order of names; nothing without it."""

    def tree_bytes(self, path: Path) -> int:
        """Add up the bytes of all files below a folder; the target of a symbolic link is not counted."""

    def last_written(self, path: Path) -> float:
        """Return when a file was last written, or something into a folder (POSIX seconds); 0 if it is not there."""

    def free_bytes(self, path: Path) -> int:
        """Return the room where a place lies, or will lie."""
        return sys.maxsize

    def version(self, path: Path) -> str:
        """Return a text that changes when a record of the store is written or removed; empty if there is no store."""

    def make_folder(self, path: Path) -> None:
        """Make a folder for a caller that asks for it before it writes: a lock that is not waited for."""
        return

    def write(self, path: Path, fill: Callable[[Path], Any]) -> None:
        """Have `fill` write a temporary file of this machine, flush it to the disk and only then give it its name (in a
        bucket: upload it). Raises NotWritten."""

    def rewrite(self, path: Path, fill: Callable[[Path], Any]) -> None:
        """`write`, where `fill` makes the new file from the present one, which nobody replaces meanwhile: in a
        directory a lock keeps others away, and in a bucket it is called again. Raises NotWritten."""
        self.write(path, fill)

    def write_bytes(self, path: Path, content: bytes) -> None:
        """Raises NotWritten."""

    def write_once(self, path: Path, content: bytes) -> bool:
        """Write a file that nobody is to replace; return true if it has these bytes now, false if another process was
        first with others. In a directory a lock keeps others away, and it is written again. Raises NotWritten."""
        self.write_bytes(path, content)
        return True

    def append(self, path: Path, line: bytes) -> None:
        """Append a line and flush it to the disk; several threads and processes may at once. Raises NotWritten."""

    def read_appended(self, path: Path) -> bytes:
        """Read what was appended. Raises FileNotFoundError."""
        return self.read_bytes(path)

    def flush(self, path: Path) -> None:
        """Have the system write a file, or the names in a folder, to the disk; an object is there once written."""
        return

    def remove(self, path: Path) -> None:
        """Remove a file, or a symbolic link itself; do nothing if there is none."""

    def remove_tree(self, path: Path) -> None:
        """Remove a folder, or a file with its appended lines; a symbolic link in its place, or in it, is removed
        itself, and its target left alone."""

    def remove_leftovers(self, path: Path) -> None:
        """Remove the temporary files in a folder whose processes are known to have ended. An upload that was cut off
        leaves no object."""
        return

    def left_behind(self, path: Path, silence: timedelta) -> Iterator[tuple[Path, int]]:
        """Yield the temporary files of processes that are known to have ended, with their bytes, and those of any
        process where nothing was written for `silence`."""
        return iter(())

    def locked(self, path: Path, wait: bool = True) -> AbstractContextManager[bool]:
        """Hold the lock `path` against all other processes, waiting for whoever holds it.

        With `wait` False it yields whether the lock was free (and its directory there), instead of waiting. A process
        lets go of its locks however it ends; in a bucket, one of another machine does within a minute.
        """

    def is_locked(self, path: Path) -> bool:
        """Return true if a process holds the lock `path`."""

    def confirm_lock(self, path: Path) -> None:
        """Raises LeaseLost where this process had the lock and another has it by now. The system lets nobody else have
        a lock that is held in a directory."""
        return
