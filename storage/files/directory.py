"""A store in a directory of this machine.

A process lets go of its locks however it ends, and the holder of a lock may remove its file. A child by fork, of a data
loader or an engine, does not hold its parent's locks: it may live on when its parent is killed.
"""

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any

from vitalfew.storage.files.medium import RECORDS, Medium, NotWritten, Status
from vitalfew.storage.files.processes import TEMPORARY, is_leftover, temporary_name

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


class Directory(Medium):
    """The operations of `Medium` in a directory."""

    def status(self, path: Path) -> Status:
        try:
            entry = path.stat()
        except NotADirectoryError as error:  # a file stands where a folder of the path is to be
            raise FileNotFoundError(*error.args) from error
        return Status(entry.st_size, entry.st_mtime_ns, entry.st_ctime_ns, entry.st_dev, entry.st_ino)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def is_folder(self, path: Path) -> bool:
        return path.is_dir()

    def is_writable(self, path: Path) -> bool:
        return os.access(path, os.W_OK)

    def is_link(self, path: Path) -> bool:
        return path.is_symlink()

    def is_inside(self, store: Path, path: Path) -> bool:
        return path.resolve() == store.resolve() / path.relative_to(store)

    def absolute(self, path: Path) -> Path:
        return path.resolve()

    def local(self, path: Path) -> Path:
        self.status(path)
        return path

    def read_bytes(self, path: Path) -> bytes:
        self.status(path)
        return path.read_bytes()

    def blocks(self, path: Path) -> Iterator[bytes]:
        self.status(path)
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                yield block

    def find(self, path: Path, pattern: str = "*") -> list[Path]:
        return sorted(path.glob(pattern))

    def folders(self, path: Path) -> list[Path]:
        try:
            with os.scandir(path) as entries:
                return sorted(path / entry.name for entry in entries if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def tree_bytes(self, path: Path) -> int:
        total = 0
        for place, _, names in os.walk(path):
            for name in names:
                try:
                    total += os.lstat(os.path.join(place, name)).st_size
                except FileNotFoundError:  # a run works here
                    continue
        return total

    def last_written(self, path: Path) -> float:
        return path.stat().st_mtime if path.exists() else 0.0

    def free_bytes(self, path: Path) -> int:
        path = path.absolute()
        place = next(parent for parent in [path, *path.parents] if parent.exists())
        return shutil.disk_usage(place).free

    def version(self, path: Path) -> str:
        """A hash of the names of all records, and of which files they are: their dates alone would say nothing of a
        record that arrives with an old one, as `tar` and `cp -a` leave it."""
        digest = blake2b(digest_size=16)
        for pattern in RECORDS:
            for record in self.find(path, pattern):
                with suppress(FileNotFoundError):  # it was removed meanwhile, or is a link to nothing
                    entry = record.stat()
                    # A record that is replaced has another inode.
                    identity = (entry.st_size, entry.st_mtime_ns, entry.st_ino)
                    digest.update(os.fsencode(f"{record.relative_to(path)}\0{identity}\n"))
        return digest.hexdigest()

    def make_folder(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, fill: Callable[[Path], Any]) -> None:
        temporary = temporary_name(path)
        try:
            with explained(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                fill(temporary)
                flush(temporary)
                os.replace(temporary, path)
                flush(path.parent)
        finally:
            if temporary.exists():
                temporary.unlink()

    def write_bytes(self, path: Path, content: bytes) -> None:
        self.write(path, lambda temporary: temporary.write_bytes(content))

    def append(self, path: Path, line: bytes) -> None:
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            new = not path.exists()
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                while line:
                    line = line[os.write(file, line) :]
                os.fsync(file)
            finally:
                os.close(file)
            if new:
                flush(path.parent)

    def flush(self, path: Path) -> None:
        flush(path)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        if path.is_symlink() or path.is_file():
            path.unlink(missing_ok=True)
        elif path.exists():
            shutil.rmtree(path)

    def remove_leftovers(self, path: Path) -> None:
        for temporary in path.glob(".*.tmp*"):
            if is_leftover(temporary):
                temporary.unlink(missing_ok=True)

    def left_behind(self, path: Path, silence: timedelta) -> Iterator[tuple[Path, int]]:
        for folder, _, names in os.walk(path):
            for name in filter(TEMPORARY.fullmatch, names):
                left = Path(folder, name)
                with suppress(FileNotFoundError):
                    status = left.lstat()
                    silent = time.time() - status.st_mtime > silence.total_seconds()
                    if silent or is_leftover(left):
                        yield left, status.st_size

    @contextmanager
    def locked(self, path: Path, wait: bool = True) -> Iterator[bool]:
        lock = None
        while lock is None:
            lock = _take(path, wait)
            if lock is None and not wait:
                yield False
                return
        _held.add(lock)
        try:
            yield True
        finally:
            if lock in _held:  # a child's are closed
                _held.remove(lock)
                os.close(lock)

    def is_locked(self, path: Path) -> bool:
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:  # held, or a file system that does not say
            return True
        return False


DIRECTORY = Directory()

_held: set[int] = set()
"""The descriptors of this process's locks."""


def _let_go() -> None:
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_let_go)


def _take(path: Path, wait: bool) -> int | None:
    """A descriptor that holds the lock; None where another process has it, or its file was removed meanwhile."""
    if wait:
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        held = os.path.samestat(os.fstat(lock), path.stat())
    except (BlockingIOError, FileNotFoundError):
        held = False
    except BaseException:
        os.close(lock)
        raise
    if held:
        return lock
    os.close(lock)
    return None


def flush(path: Path) -> None:
    """Have the system write a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise NotWritten where the system refuses to write the file in this block, and errors of another kind as they
    are."""
    try:
        yield
    except Exception as error:  # FAISS and DuckDB have errors of their own for what the system refuses
        if remedy := _remedy(error, path):
            raise NotWritten(remedy) from error
        raise


def _remedy(error: Exception, path: Path) -> str | None:
    """Return what to do about a refusal of the system; None for an error of another kind."""
    known = (*_FULL, errno.EFBIG, *_FORBIDDEN)
    cause = error.errno if isinstance(error, OSError) and error.errno in known else None
    cause = cause or next((number for number in known if os.strerror(number) in str(error)), None)
    if cause is None:
        return None
    refusal = f"{path} cannot be written: {os.strerror(cause)}."
    if cause in _FULL:
        free = DIRECTORY.free_bytes(path.parent) / 2**20
        return f"{refusal} There are {free:,.1f} MiB left: make room, then run the same command again to continue"
    if cause == errno.EFBIG:
        return f"{refusal} Raise the limit (ulimit -f), then run the same command again to continue"
    return f"{refusal} A store must be writable: check its permissions, or give another --store DIR"


def user_cache() -> Path | None:
    """The folder for files that can be made again; None for a user without a home."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    return home / "vitalfew" if home.is_absolute() else None
