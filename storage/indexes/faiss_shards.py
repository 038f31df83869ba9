"""FAISS shards: built apart, memory-mapped, searched one by one, and their top-k merged.

A file is an `IndexIDMap` over its vectors, so that plain FAISS opens it and answers with the int64 ids of the tables.
Here the inner index is searched: it answers with rows, from which texts and vectors are read without a look-up by id.
Files are mapped with IO_FLAG_MMAP_IFC, which for every type leaves the vectors, codes and links on the disk until a
search touches them (IO_FLAG_MMAP copies flat and scalar-quantized ones); ids alone are read into memory.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from vitalfew.storage import files
from vitalfew.storage.indexes import NOTHING, Rows, TopK, Vectors, search_shards
from vitalfew.storage.indexes.types import one_thread

Bits = NDArray[np.uint8]
_FAISS: Any = faiss
"""FAISS without its types, which lack the arguments of search parameters."""


def write(path: Path, index: faiss.Index) -> None:
    files.write_atomically(path, lambda temporary: faiss.write_index(index, str(temporary)))


def read_template(path: Path) -> faiss.Index:
    """Read an index without vectors into memory, to be filled."""
    return faiss.read_index(str(files.local(path)))


def build(path: Path, template: faiss.Index, ids: Rows, batches: Iterable[Vectors]) -> None:
    """Write a shard; `batches` hold float32 (n_i, d), as many rows as ids. `template`, empty and trained, is filled."""
    if isinstance(template, faiss.IndexFlatCodes):
        # Reserves: grown step by step, the vectors would for a moment be in memory twice.
        template.codes.resize(len(ids) * template.code_size)
        template.codes.resize(0)
    index = faiss.IndexIDMap(template)
    with one_thread():
        for vectors in batches:
            known = ids[index.ntotal : index.ntotal + len(vectors)]
            index.add_with_ids(np.ascontiguousarray(vectors, dtype=np.float32), known)
    write(path, index)


@dataclass(frozen=True)
class FaissShard:
    """One file, opened at its first use, and mapped without being held open. `checksum`: compared when it is opened;
    None for a file that this process has just written."""

    path: Path
    checksum: str | None = None

    @cached_property
    def index(self) -> Any:
        """Raises Damaged."""
        path = files.checked(self.path, self.checksum) if self.checksum else files.local(self.path)
        return faiss.read_index(str(files.local(path)), faiss.IO_FLAG_MMAP_IFC)

    @cached_property
    def inner(self) -> Any:
        return faiss.downcast_index(self.index.index)

    @cached_property
    def ids(self) -> Rows:
        """A view of the ids in the index."""
        if not self.inner.ntotal:
            return np.empty(0, np.int64)
        return faiss.rev_swig_ptr(self.index.id_map.data(), self.inner.ntotal)

    def vectors(self, rows: Rows) -> Vectors:
        """The vectors at these rows, float32 (n, width), as exact as the type keeps them; not of an IVF index."""
        return self.inner.reconstruct_batch(rows)

    def search(
        self,
        queries: Vectors,
        effort: int,
        lists: "Lists | None",
        scores: Vectors,
        rows: Rows,
        chosen: Bits | None = None,
    ) -> None:
        """Fill `scores` and `rows`, both (n, k) and contiguous; row −1 where fewer match. `chosen`: a bit per unit, 1
        for those to search; None: all."""
        selector, k = None if chosen is None else _FAISS.IDSelectorBitmap(chosen), rows.shape[1]
        if lists is not None:
            self.inner.nprobe = lists.numbers.shape[1]
            pointers = [faiss.swig_ptr(array) for array in (queries, lists.numbers, lists.scores, scores, rows)]
            some = _FAISS.SearchParametersIVF(sel=selector, nprobe=self.inner.nprobe) if selector else None
            # The wrapper of the same name checks and converts on every call; shards are many and searches short.
            self.inner.search_preassigned_c(len(queries), pointers[0], k, *pointers[1:], False, some)
            return
        if effort:
            self.inner.hnsw.efSearch = max(effort, k)
        params = None
        if selector and effort:
            params = _FAISS.SearchParametersHNSW(sel=selector, efSearch=max(effort, k))
        elif selector:
            params = _FAISS.SearchParameters(sel=selector)
        self.inner.search(queries, k, params=params, D=scores, I=rows)


@dataclass(frozen=True)
class Lists:
    """The lists of an IVF index to look into for every query, nearest first: `numbers` int64, `scores` float32."""

    numbers: Rows
    scores: Vectors

    def first(self, count: int) -> "Lists":
        return Lists(np.ascontiguousarray(self.numbers[:, :count]), np.ascontiguousarray(self.scores[:, :count]))


def search(
    shards: Sequence[FaissShard],
    queries: Vectors,
    k: int,
    effort: int = 0,
    lists: Lists | None = None,
    chosen: Callable[[int], Bits] | None = None,
) -> TopK:
    """The k units of greatest inner product with every query, over all shards of one index.

    `queries` float32 (n, d). `effort`: nprobe of an IVF index, efSearch of an HNSW graph, else 0. Shards of an IVF
    index share their coarse quantizer, so that the lists to look into are computed once for all of them, unless the
    caller knows them (`lists`). `chosen`: by a shard's number, a bit per unit, 1 for those to search.
    """
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    lists = lists or nearest_lists(shards, queries, effort)

    def of_shard(number: int, scores: Vectors, rows: Rows) -> None:
        shards[number].search(queries, effort, lists, scores, rows, chosen(number) if chosen else None)

    top = search_shards(len(shards), len(queries), k, of_shard)
    ids = np.full_like(top.rows, NOTHING)
    for number in set(top.shards.ravel().tolist()) - {NOTHING}:
        here = top.shards == number
        ids[here] = shards[number].ids[top.rows[here]]
    return TopK(ids, top.scores, top.shards, top.rows)


def nearest_lists(shards: Sequence[FaissShard], queries: Vectors, effort: int) -> Lists | None:
    """The `effort` nearest lists to every query, float32 (n, d), in an IVF index; None for another index."""
    if not isinstance(shards[0].inner, faiss.IndexIVF):
        return None
    index = shards[0].inner
    scores, numbers = index.quantizer.search(queries, max(1, min(effort or index.nprobe, index.nlist)))
    return Lists(numbers, scores)
