"""Short ways for tests to index something and to look at what came of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from configs.loading import build, merged
from configs.schema import IndexCorpus
from flows.pipelines.graph import graph
from flows.pipelines.run import Outcome, run_serially
from storage.catalog import database
from storage.files import checksum

SYNTHETIC = "synthetic:passages=60,questions=10,seed=3"
FAKE: dict[str, Any] = {"encode": {"encoder": "tests.support.fakes:HashEncoder"}, "load": {"shard_passages": 20}}


def parameters(store: Path, *datasets: str, **settings: Any) -> IndexCorpus:
    """With the hash encoder and small shards, unless `settings` say otherwise."""
    given = {"store": store, "name": "test", "datasets": datasets or (SYNTHETIC,), "runner": "serial"}
    return build(IndexCorpus, merged(merged(FAKE, given), settings))


@contextmanager
def without_catalog() -> Iterator[None]:
    """Runs in this block leave the catalog to the next query, which finds it stale and writes it: a third of what a
    small run costs."""
    with mock.patch.object(database, "refresh"):
        yield


def index(store: Path, *datasets: str, **settings: Any) -> Outcome:
    with without_catalog():
        return graph(parameters(store, *datasets, **settings)).run(run_serially)


def reused(outcome: Outcome) -> set[str]:
    """The stages that were there already."""
    return {manifest.stage for manifest in outcome.manifests if manifest.artifact in outcome.reused}


def table(store: Path, name: str) -> pa.Table:
    """Every row of a table, in the order of its files."""
    return pa.concat_tables([pq.read_table(path) for path in sorted((store / name).glob("*/*.parquet"))])


def contents(store: Path) -> dict[str, str]:
    """Checksums of everything whose bytes a result depends on: all but ledger, quotes, records, reports, catalog, and
    what has the seconds of refiners."""
    return {
        str(path.relative_to(store)): checksum(path)
        for path in sorted(store.glob("*/*/*"))
        if path.suffix in (".parquet", ".faiss", ".npy", ".npz")
        and path.parent.parent.name not in ("costs", "quotes", "readings", "refinements", "reports")
    }


def sql(store: Path, query: str) -> list[tuple[Any, ...]]:
    from storage.catalog.database import query as run

    relation: duckdb.DuckDBPyRelation = run(store, query)
    return relation.fetchall()
