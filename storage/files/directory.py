"""A store in a directory of this machine: what is there, its bytes, and its removal."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from vitalfew.storage.files.locks import confirm_lock, is_locked, locked
from vitalfew.storage.files.processes import left_behind, remove_leftovers

__all__ = ["confirm_lock", "is_locked", "left_behind", "locked", "remove_leftovers"]

RECORDS = ("*/*/manifest.json", "runs/*.json", "indexes/*.json", "quotes/*/*.parquet", "costs/*/*.parquet")
"""Where the records of a store lie."""
NAMES_ATTEMPTS = False
"""Whether a shard's files carry the attempt that wrote them: here its lock keeps an artifact's writers apart."""


class Status(NamedTuple):
    """Bytes and dates (ns since 1970) of a file: `modified` can be set, `changed` is the system's own. `device` and
    `inode` say which file it is, whatever its name."""

    size: int
    modified_ns: int
    changed_ns: int
    device: int
    inode: int


def status(path: Path) -> Status:
    """Raises FileNotFoundError, also for what is neither a file nor a folder: reading a pipe would never end."""
    try:
        entry = path.stat()
    except NotADirectoryError as error:  # a file stands where a folder of the path is to be
        raise FileNotFoundError(*error.args) from error
    if not (stat.S_ISREG(entry.st_mode) or stat.S_ISDIR(entry.st_mode)):
        raise FileNotFoundError(f"{path} is neither a file nor a folder")
    return Status(entry.st_size, entry.st_mtime_ns, entry.st_ctime_ns, entry.st_dev, entry.st_ino)


def statuses(folder: Path) -> dict[Path, Status]:
    """None: to look at a file by itself is as cheap."""
    return {}


def as_written(now: Status, modified_ns: int) -> bool:
    return now.modified_ns == modified_ns


def version(store: Path) -> str:
    """A hash of the names of all records, and of which files they are: their dates alone would say nothing of a record
    that arrives with an old one, as `tar` and `cp -a` leave it."""
    digest = blake2b(digest_size=16)
    for pattern in RECORDS:
        for path in find(store, pattern):
            with suppress(FileNotFoundError):  # it was removed meanwhile, or is a link to nothing
                entry = path.stat()
                identity = (
                    entry.st_size,
                    entry.st_mtime_ns,
                    entry.st_ino,
                )  # a record that is replaced has another inode
                digest.update(os.fsencode(f"{path.relative_to(store)}\0{identity}\n"))
    return digest.hexdigest()


def exists(path: Path) -> bool:
    return path.exists()


def is_folder(path: Path) -> bool:
    return path.is_dir()


def is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK)


def is_link(path: Path) -> bool:
    return path.is_symlink()


def is_inside(store: Path, path: Path) -> bool:
    """Whether a place below the store is reached without a symbolic link."""
    return path.resolve() == store.resolve() / path.relative_to(store)


def absolute(path: Path) -> Path:
    """The place as every process names it, without symbolic links: what the catalog says where its files are."""
    return path.resolve()


def local(path: Path) -> Path:
    """A real path of this machine with what is at a place, for what is mapped or opened by a library of its own.

    It keeps the name, and files of one folder stay together. Raises FileNotFoundError.
    """
    status(path)
    return path


def read_bytes(path: Path) -> bytes:
    """Raises FileNotFoundError."""
    status(path)
    return path.read_bytes()


def blocks(path: Path) -> Iterator[bytes]:
    """A file's bytes, in pieces. Raises FileNotFoundError."""
    status(path)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            yield block


def find(folder: Path, pattern: str = "*") -> list[Path]:
    """What lies below a folder and matches (`*/*/manifest.json`), in the order of names; none without the folder."""
    return sorted(folder.glob(pattern))


def folders(folder: Path) -> list[Path]:
    """The folders in a folder, in the order of names; none without it."""
    try:
        with os.scandir(folder) as entries:
            return sorted(folder / entry.name for entry in entries if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def tree_bytes(folder: Path) -> int:
    """Bytes of all files below a folder; what a symbolic link leads to is not counted."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except FileNotFoundError:  # a run works here
                continue
    return total


def last_written(path: Path) -> float:
    return path.stat().st_mtime if path.exists() else 0.0


def free_bytes(path: Path) -> int:
    """Room on the disk that a place lies on, or will lie on."""
    path = path.absolute()
    place = next(parent for parent in [path, *path.parents] if parent.exists())
    return shutil.disk_usage(place).free


def make_folder(path: Path) -> None:
    """For what asks for a folder before anything is written into it: a lock that is not waited for."""
    path.mkdir(parents=True, exist_ok=True)


def remove(path: Path) -> None:
    """Remove a file, or a symbolic link itself; nothing where there is none."""
    path.unlink(missing_ok=True)


def remove_tree(path: Path) -> None:
    """Remove a folder; a symbolic link in its place, or in it, is itself removed, and what it leads to left alone."""
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def user_cache() -> Path | None:
    """Where this user's programs remember what can be had again; None for a user without a home."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    return home / "vitalfew" if home.is_absolute() else None
