"""Short ways for tests to index something and to look at what came of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from vitalfew.configs.loading import build, merged
from vitalfew.configs.schema import IndexCorpus
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.run import Outcome, run_serially
from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.catalog import database, views
from vitalfew.storage.manifests import File
from vitalfew.storage.names import plain_path
from vitalfew.storage.upkeep.inventory import artifacts

SYNTHETIC = "synthetic:passages=60,questions=10,seed=3"
FAKE: dict[str, Any] = {
    "encode": {"encoder": "tests.support.fakes:HashEncoder"},
    "load": {"shard_passages": 20},
    "bm25": {"enabled": False},
}


def parameters(store: Path, *datasets: str, **settings: Any) -> IndexCorpus:
    """With the hash encoder, small shards and no keywords, unless `settings` say otherwise."""
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
    paths = ((path, str(path.relative_to(store))) for path in sorted(store.glob("*/*/*")))
    return {name: files.checksum(path) for path, name in paths if _is_of_result(name)}


def _is_of_result(name: str) -> bool:
    others = ("costs", "quotes", "readings", "refinements", "reports")
    return (
        name.endswith((".parquet", ".faiss", ".npy", ".npz", ".safetensors")) and name.partition("/")[0] not in others
    )


def objects_contents(store: Path) -> dict[str, str]:
    """What `contents` gives, of a store in a bucket: of the objects that manifests refer to, and the done-markers of
    what is not complete; by their plain paths, and by their bytes as they are now."""
    recorded = [file for artifact in artifacts(store) for file in _recorded(artifact)]
    kept = [file for file in recorded if _is_of_result(file.path)]
    return {plain_path(file.path): _digest(files.read_bytes(store / file.path)) for file in kept}


def _recorded(artifact: Artifact) -> list[File]:
    manifest = artifact.recorded_manifest()
    return [*(manifest.files() if manifest else (file for record in artifact.records() for file in record.files))]


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def sql(store: Path, query: str) -> list[tuple[Any, ...]]:
    """Query a store. A catalog that this writes lacks its comments, which are half of the work."""
    with mock.patch.object(views, "_write_comments"):
        relation: duckdb.DuckDBPyRelation = database.query(store, query)
    return relation.fetchall()
