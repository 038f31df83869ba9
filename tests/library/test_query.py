"""`Store.query`, `Store.tables` and `Store.costs`."""

import csv
import threading
import time
from datetime import date
from pathlib import Path

import polars as pl
import pytest

import vitalfew as vf
from vitalfew.storage.catalog.database import QueryError, Stopped
from vitalfew.storage.catalog.macros import MACROS
from vitalfew.storage.catalog.views import ROWS

ENDLESS = "SELECT count(*) FROM range(1000000) a, range(1000000) b"


def test_a_query_is_cancelled_from_another_thread(store: vf.Store) -> None:
    query = store.query(ENDLESS)
    threading.Timer(0.3, query.cancel).start()
    begun = time.monotonic()
    with pytest.raises(Stopped, match="cancelled"):
        query.frame()
    assert time.monotonic() - begun < 3
    with pytest.raises(Stopped):  # it stays so
        query.frame()


def test_a_cancelled_query_is_not_late(store: vf.Store) -> None:
    with pytest.raises(QueryError, match=r"stopped after 0\.3 s"):
        store.query(ENDLESS, timeout=0.3).frame()


def test_as_many_rows_as_asked_for(store: vf.Store) -> None:
    query = store.query("SELECT range AS n FROM range(1000000)")
    assert query.frame(3)["n"].to_list() == [0, 1, 2]
    assert 0 < len(query.frame(most_bytes=1000)) < 1_000_000


def test_types_that_polars_lacks_and_plain_ones(store: vf.Store) -> None:
    statement = "SELECT INTERVAL 3 DAYS AS i, [1, 2] AS l, 1 AS a, 2 AS a, '-infinity'::TIMESTAMP AS t"
    assert store.sql(statement).select("i", "l", "a", "a_1").row(0) == ("3 days", [1, 2], 1, 2)
    assert store.query(statement).frame(plain=True).row(0) == ("3 days", "[1,2]", 1, 2, "-infinity")


def test_an_error_of_a_value_is_one_of_the_query(store: vf.Store) -> None:
    with pytest.raises(QueryError, match="Could not convert"):
        store.sql("SELECT CAST(text AS INT) FROM hits")


def test_rows_are_written(store: vf.Store, tmp_path: Path) -> None:
    query = store.query("SELECT range AS n, '=1+1' AS text FROM range(30000)")
    assert query.write(tmp_path / "rows.parquet") == 30_000
    assert pl.read_parquet(tmp_path / "rows.parquet")["n"].sum() == sum(range(30_000))
    assert query.write(tmp_path / "rows.csv", most=5) == 5
    rows = [*csv.reader((tmp_path / "rows.csv").open())]
    assert rows[:2] == [["n", "text"], ["0", "'=1+1"]]  # no formula
    with pytest.raises(ValueError, match=r"\.csv or \.parquet, got 'rows\.txt'"):
        query.write(tmp_path / "rows.txt")


def test_what_can_be_asked(store: vf.Store) -> None:
    found = store.tables()
    assert set(found.filter(kind="table")["name"]) >= set(ROWS)
    assert set(found.filter(kind="macro")["name"]) == {macro.name for macro in MACROS}
    (row,) = found.filter(kind="column", name="costs", column="usd").iter_rows(named=True)
    assert (row["type"], row["unit"]) == ("DOUBLE", "USD")


def test_costs_by_method_add_up(store: vf.Store) -> None:
    costs = store.costs()
    paid = store.sql("SELECT sum(usd), sum(tokens)::DOUBLE, sum(cpu_seconds) FROM costs").row(0)
    assert costs.select(pl.col("usd", "tokens", "cpu_seconds").sum()).row(0) == pytest.approx(paid)
    shared = costs.filter(pl.col("shared_by") > 1)
    assert {"ask", "encode_questions"} <= set(shared["stage"])
    assert (shared.group_by("stage", "run_id", "shared_by").agg(pl.col("method").n_unique())["method"] > 1).all()
    assert set(costs.filter(pl.col("method") == "indexing (no method)")["name"]) == {"towns"}


def test_costs_of_a_period(store: vf.Store) -> None:
    (day,) = store.costs()["day"].unique()
    assert len(store.costs(since=day, until=day)) == len(store.costs())
    assert store.costs(since=date(2100, 1, 1)).is_empty()
    assert store.costs(until=date(2000, 1, 1)).is_empty()


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
