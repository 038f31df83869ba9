"""The S3 server of `make cluster` lets in who has its keys, and nobody else."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, PermissionDeniedError, PreconditionError
from obstore.store import S3Store

ROOT = Path(__file__).parents[2]
BUCKET = "things"
NAMES = ("plain", "a folder/a name+with=signs;,", "ümlaut/ß%41&=?#")


@contextmanager
def object_server(access_key: str, secret_key: str) -> Iterator[int]:
    """The port of a server with one bucket."""
    keys = {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key}
    process = subprocess.Popen(
        [sys.executable, "-m", "deploy.object_store", BUCKET],
        cwd=ROOT,
        env=os.environ | keys,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout
        yield int(process.stdout.readline())
    finally:
        process.communicate()  # closes its standard input
        assert process.returncode == 0


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with object_server("key", "secret") as port:
        yield port


def bucket(port: int, access_key: str = "key", secret_key: str = "secret") -> S3Store:
    return S3Store(
        BUCKET,
        endpoint=f"http://127.0.0.1:{port}",
        region="us-east-1",
        access_key_id=access_key,
        secret_access_key=secret_key,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


@pytest.mark.parametrize("name", NAMES)
def test_an_owner_reads_and_writes_by_conditions(port: int, name: str) -> None:
    own = bucket(port)
    obstore.put(own, name, b"first", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(own, name, b"other", mode="create")
    old = obstore.head(own, name)["e_tag"]
    obstore.put(own, name, b"second", mode={"e_tag": old})
    with pytest.raises(PreconditionError):
        obstore.put(own, name, b"third", mode={"e_tag": old})
    assert bytes(obstore.get_range(own, name, start=1, end=3)) == b"ec"
    assert name in [found["path"] for found in obstore.list(own).collect()]


@pytest.mark.parametrize(("access_key", "secret_key"), [("key", "guessed"), ("guessed", "secret")])
def test_another_key_opens_nothing(port: int, access_key: str, secret_key: str) -> None:
    stranger = bucket(port, access_key, secret_key)
    with pytest.raises(PermissionDeniedError):
        obstore.put(stranger, "new", b"")
    with pytest.raises(PermissionDeniedError):
        obstore.get(stranger, "plain")
    with pytest.raises(GenericError, match="403"):  # as obstore puts it of a listing
        obstore.list(stranger).collect()


@pytest.mark.parametrize("path", ["/", f"/{BUCKET}", f"/{BUCKET}/plain", "/moto-api/data.json"])
def test_nobody_comes_in_without_a_signature(port: int, path: str) -> None:
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    answer = connection.getresponse()
    assert (answer.status, b"AccessDenied" in answer.read()) == (403, True)
    connection.close()
