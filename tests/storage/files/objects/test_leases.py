"""Leases: one of two gets it, and who was silent for too long has it no longer, whatever the clocks say."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore
import pytest

from tests.support.faulty import FaultyProxy
from vitalfew.storage import files
from vitalfew.storage.files import BucketError, LeaseLost
from vitalfew.storage.files.objects import client, leases

OUT_OF_SIGHT = f"{socket.gethostname()} 0123456789ab-4194304-1"
"""A holder on another machine, or in another container."""


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's dates are whole seconds: a lease of less than two might seem to have run out while it is kept."""
    monkeypatch.setattr(leases, "LEASE_SECONDS", 2.5)
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.2)
    monkeypatch.setattr(leases, "LOOK_SECONDS", 0.05)


@pytest.fixture
def lock(store: Path) -> Path:
    return store / "passages" / "lock"


def holder(lock: Path) -> str:
    """The name of the process that holds it; empty for none."""
    return str(json.loads(files.read_bytes(lock))["holder"]).rpartition(" ")[2]


def leave(lock: Path, holder: str) -> None:
    """A lease that somebody took, and does not keep."""
    obstore.put(client.client(lock), client.key(lock), json.dumps({"holder": holder}).encode())


def test_one_of_many_has_it(lock: Path) -> None:
    inside, together = [0], [0]

    def work(_: int) -> None:
        with files.locked(lock):
            inside[0] += 1
            together.append(inside[0])
            inside[0] -= 1

    with ThreadPoolExecutor(4) as pool:
        [*pool.map(work, range(4))]
    assert together == [0, 1, 1, 1, 1]
    assert not holder(lock)


@pytest.mark.slow
def test_beats_keep_it_though_the_clock_is_an_hour_ahead(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 3600)
    monkeypatch.setattr(leases, "LEASE_SECONDS", 6.0)  # a beat may be late on a busy machine
    has = threading.Event()

    def wait() -> None:
        with files.locked(lock):
            has.set()

    other = threading.Thread(target=wait)
    with files.locked(lock):
        other.start()
        assert not has.wait(leases.LEASE_SECONDS + 1.5)
        files.confirm_lock(lock)
    other.join(300)
    assert has.is_set()


def test_the_silent_lose_it(lock: Path) -> None:
    leave(lock, OUT_OF_SIGHT)
    began = time.monotonic()
    with files.locked(lock):
        assert holder(lock) == files.this_process()
    assert time.monotonic() - began > leases.LEASE_SECONDS - 1  # dates are whole seconds


def test_who_lost_it_learns_so_and_does_not_let_go_of_anothers(lock: Path) -> None:
    with files.locked(lock):
        leave(lock, OUT_OF_SIGHT)
        with pytest.raises(LeaseLost, match=r"another run took this over.*run the same command again"):
            files.confirm_lock(lock)
    assert holder(lock) == OUT_OF_SIGHT.split()[1]


def test_who_is_known_to_have_ended_holds_nothing(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "LEASE_SECONDS", 3600.0)
    leave(lock, f"{socket.gethostname()} {files.this_process()}1")
    assert not files.is_locked(lock)
    with files.locked(lock):
        assert holder(lock) == files.this_process()


def test_a_holder_out_of_sight_is_believed_whatever_its_host_is_called(lock: Path) -> None:
    """As one in another container of this machine, or on another machine of the same name."""
    leave(lock, OUT_OF_SIGHT)
    assert files.is_locked(lock)
    with files.locked(lock, wait=False) as held:
        assert not held
    assert holder(lock) == OUT_OF_SIGHT.split()[1]


@pytest.mark.parametrize("kind", ["ignore_conditions", "refuse_conditions"])
def test_without_conditional_writes_there_is_no_lock(lock: Path, proxy: FaultyProxy, kind: str) -> None:
    getattr(proxy, kind)()
    with pytest.raises(BucketError, match="does not support conditional writes"), files.locked(lock):
        pass
    assert proxy.count.total() < 20
