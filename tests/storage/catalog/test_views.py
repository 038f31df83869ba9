"""SQL over a store: views, columns, read-only, and nothing outside the store."""

import os
import shutil
import subprocess
from pathlib import Path

import duckdb
import pytest

from tests.support.evaluating import copied
from tests.support.indexing import sql
from tests.support.shared import indexed
from vitalfew.storage import files
from vitalfew.storage.catalog.database import CATALOG, QueryError, build, query

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(indexed(), tmp_path_factory.mktemp("catalog") / "store")


REFUSED = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('{store}/link/passwd')",
    "SELECT * FROM glob('/*')",
    "SELECT getenv('HOME')",
    "CREATE SECRET mine (TYPE s3)",
    "COPY (SELECT 1) TO '{shard}'",
    "SELECT * FROM query('WITH a AS (COPY (SELECT 1) TO ''{shard}'') SELECT * FROM a')",
    "SELECT 1) AS a; COPY (SELECT 1) TO '{shard}'; SELECT * FROM (SELECT 1",
    "EXPORT DATABASE '{out}'",
    "ATTACH '{store}/new.duckdb'",
    "SET enable_external_access = true",
    "PRAGMA profiling_output = '{store}/profile'",
]


@pytest.mark.parametrize("statement", REFUSED)
def test_refused_statements(store: Path, statement: str) -> None:
    link = store / "link"
    if not link.exists():
        link.symlink_to("/etc")
    shard = sorted(store.resolve().glob("passages/*/00000.parquet"))[0]
    query(store, "SELECT 1")  # which writes the catalog
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    written = statement.format(store=store.resolve(), shard=shard, out="/tmp/vitalfew-must-not-exist")
    with pytest.raises((QueryError, duckdb.Error)):
        query(store, written).fetchall()
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before
    assert not list(Path("/tmp").glob("vitalfew-must-not-exist*"))


def test_statements_that_read(store: Path) -> None:
    for statement in ("/* which */ FROM costs; -- all", "PIVOT costs ON stage IN ('load', 'split') USING sum(usd)"):
        assert query(store, statement).fetchall()


def test_a_moved_store_and_a_damaged_catalog(tmp_path: Path) -> None:
    copied(indexed(), tmp_path / "here")
    rows = sql(tmp_path / "here", "SELECT count(*) FROM passages")
    (tmp_path / "here").rename(tmp_path / "there")
    assert sql(tmp_path / "there", "SELECT count(*) FROM passages") == rows
    (tmp_path / "there" / CATALOG).write_bytes(b"no database")
    assert sql(tmp_path / "there", "SELECT count(*) FROM passages") == rows


# Which catalog is of the store as it is

LONG_AGO = 1_000_000_000


@pytest.fixture
def arriving(tmp_path: Path) -> tuple[Path, list[Path]]:
    """A store with its catalog, and the directories of another that are to be put into it: all their dates are old."""
    here = copied(indexed(), tmp_path / "store")
    other = copied(indexed(encode={"context": "passage"}), tmp_path / "other")
    build(here)
    for path in other.rglob("*"):
        if path.is_file():  # no other test's
            shutil.copy2(path, path.with_suffix(".copy"))
            path.with_suffix(".copy").replace(path)
        os.utime(path, (LONG_AGO, LONG_AGO))
    return here, [path for path in other.glob("*/*") if not (here / path.relative_to(other)).exists()]


def place(store: Path, path: Path) -> None:
    """As `cp -a` and `tar -p` do."""
    subprocess.run(["cp", "-a", str(path), str(store / path.parent.name)], check=True)


def counts(store: Path) -> list[int]:
    return [sql(store, f"SELECT count(DISTINCT fingerprint) FROM {table}")[0][0] for table in ("all_vectors", "costs")]


def test_what_arrives_with_old_dates_is_in_sql(arriving: tuple[Path, list[Path]]) -> None:
    store, paths = arriving
    (run,) = (path for path in paths if path.parent.name == "runs")
    for path in paths:
        place(store, path)
    assert counts(store)[0] == 2
    assert counts(store)[1] > counts(indexed())[1]
    assert len(sql(store, "SELECT run_id FROM runs")) == 2
    (store / "runs" / run.name).unlink()
    assert len(sql(store, "SELECT run_id FROM runs")) == 1
    os.utime(store / "runs", (LONG_AGO, LONG_AGO))
    for path in paths:
        if path.is_dir():
            shutil.rmtree(store / path.parent.name / path.name)
    assert counts(store) == counts(indexed())


def test_files_may_arrive_after_their_manifest(
    arriving: tuple[Path, list[Path]], caplog: pytest.LogCaptureFixture
) -> None:
    store, paths = arriving
    (vectors,) = (path for path in paths if path.parent.name == "vectors")
    place(store, vectors)
    late = max((store / "vectors" / vectors.name).glob("*.parquet"))
    late.rename(store / "late")
    assert counts(store)[0] == 1
    assert "is left out of the tables" in caplog.text
    (store / "late").rename(late)
    assert counts(store)[0] == 2


def test_a_catalog_is_kept_while_nothing_is_written(store: Path) -> None:
    counts(store)
    before = files.status(store / CATALOG)
    counts(store)
    assert files.status(store / CATALOG) == before
