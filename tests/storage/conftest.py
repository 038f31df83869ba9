"""What several tests of a store need: a bucket with a server as long as they run, and the cache of a new machine."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.faulty import FaultyProxy, faulty
from tests.support.object_store import ObjectServer, s3_server
from vitalfew.configs.paths import BucketPath
from vitalfew.storage.files import checksums
from vitalfew.storage.files.objects import client, leases


@pytest.fixture(scope="session")
def server() -> Iterator[ObjectServer]:
    with s3_server() as running:
        yield running


@pytest.fixture(scope="module")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def proxy(server: ObjectServer, cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    """What this process's clients go through, without faults yet; they know nothing of a server before."""
    with faulty(server) as between:
        for name, value in between.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("VITALFEW_CACHE", str(cache_folder))
        pauses = {"init_backoff": timedelta(milliseconds=2), "max_backoff": timedelta(milliseconds=50), "base": 2.0}
        monkeypatch.setattr(client, "_PATIENCE", {**client._PATIENCE, "backoff": pauses})
        forget_clients()
        yield between
        between.clear()
    forget_clients()


def forget_clients() -> None:
    client._client.cache_clear()
    leases._conditional.clear()


@pytest.fixture
def bucket(proxy: FaultyProxy) -> Path:
    """An empty store in the bucket, another in each test."""
    return BucketPath("s3:", proxy.server.bucket, uuid4().hex)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache directory of a user who has read no file yet. Files are taken for settled, however new they are."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(checksums, "SETTLED_NS", -1)
    return tmp_path / "cache"
