"""Files that are either whole or absent, what to do where one cannot be written, and files for their owner alone."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rich.filesize import decimal

from vitalfew.storage.files.directory import free_bytes, remove_tree
from vitalfew.storage.files.errors import NotWritten
from vitalfew.storage.files.places import is_in_bucket, medium
from vitalfew.storage.files.processes import temporary_name

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


def write_bytes(path: Path, content: bytes) -> None:
    """Raises NotWritten."""
    if is_in_bucket(path):  # small: it needs no file of this machine
        medium(path).write_bytes(path, content)
    else:
        write_atomically(path, lambda temporary: temporary.write_bytes(content))


def write_once(path: Path, text: str) -> bool:
    """Write a file that nobody is to replace; whether it has this text now. Raises NotWritten.

    In a directory a lock keeps others away, and it is written anew.
    """
    if is_in_bucket(path):
        return bool(medium(path).write_once(path, text.encode("utf-8")))
    write_text(path, text)
    return True


def write_text(path: Path, text: str) -> None:
    """Raises NotWritten."""
    write_bytes(path, text.encode("utf-8"))


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Have `write` fill a temporary file of this machine, flush it to the disk and only then give it its name (in a
    bucket: upload it). Raises NotWritten."""
    if is_in_bucket(path):
        medium(path).write(path, write)
        return
    temporary = temporary_name(path)
    try:
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write(temporary)
            flush(temporary)
            os.replace(temporary, path)
            flush(path.parent)
    finally:
        if temporary.exists():
            temporary.unlink()


def rewrite_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """`write_atomically`, where `write` makes the new file from the present one, which nobody replaces meanwhile: in a
    directory a lock keeps others away, and in a bucket it is called again. Raises NotWritten."""
    if is_in_bucket(path):
        medium(path).rewrite(path, write)
    else:
        write_atomically(path, write)


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


def flush(path: Path) -> None:
    """Have the system write a file, or the names in a folder, to the disk; an object is there once it is written."""
    if is_in_bucket(path):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remedy(error: Exception, path: Path) -> str | None:
    """What to do about a refusal of the system; None where it is something else."""
    cause = _cause(error)
    if cause is None:
        return None
    refusal = f"{path} cannot be written: {os.strerror(cause)}."
    if cause in _FULL:
        free = decimal(free_bytes(path.parent))
        return f"{refusal} There are {free} left: make room, then run the same command again to continue"
    if cause == errno.EFBIG:
        return f"{refusal} Raise the limit (ulimit -f), then run the same command again to continue"
    return f"{refusal} A store must be writable: check its permissions, or give another --store DIR"


def _cause(error: Exception) -> int | None:
    known = (*_FULL, errno.EFBIG, *_FORBIDDEN)
    if isinstance(error, OSError) and error.errno in known:
        return error.errno
    return next((number for number in known if os.strerror(number) in str(error)), None)


def make_private_folder(path: Path) -> None:
    """Make it, or close one that is there to other users. Raises OSError, as where it is another user's."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def write_private(path: Path, text: str) -> None:
    """Write a file that nobody else can read at any moment. Raises NotWritten."""

    def write(temporary: Path) -> None:
        with open_private(temporary) as file:
            file.write(text.encode())

    write_atomically(path, write)


def open_private(path: Path) -> IO[bytes]:
    """A new or emptied file, for writing."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(descriptor, 0o600)  # of one that was there
    return os.fdopen(descriptor, "wb")


def move_private(source: Path, target: Path) -> None:
    """Move a folder, closed to other users first; `target` is whole or absent, and to another disk it is copied.

    Raises OSError, as where `target` has something in it.
    """
    for folder, _, names in os.walk(source):
        os.chmod(folder, 0o700)
        for path in (Path(folder, name) for name in names):
            if not path.is_symlink():
                path.chmod(0o600)
    make_private_folder(target.parent)
    try:
        os.rename(source, target)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    temporary = temporary_name(target)
    remove_tree(temporary)
    shutil.copytree(source, temporary, symlinks=True)
    os.rename(temporary, target)
    shutil.rmtree(source)
