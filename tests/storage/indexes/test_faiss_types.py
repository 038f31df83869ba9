"""Index types: what each finds, that shards are one index, that bytes repeat, and that what is reported is true."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.evaluating import copied
from tests.support.indexing import index, sql
from tests.support.shared import indexed
from vitalfew.configs.schema import IndexConfig, IndexType
from vitalfew.storage.files import checksum
from vitalfew.storage.indexes import faiss_shards
from vitalfew.storage.indexes.faiss_shards import FaissShard, search
from vitalfew.storage.indexes.types import FaissRecipe, efforts
from vitalfew.tasks.registry import make
from vitalfew.tasks.retrieve import Searcher

TYPES = get_args(IndexType)
LISTS = [kind for kind in TYPES if kind.startswith("ivf")]
DIMENSION = 32


def clustered(count: int, seed: int = 0) -> np.ndarray:
    """float32 (count, 32) of length 1, around a hundred centres."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(7).standard_normal((100, DIMENSION))
    vectors = centres[random.integers(100, size=count)] + 0.7 * random.standard_normal((count, DIMENSION))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def built(folder: Path, kind: str, vectors: np.ndarray, ids: np.ndarray, shards: int) -> list[FaissShard]:
    recipe = FaissRecipe(make(IndexConfig(type=kind), "index"), DIMENSION, len(vectors), len(vectors))
    faiss_shards.write(folder / "template", recipe.template(vectors))
    opened = []
    for number, rows in enumerate(np.array_split(np.arange(len(vectors)), shards)):
        path = folder / f"{shards}.{number}.faiss"
        empty = faiss_shards.read_template(folder / "template")
        faiss_shards.build(path, empty, ids[rows], iter([vectors[rows]]))
        opened.append(FaissShard(path))
    return opened


# On 3,000 vectors of 32 numbers; ivf types with every fourth list, hnsw with efSearch 64.
FLOORS = {"flat": 1, "sq8": 0.97, "sqfp16": 0.99, "hnsw": 0.97, "ivf_flat": 0.95, "ivf_sq8": 0.94, "ivf_pq": 0.6}


@pytest.mark.parametrize("kind", TYPES)
def test_a_search_among_some_vectors_finds_these_alone(tmp_path: Path, kind: str) -> None:
    """As good as a search of an index of nothing else; every third vector is among them."""
    vectors, queries, ids = clustered(3000), clustered(50, seed=1), np.arange(3000, dtype=np.int64)
    shards = built(tmp_path, kind, vectors, ids, 3)
    masks = np.split(ids % 3 == 0, 3)
    effort = shards[0].inner.nlist // 4 if kind in LISTS else 64 if kind == "hnsw" else 0
    top = search(shards, queries, 10, effort, chosen=lambda number: np.packbits(masks[number], bitorder="little"))
    assert (top.ids % 3 == 0).all()
    truth = 3 * np.argsort(-queries @ vectors[::3].T, axis=1)[:, :10]
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(top.ids.tolist(), truth.tolist(), strict=True)])
    assert recall >= FLOORS[kind]
    none = search(shards, queries, 10, effort, chosen=lambda number: np.zeros(125, np.uint8))
    assert (none.ids == -1).all()


@pytest.mark.parametrize("kind", TYPES)
def test_the_same_vectors_give_the_same_bytes(tmp_path: Path, kind: str) -> None:
    vectors, ids = clustered(1500), np.arange(1500, dtype=np.int64)
    sums = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        sums.append([checksum(shard.path) for shard in built(tmp_path / name, kind, vectors, ids, 2)])
    assert sums[0] == sums[1]


@settings(max_examples=10)
@given(st.sampled_from(TYPES), st.integers(1, 40), st.integers(1, 12), st.integers(1, 4))
def test_few_vectors(tmp_path_factory, kind: str, count: int, k: int, shards: int) -> None:
    """Fewer vectors than lists, centroids or hits asked for, and shards that are empty."""
    vectors = clustered(count)
    opened = built(tmp_path_factory.mktemp("few"), kind, vectors, np.arange(count, dtype=np.int64), shards)
    top = search(opened, vectors[:1], k, efforts(opened[0].inner, k)[-1])
    kept = top.ids[0][top.ids[0] >= 0]
    assert len(kept) == len(set(kept.tolist())) == min(k, count)
    assert (top.rows[0][len(kept) :] == -1).all()


def test_the_recall_that_is_told_is_true(tmp_path: Path) -> None:
    """Against the definition: probes' exact neighbours from the vectors, the index's from its files."""
    settings = {"type": "ivf_sq8", "shard_mb": 1}
    corpus, given = "synthetic:passages=500,questions=5,seed=3", {"load": {"shard_passages": 250}}
    store = copied(indexed(corpus, **given), tmp_path / "store")
    made = {*(store / "faiss").iterdir()}
    index(store, corpus, index=settings, **given)
    (folder,) = {*(store / "faiss").iterdir()} - made
    index(store, corpus, name="flat", **given)
    with np.load(folder / "sentence.probes.npz") as probes:
        asked, queries = probes["ids"], probes["queries"]
    exact, shards = (Searcher.named(store, name).index.faiss["sentence"] for name in ("flat", "test"))
    truth = search(exact, queries, 11).ids.tolist()
    of_it = f"unit = 'sentence' AND probes > 0 AND fingerprint = '{folder.name}'"
    told = sql(store, f"SELECT effort, recall_at_10 FROM index_quality WHERE {of_it}")
    assert len(told) > 5
    for effort, recall in told:
        answers = search(shards, queries, 11, effort).ids.tolist()
        shares = [
            len({*[x for x in a if x != own][:10]} & {*[x for x in b if x != own][:10]}) / 10
            for a, b, own in zip(answers, truth, asked.tolist(), strict=True)
        ]
        assert recall == pytest.approx(np.mean(shares), abs=0.01)
