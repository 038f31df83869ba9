"""Locks in a bucket: leases, taken and kept by conditional writes.

A lease is an object that says who holds it. Its holder writes it again every BEAT_SECONDS, on the condition that it is
as the holder left it; whoever waits takes it over on the same condition once it has not been written for LEASE_SECONDS.
So of two that want it one gets it, and a holder that was silent for too long learns that it is one no longer:
`confirm_lock` raises before it says that all is done. The age of a lease follows from the server's dates alone. A
process that is known to have ended holds nothing: its lease is taken over at once.
"""

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any

import obstore

from vitalfew.storage.files.directory import BucketError, LeaseLost
from vitalfew.storage.files.objects.client import client, explained, fetched, key, seen, unconditional
from vitalfew.storage.files.processes import has_ended, this_process

LEASE_SECONDS = 60.0
BEAT_SECONDS = 15.0
LOOK_SECONDS = 1.0
"""The pause between two looks at a lease of another process."""


@dataclass
class Lease:
    """A lease that this process holds. `version`: what the next write replaces."""

    path: Path
    version: Any
    lost: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    written: threading.Lock = field(default_factory=threading.Lock)

    def write(self, by: Any, holder: str) -> None:
        """Write it again. Raises FileExistsError where another process has it."""
        with self.written:
            try:
                self.version = _put(by, self.path, holder, self.version)
            except FileExistsError:  # an earlier beat, given up, may have been written after all
                found = _read(self.path)
                if found is None or found.holder != _this_holder():
                    raise
                self.version = _put(by, self.path, holder, found.version)

    def renew(self, by: Any) -> None:
        try:
            self.write(by, _this_holder())
        except (FileExistsError, FileNotFoundError):
            self.lost = True

    def keep(self) -> None:
        while not self.lost and not self.ended.wait(BEAT_SECONDS):
            with suppress(OSError):  # no answer, for however long: it is this process's until another has written it
                self.renew(client(self.path, BEAT_SECONDS))


_held: dict[Path, Lease] = {}


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """As `Directory.locked`. Raises BucketError, also where the bucket knows no conditional writes."""
    lease = _acquire(path, wait)
    if lease is None:
        yield False
        return
    _held[path] = lease
    threading.Thread(target=lease.keep, name=f"lease {path.name}", daemon=True).start()
    try:
        yield True
    finally:
        lease.ended.set()
        del _held[path]
        with suppress(OSError):  # it was taken over, or its artifact removed; or it runs out
            lease.write(client(path, BEAT_SECONDS), "")


def confirm_lock(path: Path) -> None:
    """Raises LeaseLost where this process held the lease and does so no longer; before it says that all is done."""
    lease = _held.get(path)
    if lease is None:
        return
    lease.renew(client(path))
    if lease.lost:
        raise LeaseLost(
            f"{path.parent}: another run took this over after this one was silent for {LEASE_SECONDS:.0f} "
            "seconds. What both have finished is kept: run the same command again"
        )


def is_locked(path: Path) -> bool:
    found = _read(path)
    return found is not None and not _is_free(path, found, lambda: _server_offset(path))


@dataclass(frozen=True)
class _Found:
    """A lease as it is in the bucket; `modified`: the server's date (POSIX seconds)."""

    holder: str
    modified: float
    version: Any


def _server_offset(path: Path) -> float:
    """The server's time (POSIX seconds) less this machine's monotonic clock, from the date of an object written now."""
    probe = path.with_name(f".clock-{token_hex(8)}")
    with explained(probe):
        began = time.monotonic()
        obstore.put(client(probe), key(probe), b"")
        written: float = obstore.head(client(probe), key(probe))["last_modified"].timestamp()
        obstore.delete(client(probe), key(probe))
    return written - began


def _acquire(path: Path, wait: bool) -> Lease | None:
    offset = cache(lambda: _server_offset(path))
    while True:
        found = _read(path)
        if found is None or _is_free(path, found, offset):
            with suppress(FileExistsError):  # another was first
                version = _put(client(path, 20.0), path, _this_holder(), found and found.version)
                _check_conditions(path)
                return Lease(path, version)
        elif not wait:
            return None
        time.sleep(random.uniform(0.5, 1.0) * LOOK_SECONDS)


def _is_free(path: Path, found: _Found, offset: Callable[[], float]) -> bool:
    if not found.holder or (path in _held and _held[path].lost):
        return True
    if has_ended(found.holder.rpartition(" ")[2]):
        return True
    return offset() + time.monotonic() - found.modified > LEASE_SECONDS


def _read(path: Path) -> _Found | None:
    try:
        meta, content = fetched(path)
    except FileNotFoundError:
        return None
    holder = ""
    with suppress(ValueError, KeyError, TypeError):  # of what is no lease: nobody holds it
        holder = str(json.loads(content)["holder"])
    return _Found(holder, meta["last_modified"].timestamp(), seen(meta))


def _put(by: Any, path: Path, holder: str, version: Any) -> Any:
    """Write the lease in the place of `version`, or again, and return its version. Raises FileExistsError."""
    content = json.dumps({"holder": holder, "nonce": token_hex(8)}).encode()
    try:
        with explained(path):
            return seen(obstore.put(by, key(path), content, mode=version or "create"))
    except FileExistsError:  # or the put was cut off after it was done, and tried again
        meta, there = fetched(path, by)
        if there == content:
            return seen(meta)
        raise


def _this_holder() -> str:
    """The machine's name is for people: several may have the same."""
    return f"{socket.gethostname()} {this_process()}"


_conditional: set[str] = set()
"""Buckets whose server was seen to keep a condition."""


def _check_conditions(path: Path) -> None:
    """A server that does not know conditions may ignore them. Raises BucketError."""
    if path.parts[1] in _conditional:
        return
    try:
        with explained(path):
            obstore.put(client(path), key(path), b"", mode="create")
    except FileExistsError:
        _conditional.add(path.parts[1])
        return
    raise BucketError(unconditional(path))
