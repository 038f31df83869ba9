"""Copies of objects on this machine, for what maps or opens a file: bounded in size, the least lately used go first.

A copy is named by the address of its object and its version (entity tag), which an object with an attempt in its name
does without: it is written once. The folder is $VITALFEW_CACHE, else `objects` in the user's cache directory; it
holds $VITALFEW_CACHE_GB gigabytes (10⁹ bytes; default: 20). All processes of a machine share it. What was used in the
last minutes stays, even beyond the bound: another process may be about to open it.
"""

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b, file_digest
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir

from vitalfew.storage.files.directory import DIRECTORY, CacheFull, user_cache
from vitalfew.storage.files.processes import is_leftover, temporary_name

USUAL_GB = 20.0
RECENT_SECONDS = 600.0
SILENT_SECONDS = 86_400.0
"""After which nobody is believed to write in a folder of `scratch` any longer: one object is in there."""
_added = {"bytes": -1}
"""Bytes that this process has added since it last looked at the whole; negative: it has not looked yet."""


def folder() -> Path:
    own = os.environ.get("VITALFEW_CACHE")
    home = user_cache()
    if own:
        return Path(own).expanduser().absolute()
    return home / "objects" if home else Path(gettempdir(), f"vitalfew-objects-{os.getuid()}")


def bound() -> int:
    """Bytes that the copies may take. Raises CacheFull where the setting is not a number."""
    given = os.environ.get("VITALFEW_CACHE_GB", str(USUAL_GB))
    try:
        return int(float(given) * 1e9)
    except ValueError:
        raise CacheFull(f"VITALFEW_CACHE_GB must be a number of gigabytes, got {given!r}") from None


def place(address: str, version: str, name: str) -> Path:
    """The path of the copy of an object, whether it exists or not."""
    digest = blake2b(f"{address}\n{version}".encode(), digest_size=16).hexdigest()
    return folder() / digest[:2] / digest / name


def find(copy: Path) -> Path | None:
    """Return the copy and count it as used now; None if there is none."""
    try:
        os.utime(copy.parent)
        return copy if copy.exists() else None
    except FileNotFoundError:
        return None


def keep(copy: Path, temporary: Path) -> Path:
    """Make a copy of a whole file or folder of `scratch`."""
    size = _bytes(temporary) if temporary.is_dir() else temporary.stat().st_size
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (temporary.is_dir() and copy.exists()):  # a folder replaces none: another process was first
        os.replace(temporary, copy)
    os.utime(copy.parent)
    _make_room(size)
    return copy


def is_whole(copy: Path, checksum: str) -> bool:
    """Return true if a copy has this checksum (BLAKE2b-128); that is remembered as long as the copy exists."""
    known = copy.parent / f".{checksum}"
    if known.exists():
        return True
    with copy.open("rb") as file:
        whole = file_digest(file, partial(blake2b, digest_size=16)).hexdigest() == checksum
    if whole:
        with suppress(OSError):  # the disk is full: it is read again
            known.touch()
    return whole


def drop(copy: Path) -> None:
    shutil.rmtree(copy.parent, ignore_errors=True)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder of this process on the disk of the copies, removed after the block. Raises CacheFull."""
    path = temporary_name(folder() / "scratch" / token_hex(4))
    try:
        with room_explained():
            path.mkdir(mode=0o700, parents=True)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def fill(temporary: Path, blocks: Callable[[], Iterable[bytes]]) -> None:
    """Write a file; once more after the old copies have gone, where the disk is full. Raises CacheFull."""
    with room_explained():
        for last in (False, True):
            try:
                with temporary.open("wb") as file:
                    file.writelines(blocks())
                return
            except OSError as error:
                if last or error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                _evict(0, recent=60.0)


@contextmanager
def room_explained() -> Iterator[None]:
    """Raises CacheFull where the disk of the copies is full or may not be written."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise CacheFull(
            f"{folder()}: {os.strerror(error.errno)}. It holds copies of the store's objects. Make room, or set "
            "VITALFEW_CACHE=DIR (another disk) or VITALFEW_CACHE_GB=N (another limit). Then run the same command "
            "again"
        ) from None


def _bytes(folder: Path) -> int:
    return sum(status.size for _, status in DIRECTORY.walk(folder))


def _make_room(added: int) -> None:
    """Look at the whole when this process begins, and whenever it has added a twentieth of the bound."""
    if _added["bytes"] >= 0:
        _added["bytes"] += added
    if not 0 <= _added["bytes"] <= bound() // 20:
        _added["bytes"] = 0
        _evict(bound(), RECENT_SECONDS)


def _evict(most: int, recent: float) -> None:
    """Remove what was not used for longest until `most` bytes are left; nothing used within `recent` seconds."""
    with suppress(OSError), DIRECTORY.locked(folder() / "lock", wait=False) as free:
        if not free:  # another process does it
            return
        for left in (folder() / "scratch").glob(".*.tmp"):  # in which killed processes wrote
            with suppress(FileNotFoundError):  # its process was quicker
                if is_leftover(left) or time.time() - left.stat().st_mtime > SILENT_SECONDS:
                    shutil.rmtree(left, ignore_errors=True)
        copies: list[tuple[float, int, Path]] = []
        for path in folder().glob("??/*"):
            with suppress(FileNotFoundError, NotADirectoryError):
                copies.append((path.stat().st_mtime, _bytes(path), path))
        total = sum(size for _, size, _ in copies)
        for used, size, path in sorted(copies):
            if total <= most or time.time() - used < recent:
                return
            shutil.rmtree(path, ignore_errors=True)
            total -= size
