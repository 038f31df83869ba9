"""`Store.query`, `Store.tables` and `Store.costs`."""

import csv
import threading
from pathlib import Path

import polars as pl
import pytest

import vitalfew as vf


def test_as_many_rows_as_asked_for(store: vf.Store) -> None:
    query = store.query("SELECT range AS n FROM range(1000000)")
    assert query.frame(3)["n"].to_list() == [0, 1, 2]
    assert 0 < len(query.frame(most_bytes=1000)) < 1_000_000


def test_rows_are_written(store: vf.Store, tmp_path: Path) -> None:
    query = store.query("SELECT range AS n, '=1+1' AS text FROM range(30000)")
    assert query.write(tmp_path / "rows.parquet") == 30_000
    assert pl.read_parquet(tmp_path / "rows.parquet")["n"].sum() == sum(range(30_000))
    assert query.write(tmp_path / "rows.csv", most=5) == 5
    rows = [*csv.reader((tmp_path / "rows.csv").open())]
    assert rows[:2] == [["n", "text"], ["0", "'=1+1"]]  # no formula
    with pytest.raises(ValueError, match=r"\.csv or \.parquet, got 'rows\.txt'"):
        query.write(tmp_path / "rows.txt")


def test_threads_write_one_catalog(own: vf.Store) -> None:
    """A store that has changed is asked by several threads at once."""
    (Path(own.place) / "catalog.duckdb").unlink(missing_ok=True)
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(len(own.sql("FROM runs")))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counts) == 4
    assert len(set(counts)) == 1
