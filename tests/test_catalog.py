"""SQL over a store: views, columns, read-only, and nothing outside the store."""

from pathlib import Path

import polars
import pytest

from storage import schemas
from storage.catalog import CATALOG, QueryError, query
from tests.indexing import index, sql


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("catalog")
    index(folder)
    return folder


def test_a_view_for_every_table(store: Path) -> None:
    for table, schema in schemas.TABLES.items():
        columns = query(store, f"SELECT * FROM {table} LIMIT 0").columns
        assert set(schema.names) <= set(columns)
        if table not in ("runs", "quotes"):
            assert {"run_id", "fingerprint"} <= set(columns)


def test_empty_tables_have_the_same_columns(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    for table, schema in schemas.TABLES.items():
        relation = query(tmp_path, f"SELECT * FROM {table}")
        assert set(schema.names) <= set(relation.columns)
        assert relation.fetchall() == []


def test_tables_join_without_a_server(store: Path) -> None:
    orphans = sql(store, "SELECT count(*) FROM sentences LEFT JOIN passages USING (passage_id) WHERE title IS NULL")
    assert orphans == [(0,)]
    ((run, stages),) = sql(store, "SELECT run_id, count(DISTINCT stage) FROM costs GROUP BY 1")
    assert stages == 4
    assert sql(store, "SELECT run_id, state FROM runs") == [(run, "completed")]
    ((tokens,),) = sql(store, "SELECT sum(tokens) FROM costs WHERE stage = 'encode'")
    assert tokens > 0


def test_vectors_are_arrays(store: Path) -> None:
    ((similarity,),) = sql(
        store, "SELECT min(array_cosine_similarity(vector::FLOAT[32], vector::FLOAT[32])) FROM vectors"
    )
    assert similarity == pytest.approx(1, abs=1e-5)
    frame = polars.read_parquet(sorted((store / "vectors").glob("*/*.parquet"))[0])
    assert frame["vector"].dtype == polars.Array(polars.Float32, 32)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('../../etc/hostname')",
        "COPY (SELECT 1) TO '/tmp/vitalfew-must-not-exist.csv'",
        "ATTACH '/tmp/vitalfew-must-not-exist.duckdb'",
        "DROP VIEW passages",
        "CREATE TABLE mine AS SELECT 1",
        "INSERT INTO runs SELECT * FROM runs",
        "SET enable_external_access = true",
        "SELEC 1",
        "SELECT * FROM pasages",
    ],
)
def test_refused_statements(store: Path, statement: str) -> None:
    before = (store / CATALOG).read_bytes()
    with pytest.raises(QueryError):
        query(store, statement).fetchall()
    assert (store / CATALOG).read_bytes() == before
    assert not list(Path("/tmp").glob("vitalfew-must-not-exist*"))


def test_a_moved_store_and_a_damaged_catalog(tmp_path: Path) -> None:
    index(tmp_path / "here")
    rows = sql(tmp_path / "here", "SELECT count(*) FROM passages")
    (tmp_path / "here").rename(tmp_path / "there")
    assert sql(tmp_path / "there", "SELECT count(*) FROM passages") == rows
    (tmp_path / "there" / CATALOG).write_bytes(b"no database")
    assert sql(tmp_path / "there", "SELECT count(*) FROM passages") == rows


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no store at"):
        query(tmp_path / "none", "SELECT 1")
