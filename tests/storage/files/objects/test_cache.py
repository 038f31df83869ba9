"""Copies of objects: bounded, the least lately used go first, and damage or a full disk loses nothing."""

import errno
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pytest

from tests.support.faulty import FaultyProxy
from vitalfew.storage import files
from vitalfew.storage.files import CacheFull, Damaged
from vitalfew.storage.files.objects import cache, client

MEGABYTE = 1_000_000
LONG_AGO = time.time() - 3600


@pytest.fixture(autouse=True)
def own_cache(proxy: FaultyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another cache for each test; its bound is 10 MB, and this process has not looked at it yet."""
    monkeypatch.setenv("VITALFEW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("VITALFEW_CACHE_GB", "0.01")
    monkeypatch.setitem(cache._added, "bytes", -1)
    return tmp_path / "cache"


def written(store: Path, name: str, megabytes: float = 1.9) -> Path:
    path = store / f"{name}.npy"
    files.write_array(path, np.full(int(megabytes * MEGABYTE), sum(name.encode()) % 128, "uint8"))
    return path


def test_the_least_lately_used_goes_first(store: Path, own_cache: Path) -> None:
    names = ["a", "b", "c", "d"]
    paths = {name: written(store, name) for name in names}
    copies = {name: files.local(path) for name, path in paths.items()}
    for age, name in enumerate(["b", "c", "a", "d"]):
        os.utime(copies[name].parent, (LONG_AGO + age, LONG_AGO + age))
    written(store, "e", 4)
    assert [name for name in names if copies[name].exists()] == ["a", "c", "d"]
    assert files.tree_bytes(own_cache) <= 10.1 * MEGABYTE
    assert int(files.read_array(paths["b"])[0]) == ord("b"), "it is fetched again"


def test_what_is_there_is_not_fetched_again(store: Path, proxy: FaultyProxy) -> None:
    path = written(store, "a")
    expected = files.checksum(path)
    before = proxy.count["GET"]
    for _ in range(3):
        files.checked(path, expected)
        files.read_array(path)
    assert proxy.count["GET"] == before, "what was written here stays as a copy"


def test_a_damaged_copy_is_fetched_again(store: Path) -> None:
    path = written(store, "a")
    expected = files.checksum(path)
    copy = files.local(path)
    copy.write_bytes(copy.read_bytes()[:-1] + b"x")
    assert files.checked(path, expected).read_bytes()[-1:] == b"a"
    obstore.put(client.client(path), client.key(path), b"other")
    with pytest.raises(Damaged, match=r"a\.npy is damaged"):
        files.checked(path, expected)


def test_a_full_disk(store: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(store, "a")
    copy = files.local(path)
    cache.drop(copy)
    opened = Path.open

    def full(self: Path, *mode: Any, **options: Any) -> Any:
        if self.is_relative_to(own_cache / "scratch") and "w" in "".join(map(str, mode)):
            raise OSError(errno.ENOSPC, "No space left on device")
        return opened(self, *mode, **options)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(CacheFull, match=r"No space left on device.*Make room, or set VITALFEW_CACHE=DIR"):
        files.read_array(path)
    with pytest.raises(CacheFull):
        files.write_array(store / "b.npy", np.zeros(3))
    assert not list((own_cache / "scratch").iterdir())
    monkeypatch.setattr(Path, "open", opened)
    assert len(files.read_array(path)) == 1.9 * MEGABYTE
    assert not files.exists(store / "b.npy")
