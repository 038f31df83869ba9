"""The lists of an IVF index follow the corpus, whatever the size of a shard; the sample they are learnt from too."""

from math import sqrt
from pathlib import Path

import faiss
import numpy as np
import pyarrow as pa
import pytest

from tests.support.stages import staged
from vitalfew.configs.schema import IndexConfig
from vitalfew.storage import schemas, version
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.costs import Cost
from vitalfew.storage.manifests import Manifest, ShardRecord
from vitalfew.tasks.index import Index

DIMENSION = 4


def complete(artifact: Artifact, shards: list[pa.Table], config: dict[str, object]) -> None:
    cost = Cost("2026-11-22T00:00:00+00:00")
    records = [
        ShardRecord(number, "test", [artifact.write(number, artifact.table, rows)], len(rows), cost)
        for number, rows in enumerate(shards)
    ]
    count = sum(map(len, shards))
    about = {"stage": "test", "version": "1", "artifact": artifact.name, "inputs": {}, "method": {}}
    rest = {
        "code_version": "",
        "completed": "2026-11-22T00:00:00+00:00",
        "rows_in": count,
        "rows": {artifact.table: count},
    }
    version.mark(artifact.store)
    artifact.complete(Manifest(**about, **rest, config=config, shards=records))


def stage(store: Path, sentences: int, shards: int, **config: object) -> Index:
    """The stage `index` over generated vectors, of passages of one sentence each."""
    identity = f"{sentences:016}"
    units, vectors = Artifact(store, "sentences", identity), Artifact(store, "vectors", identity)
    if vectors.recorded_manifest() is None:
        random = np.random.default_rng(sentences)
        ids = np.array_split(np.arange(sentences, dtype=np.int64), shards)
        text = pa.array([""])
        tables = []
        for own in ids:
            columns = [own, own, np.zeros(len(own), int), np.zeros(len(own), int), np.zeros(len(own), int)]
            texts = text.take(pa.array(np.zeros(len(own), np.int8)))
            tables.append(pa.table([*columns, texts, np.zeros(len(own), int)], schemas.SENTENCES.names))
        complete(units, [table.cast(schemas.SENTENCES) for table in tables], {})
        schema = schemas.vectors(DIMENSION)
        rows = []
        for own in ids:
            flat = pa.array(random.standard_normal(len(own) * DIMENSION, dtype=np.float32))
            vector = pa.FixedSizeListArray.from_arrays(flat, type=schema.field("vector").type)
            kind = pa.DictionaryArray.from_arrays(np.zeros(len(own), np.int8), list(schemas.VECTOR_KINDS))
            rows.append(pa.table([pa.array(own), kind, vector], schema=schema))
        complete(vectors, rows, {"units": ["sentence"], "context": "exact"})
    return staged(Index, store, units, vectors, IndexConfig(**config))


@pytest.mark.parametrize(("sentences", "shards"), [(2_000, 3), (20_000, 7)])
def test_lists_follow_the_corpus(tmp_path: Path, sentences: int, shards: int) -> None:
    lists = set()
    for shard_mb in (1, 64):
        index = stage(tmp_path, sentences, shards, type="ivf_flat", shard_mb=shard_mb)
        index.run_preparation("test", lambda rows, tokens: None)
        lists.add(faiss.read_index(str(index.template("sentence"))).nlist)
    due = int(4 * sqrt(sentences))
    assert lists == {min(due, sentences // 39)}
    sample = index._sample("sentence")
    assert sum(sample.values()) >= 39 * lists.pop()
    assert sum(sample.values()) <= max(65_536, 64 * due)
    assert not [*index.staging.iterdir()]  # the sample is not kept
