"""A store in a directory of this machine: the operations on a place, which a bucket (`objects/bucket.py`) overrides.

A process lets go of its locks however it ends, and the holder of a lock may remove its file. A child by fork, of a data
loader or an engine, does not hold its parent's locks: it may live on when its parent is killed.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, NamedTuple

from vitalfew.storage.files.processes import temporary_name

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
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


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


class Directory:
    """The operations on a place, by its path."""

    def status(self, path: Path) -> Status:
        """Raises FileNotFoundError."""
        try:
            return _status(path.stat())
        except NotADirectoryError as error:  # a file stands where a folder of the path is to be
            raise FileNotFoundError(*error.args) from error

    def statuses(self, path: Path) -> dict[Path, Status]:
        """List the files in a folder, as far as they are cheaper to have together."""
        return {}

    def exists(self, path: Path) -> bool:
        return path.exists()

    def is_folder(self, path: Path) -> bool:
        return path.is_dir()

    def is_writable(self, path: Path) -> bool:
        return os.access(path, os.W_OK)

    def is_inside(self, store: Path, path: Path) -> bool:
        """Return true if a place below the store is reached without a symbolic link."""
        return path.resolve() == store.resolve() / path.relative_to(store)

    def absolute(self, path: Path) -> Path:
        """Return the place as every process names it, without symbolic links: so the catalog names its files."""
        return path.resolve()

    def local(self, path: Path) -> Path:
        """Return a real path of this machine with the content of a place, for libraries that map or open files.

        It keeps the name, and what is below a folder stays together. Raises FileNotFoundError, and CacheFull where an
        object cannot be copied here.
        """
        self.status(path)
        return path

    def read_bytes(self, path: Path) -> bytes:
        """Raises FileNotFoundError."""
        self.status(path)
        return path.read_bytes()

    def blocks(self, path: Path) -> Iterator[bytes]:
        """Yield a file's bytes as they are now, in pieces. Raises FileNotFoundError."""
        self.status(path)
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                yield block

    def find(self, path: Path, pattern: str = "*") -> list[Path]:
        """List what is below a folder and matches (`*/*/manifest.json`), in the order of names; nothing without the
        folder."""
        return sorted(path.glob(pattern))

    def folders(self, path: Path) -> list[Path]:
        """List the folders in a folder, in the order of names; nothing without it."""
        try:
            with os.scandir(path) as entries:
                return sorted(path / entry.name for entry in entries if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def walk(self, path: Path) -> Iterator[tuple[Path, Status]]:
        """Yield all files below a folder with their status; of a symbolic link its own, not its target's."""
        for folder, _, names in os.walk(path):
            for name in names:
                with suppress(FileNotFoundError):  # a run works here
                    yield Path(folder, name), _status(os.lstat(os.path.join(folder, name)))

    def free_bytes(self, path: Path) -> int:
        """Return the room where a place lies, or will lie."""
        path = path.absolute()
        place = next(parent for parent in [path, *path.parents] if parent.exists())
        return shutil.disk_usage(place).free

    def version(self, path: Path) -> str:
        """Return a text that changes when a record of the store is written or removed; empty for a bucket without any.

        It is a hash of the names of all records, and of which files they are: their dates alone would say nothing of a
        record that arrives with an old one, as `tar` and `cp -a` leave it.
        """
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
        """Make a folder for a caller that asks for it before it writes: a lock that is not waited for."""
        path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, fill: Callable[[Path], Any]) -> None:
        """Have `fill` write a temporary file of this machine, flush it to the disk and only then give it its name (in a
        bucket: upload it). Raises NotWritten."""
        temporary = temporary_name(path)
        try:
            with explained(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                fill(temporary)
                self.flush(temporary)
                os.replace(temporary, path)
                self.flush(path.parent)
        finally:
            if temporary.exists():
                temporary.unlink()

    def rewrite(self, path: Path, fill: Callable[[Path], Any]) -> None:
        """`write`, where `fill` makes the new file from the present one, which nobody replaces meanwhile: in a
        directory a lock keeps others away, and in a bucket it is called again. Raises NotWritten."""
        self.write(path, fill)

    def write_bytes(self, path: Path, content: bytes) -> None:
        """Raises NotWritten."""
        self.write(path, lambda temporary: temporary.write_bytes(content))

    def write_once(self, path: Path, content: bytes) -> bool:
        """Write a file that nobody is to replace; return true if it has these bytes now, false if another process was
        first with others. In a directory a lock keeps others away, and it is written again. Raises NotWritten."""
        self.write_bytes(path, content)
        return True

    def append(self, path: Path, lines: bytes) -> None:
        """Append lines and flush them to the disk; several threads and processes may at once. Raises NotWritten."""
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            new = not path.exists()
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                while lines:
                    lines = lines[os.write(file, lines) :]
                os.fsync(file)
            finally:
                os.close(file)
            if new:
                self.flush(path.parent)

    def read_appended(self, path: Path) -> bytes:
        """Read what was appended. Raises FileNotFoundError."""
        return self.read_bytes(path)

    def flush(self, path: Path) -> None:
        """Have the system write a file, or the names in a folder, to the disk; an object is there once written."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        """Remove a file, or a symbolic link itself; do nothing if there is none."""
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        """Remove a folder, or a file with its appended lines; a symbolic link in its place, or in it, is removed
        itself, and its target left alone."""
        if path.is_symlink() or path.is_file():
            path.unlink(missing_ok=True)
        elif path.exists():
            shutil.rmtree(path)

    @contextmanager
    def locked(self, path: Path, wait: bool = True) -> Iterator[bool]:
        """Hold the lock `path` against all other processes, waiting for whoever holds it.

        With `wait` False it yields whether the lock was free (and its directory there), instead of waiting. A process
        lets go of its locks however it ends; in a bucket, one of another machine does within a minute.
        """
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
        """Return true if a process holds the lock `path`."""
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:  # held, or a file system that does not say
            return True
        return False

    def confirm_lock(self, path: Path) -> None:
        """Raises LeaseLost where this process had the lock and another has it by now. The system lets nobody else have
        a lock that is held in a directory."""
        return


DIRECTORY = Directory()


def _status(entry: os.stat_result) -> Status:
    return Status(entry.st_size, entry.st_mtime_ns, entry.st_ctime_ns, entry.st_dev, entry.st_ino)


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


# Files that their owner alone may read, whatever the umask.


def make_private_folder(path: Path) -> None:
    """Make a folder of mode 0700, or close an existing one to other users. Raises OSError, as for another user's."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600, which nobody else can read at any moment. Raises NotWritten."""

    def write(temporary: Path) -> None:
        with open_private(temporary) as file:
            file.write(text.encode())

    DIRECTORY.write(path, write)


def open_private(path: Path) -> IO[bytes]:
    """A new or emptied file of mode 0600, for writing."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(descriptor, 0o600)  # of one that was there
    return os.fdopen(descriptor, "wb")
