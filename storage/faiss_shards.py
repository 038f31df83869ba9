"""FAISS shards: built apart, memory-mapped, searched one by one, and their top-k merged.

A file is an `IndexIDMap` over its vectors, so that plain FAISS opens it and answers with the int64 ids of the tables.
Here the inner index is searched: it answers with rows, from which texts and vectors are found without a look-up by id.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from storage.parquet import write_atomically

Vectors = NDArray[np.float32]


def build_flat(path: Path, ids: NDArray[np.int64], batches: Iterable[Vectors], dimension: int) -> None:
    """Write a shard of exact inner-product search; `batches` hold float32 (n_i, dimension), as many rows as ids."""
    flat = faiss.IndexFlatIP(dimension)
    # Reserves: grown step by step, the vectors would for a moment be in memory twice.
    flat.codes.resize(len(ids) * flat.code_size)
    flat.codes.resize(0)
    index = faiss.IndexIDMap(flat)
    for vectors in batches:
        known = ids[index.ntotal : index.ntotal + len(vectors)]
        index.add_with_ids(np.ascontiguousarray(vectors, dtype=np.float32), known)
    if index.ntotal != len(ids):
        raise ValueError(f"{path.name}: {index.ntotal} vectors for {len(ids)} ids")
    write_atomically(path, lambda temporary: faiss.write_index(index, str(temporary)))


@dataclass(frozen=True)
class Shard:
    """One file, opened at its first use."""

    path: Path

    @cached_property
    def index(self) -> Any:
        return faiss.read_index(str(self.path), faiss.IO_FLAG_MMAP_IFC)

    @cached_property
    def inner(self) -> faiss.Index:
        return faiss.downcast_index(self.index.index)

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        return faiss.vector_to_array(self.index.id_map)

    def vectors(self, rows: NDArray[np.int64]) -> Vectors:
        """float32 (len(rows), d), as the index keeps them."""
        return self.inner.reconstruct_batch(rows) if len(rows) else np.empty((0, self.inner.d), np.float32)


@dataclass(frozen=True)
class Found:
    """The best units of each question, best first, each array (questions, k): `ids` int64 (−1: none), `scores`
    float32, and where a unit lies: `shards`, `rows`."""

    ids: NDArray[np.int64]
    scores: Vectors
    shards: NDArray[np.int64]
    rows: NDArray[np.int64]


def search(shards: Sequence[Shard], queries: Vectors, k: int) -> Found:
    """The k units of greatest inner product with each query, over all shards. `queries` float32 (n, d)."""
    questions = len(queries)
    best = Found(*(np.empty((questions, 0), kind) for kind in (np.int64, np.float32, np.int64, np.int64)))
    for number, shard in enumerate(shards):
        scores, rows = shard.inner.search(queries, min(k, max(1, shard.inner.ntotal)))
        ids = np.where(rows >= 0, shard.ids[rows], -1) if shard.inner.ntotal else np.full_like(rows, -1)
        best = _merge(best, Found(ids, scores, np.full_like(rows, number), rows), k)
    return best


def _merge(one: Found, other: Found, k: int) -> Found:
    columns = [
        np.concatenate([getattr(one, name), getattr(other, name)], axis=1)
        for name in ("ids", "scores", "shards", "rows")
    ]
    # Stable, so that equal scores keep the order of their shards whatever k is.
    order = np.argsort(-columns[1], axis=1, kind="stable")[:, :k]
    return Found(*(np.take_along_axis(column, order, axis=1) for column in columns))
