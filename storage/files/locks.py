"""Locks on files: a process lets go of its own however it ends, and whoever holds a lock may remove its file.

A child by fork, a data loader's or an engine's, does not hold its parent's: it may live on when that is killed.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_held: set[int] = set()
"""The descriptors of this process's locks."""


def _let_go() -> None:
    for lock in _held:
        os.close(lock)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Hold the lock file `path` against all other processes, waiting for whoever holds it.

    With `wait` False it yields whether its directory was there and the lock free, instead of waiting.
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


def _take(path: Path, wait: bool) -> int | None:
    """A descriptor that holds the lock; None where it is another's, or its file was removed while it was waited for."""
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


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock file `path`."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:  # held, or a file system that does not say
        return True
    return False


def confirm_lock(path: Path) -> None:
    """The system lets nobody else have a lock that is held."""
