"""The S3 server that tests have, and the faults put before it, as obstore sees them."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, cast
from uuid import uuid4

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError
from obstore.store import S3Store

from tests.support.faulty import FaultyProxy, faulty
from tests.support.object_store import ObjectServer, s3_server

CLIENTS = 16


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with s3_server() as running:
        yield running


@pytest.fixture
def proxy(server: ObjectServer) -> Iterator[FaultyProxy]:
    with faulty(server) as between:
        yield between


@pytest.fixture
def prefix() -> str:
    """Other in each test: all are in one bucket."""
    return uuid4().hex


def client(through: ObjectServer | FaultyProxy, prefix: str, retries: int = 0) -> S3Store:
    bucket = (through.server if isinstance(through, FaultyProxy) else through).bucket
    pauses: Any = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=5), "base": 2}
    return S3Store(
        bucket,
        prefix=prefix,
        config=cast(Any, {name.lower(): value for name, value in through.environment.items()}),
        client_options={"allow_http": True},
        retry_config={"max_retries": retries, "backoff": pauses, "retry_timeout": timedelta(seconds=30)},
    )


def keys(store: S3Store, prefix: str | None = None, offset: str | None = None) -> list[str]:
    return sorted(entry["path"] for entry in store.list(prefix, offset=offset).collect())


def read(store: S3Store, key: str) -> bytes:
    return bytes(obstore.get(store, key).bytes())


def test_one_of_many_makes_an_object(server: ObjectServer, prefix: str) -> None:
    stores = [client(server, prefix) for _ in range(CLIENTS)]
    start = threading.Barrier(CLIENTS)

    def makes(key: str, number: int) -> bool:
        start.wait()
        try:
            obstore.put(stores[number], key, str(number).encode(), mode="create")
        except AlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(CLIENTS) as pool:
        for key in map(str, range(20)):
            made = list(pool.map(makes, [key] * CLIENTS, range(CLIENTS)))
            assert made.count(True) == 1
            assert read(stores[0], key) == str(made.index(True)).encode()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_every_third_fails(proxy: FaultyProxy, prefix: str, status: int) -> None:
    proxy.fail(every=3, status=status)
    store = client(proxy, prefix)
    failed = []
    for number in range(9):
        try:
            obstore.put(store, str(number), b"")
        except BaseError:
            failed.append(number)
    assert failed == [2, 5, 8]
    patient = client(proxy, prefix, retries=3)
    for number in range(9):
        obstore.put(patient, str(number), b"")
    proxy.clear()
    assert len(keys(store)) == 9


def test_a_lost_answer_to_what_was_done(proxy: FaultyProxy, prefix: str) -> None:
    store = client(proxy, prefix)
    with proxy.cut(), pytest.raises(GenericError):
        obstore.put(store, "written", b"content", mode="create")
    assert read(store, "written") == b"content"
    with proxy.cut(kinds=("PUT",), times=1), pytest.raises(AlreadyExistsError):  # whose own the object is
        obstore.put(client(proxy, prefix, retries=2), "again", b"content", mode="create")
    assert read(store, "again") == b"content"
