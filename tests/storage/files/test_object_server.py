"""The S3 server that tests have, and the faults put before it, as obstore sees them."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, cast
from uuid import uuid4

import boto3
import obstore
import psutil
import pytest
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError, PermissionDeniedError, PreconditionError
from obstore.store import S3Store

from tests.support.faulty import FaultyProxy, faulty
from tests.support.object_store import ROOT, ObjectServer, s3_server

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


def test_no_increment_under_a_tag_is_lost(server: ObjectServer, prefix: str) -> None:
    stores = [client(server, prefix) for _ in range(CLIENTS)]
    obstore.put(stores[0], "count", b"0")

    def add(store: S3Store) -> None:
        done = 0
        while done < 3:
            now = obstore.get(store, "count")
            tag = now.meta["e_tag"]
            try:
                obstore.put(store, "count", str(int(bytes(now.bytes())) + 1).encode(), mode={"e_tag": tag})
                done += 1
            except PreconditionError:
                continue

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(add, stores))
    assert read(stores[0], "count") == str(3 * CLIENTS).encode()


def test_parts_of_a_large_object(server: ObjectServer, prefix: str) -> None:
    store, content = client(server, prefix), os.urandom(20 << 20)
    obstore.put(store, "large", content, use_multipart=True, chunk_size=6 << 20)
    assert read(store, "large") == content
    assert bytes(obstore.get_range(store, "large", start=6_000_000, end=13_000_000)) == content[6_000_000:13_000_000]


@pytest.mark.slow
def test_the_server_ends_with_the_process_that_started_it() -> None:
    script = (
        "import sys\nfrom tests.support.object_store import s3_server\nwith s3_server(): print(flush=True), input()"
    )
    owner = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    owner.stdout.readline()
    (of_server,) = psutil.Process(owner.pid).children()
    owner.kill()
    owner.communicate()
    of_server.wait(timeout=60)


def test_a_bucket_that_cannot_be_made() -> None:
    with pytest.raises(RuntimeError, match="InvalidBucketName"), s3_server("x"):
        pass


def test_without_faults_nothing_is_changed(proxy: FaultyProxy, prefix: str) -> None:
    store, direct = client(proxy, prefix), client(proxy.server, prefix)
    obstore.put(store, "a b/ä+%", b"content", attributes={"x": "1"})
    assert read(direct, "a b/ä+%") == read(store, "a b/ä+%") == b"content"
    assert obstore.head(store, "a b/ä+%") == obstore.head(direct, "a b/ä+%")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "a b/ä+%", b"other", mode="create")
    obstore.delete(store, ["a b/ä+%"])
    assert keys(store) == []
    kinds = {"PUT": 2, "GET": 1, "HEAD": 1, "POST": 1, "LIST": 1}
    assert proxy.count == kinds
    assert proxy.log[0][0] == "PUT"
    assert proxy.log[0][1].startswith(f"/{proxy.server.bucket}/{prefix}/a%20b/")


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


def test_faults_of_some_requests_only(proxy: FaultyProxy, prefix: str) -> None:
    store = client(proxy, prefix)
    proxy.fail(kinds=("PUT",), within="/register", times=2)
    obstore.put(store, "other", b"")
    for _ in range(2):
        with pytest.raises(GenericError, match="InternalError"):
            obstore.put(store, "register", b"")
    obstore.put(store, "register", b"")
    with proxy.fail(), pytest.raises(GenericError):
        read(store, "other")
    assert read(store, "other") == b""


def test_a_lost_answer_to_what_was_done(proxy: FaultyProxy, prefix: str) -> None:
    store = client(proxy, prefix)
    with proxy.cut(), pytest.raises(GenericError):
        obstore.put(store, "written", b"content", mode="create")
    assert read(store, "written") == b"content"
    with proxy.cut(kinds=("PUT",), times=1), pytest.raises(AlreadyExistsError):  # whose own the object is
        obstore.put(client(proxy, prefix, retries=2), "again", b"content", mode="create")
    assert read(store, "again") == b"content"


def test_half_a_body(proxy: FaultyProxy, prefix: str) -> None:
    store = client(proxy, prefix)
    obstore.put(store, "long", b"x" * 1_000_000)
    with proxy.cut_bodies(), pytest.raises(BaseError):
        read(store, "long")
    assert len(read(store, "long")) == 1_000_000


def test_slow_answers_and_their_end(proxy: FaultyProxy, prefix: str) -> None:
    store = client(proxy, prefix)
    with proxy.slow(0.2):
        began = time.monotonic()
        obstore.put(store, "slow", b"")
        assert time.monotonic() - began >= 0.2
    proxy.slow(3600, kinds=("PUT",))
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(obstore.put, store, "slower", b"")
        while "slower" not in keys(store):
            assert not writing.done()
        proxy.clear()
        writing.result(timeout=60)


def test_old_lists(proxy: FaultyProxy, prefix: str) -> None:
    store, direct = client(proxy, prefix), client(proxy.server, prefix)
    obstore.put(store, "kept", b"old")
    obstore.put(store, "gone", b"")
    with proxy.old_lists():
        obstore.put(store, "new", b"")
        obstore.put(store, "kept", b"changed")
        obstore.delete(store, "gone")
        assert keys(store) == ["gone", "kept"]
        assert keys(direct) == ["kept", "new"]
        assert {entry["path"]: entry["size"] for entry in store.list().collect()} == {"gone": 0, "kept": 3}
        assert read(store, "kept") == b"changed"
    assert keys(store) == ["kept", "new"]


def pages(through: ObjectServer | FaultyProxy, **query: Any) -> list[tuple[list[str], list[str]]]:
    """Keys and common prefixes of each page of a list, as another client asks for it."""
    by_boto = boto3.client(
        "s3",
        endpoint_url=through.url,
        region_name=through.environment["AWS_REGION"],
        aws_access_key_id=through.environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=through.environment["AWS_SECRET_ACCESS_KEY"],
    )
    bucket = (through.server if isinstance(through, FaultyProxy) else through).bucket
    found = by_boto.get_paginator("list_objects_v2").paginate(Bucket=bucket, **query)
    return [
        (
            [entry["Key"] for entry in page.get("Contents", [])],
            [entry["Prefix"] for entry in page.get("CommonPrefixes", [])],
        )
        for page in found
    ]


def test_old_lists_are_asked_like_new_ones(proxy: FaultyProxy, prefix: str) -> None:
    for key in ("a", "b/1", "b/2", "b c/ä & <d>", "c+d", "e/f/g", "z"):
        obstore.put(client(proxy, prefix), key, b"")
    within = f"{prefix}/"
    queries: list[dict[str, Any]] = [
        {"Prefix": within},
        {"Prefix": within, "Delimiter": "/"},
        {"Prefix": within, "MaxKeys": 2},
        {"Prefix": f"{within}b", "MaxKeys": 1},
        {"Prefix": within, "StartAfter": f"{within}b/1"},
        {"Prefix": f"{within}nothing"},
    ]
    asked = [pages(proxy, **query) for query in queries]
    proxy.old_lists()
    assert [pages(proxy, **query) for query in queries] == asked
    by_twos = pages(proxy, Prefix=within, Delimiter="/", MaxKeys=2)
    assert [len(page) + len(common) for page, common in by_twos] == [2, 2, 2]
    found = sorted(name for page, common in by_twos for name in page + common)
    assert found == sorted(f"{within}{name}" for name in ("a", "b/", "b c/", "c+d", "e/", "z"))


@pytest.mark.slow
def test_more_than_a_page_of_old_lists(proxy: FaultyProxy, prefix: str) -> None:
    store = client(proxy, prefix)
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda number: obstore.put(store, f"{number:04}", b""), range(1100)))
    proxy.old_lists()
    obstore.delete(store, [f"{number:04}" for number in range(1100)])
    assert keys(store) == [f"{number:04}" for number in range(1100)]
    assert keys(store, offset="0997") == [f"{number:04}" for number in range(998, 1100)]
    proxy.clear()
    assert keys(store) == []


def test_forbidden(proxy: FaultyProxy, prefix: str) -> None:
    store = client(proxy, prefix)
    obstore.put(store, "there", b"content")
    with proxy.forbid_writes():
        for write in (obstore.put, lambda *_: obstore.delete(store, "there")):
            with pytest.raises(BaseError, match="AccessDenied"):
                write(store, "there", b"other")
        assert read(store, "there") == b"content"
    with proxy.forbid_all():
        with pytest.raises(PermissionDeniedError, match="AccessDenied"):
            read(store, "there")
        with pytest.raises(GenericError, match="AccessDenied"):  # obstore 0.12 has no kind for lists that are forbidden
            keys(store)
    assert read(store, "there") == b"content"


def test_conditions_passed_over_or_refused(proxy: FaultyProxy, prefix: str) -> None:
    store = client(proxy, prefix)
    obstore.put(store, "there", b"1")
    with proxy.ignore_conditions():
        obstore.put(store, "there", b"2", mode="create")
        obstore.put(store, "there", b"3", mode={"e_tag": '"no such"'})
    assert read(store, "there") == b"3"
    with proxy.refuse_conditions():
        with pytest.raises(BaseError, match="NotImplemented"):
            obstore.put(store, "new", b"", mode="create")
        obstore.put(store, "new", b"4")
    assert read(store, "new") == b"4"


def test_clocks_apart(proxy: FaultyProxy, prefix: str) -> None:
    store = client(proxy, prefix)
    for hours in (1, -1):
        with proxy.skew(hours=hours), pytest.raises(PermissionDeniedError, match="RequestTimeTooSkewed"):
            obstore.put(store, "late", b"")
    with proxy.skew(hours=0.1):
        obstore.put(store, "late", b"")
    assert keys(store) == ["late"]


def test_another_run_comes_before(proxy: FaultyProxy, prefix: str) -> None:
    store, other = client(proxy, prefix), client(proxy.server, prefix)

    def first(method: str, path: str) -> None:
        if method == "PUT" and path.endswith("/register"):
            obstore.put(other, "register", b"other's")

    proxy.before(first)
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "register", b"own", mode="create")
    assert read(store, "register") == b"other's"


def test_a_request_dropped_undone(proxy: FaultyProxy, prefix: str) -> None:
    store = client(proxy, prefix)

    def drop(method: str, path: str) -> None:
        raise ConnectionResetError(method, path)

    proxy.before(drop)
    with pytest.raises(GenericError):
        obstore.put(store, "lost", b"")
    proxy.before(None)
    assert keys(store) == []


def test_nothing_answers_once_the_proxy_has_ended(server: ObjectServer, prefix: str) -> None:
    with faulty(server) as between:
        store = client(between, prefix)
        obstore.put(store, "there", b"")
    with pytest.raises(GenericError):
        obstore.put(store, "later", b"")
    assert keys(client(server, prefix)) == ["there"]
