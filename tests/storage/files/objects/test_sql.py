"""SQL over a bucket: by what the catalog says, and of that store alone."""

from itertools import cycle
from pathlib import Path

import obstore
import pytest

from tests.support import shared
from tests.support.evaluating import copied
from tests.support.faulty import FaultyProxy
from tests.support.indexing import contents, index, objects_contents, sql
from vitalfew.storage.catalog.database import QueryError
from vitalfew.storage.files.objects import client

CORPUS = "synthetic:passages=20,questions=4,seed=3"
COUNTED = "SELECT (SELECT count(*) FROM passages), (SELECT count(*) FROM sentences), (SELECT count(*) FROM costs)"


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    """A small store in a directory, which is put into the bucket as other tools put it."""
    return copied(shared.indexed(CORPUS), tmp_path / "store")


@pytest.fixture
def uploaded(indexed: Path, store: Path) -> Path:
    for path in indexed.rglob("*"):
        if path.is_file():
            place = store / path.relative_to(indexed)
            obstore.put(client.client(place), client.key(place), path.read_bytes())
    return store


def test_a_store_that_another_tool_uploaded(uploaded: Path, indexed: Path, proxy: FaultyProxy) -> None:
    """Its catalog is of another place. It is as good as one that was made there."""
    assert sql(uploaded, COUNTED) == sql(indexed, COUNTED)
    assert objects_contents(uploaded) == contents(indexed)
    index(uploaded, CORPUS, name="again")
    assert sql(uploaded, "SELECT name FROM runs ORDER BY started") == [("test",), ("again",)]


def test_a_query_lists_the_store_once(store: Path, proxy: FaultyProxy) -> None:
    index(store, CORPUS)
    rows = sql(store, COUNTED)
    proxy.count.clear()
    client._client.cache_clear()  # as a new process has it
    assert sql(store, COUNTED) == rows
    assert proxy.count["LIST"] <= 3
    assert proxy.count.total() < 60, proxy.log


ELSEWHERE = (
    "s3://{bucket}/beside/secret.parquet",
    "s3://{bucket}/{store}2/secret.parquet",
    "s3://{bucket}/{store}/../beside/secret.parquet",
    "s3://{bucket}/*/secret.parquet",
    "s3://other/secret.parquet",
    "gs://{bucket}/secret.parquet",
    "https://example.org/secret.parquet",
    "file://{local}",
    "{local}",
)


def test_nothing_else_is_read(uploaded: Path, indexed: Path) -> None:
    secret = next(indexed.glob("passages/*/*.parquet"))
    for place in (uploaded.with_name("beside"), uploaded.with_name(f"{uploaded.name}2")):
        obstore.put(client.client(place), client.key(place / "secret.parquet"), secret.read_bytes())
    for path, source in zip(ELSEWHERE, cycle(("read_parquet('{}')", "'{}'", "read_text('{}')", "read_blob('{}')"))):
        named = path.format(bucket=uploaded.parts[1], store=uploaded.name, local=secret)
        with pytest.raises(QueryError) as refused:
            sql(uploaded, f"SELECT * FROM {source.format(named)}")
        assert "Traceback" not in str(refused.value)


def test_a_file_of_the_store_is_read_by_its_address(uploaded: Path, indexed: Path) -> None:
    (passages,) = indexed.glob("passages/*/00000.parquet")
    place = uploaded / passages.relative_to(indexed)
    assert sql(uploaded, f"SELECT count(*) FROM '{place}'") == sql(indexed, "SELECT count(*) FROM passages")
    with pytest.raises(QueryError, match=r"^s3://.*/none\.parquet does not exist$"):
        sql(uploaded, f"SELECT * FROM '{place.with_name('none.parquet')}'")
