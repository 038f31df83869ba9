"""The types of a FAISS index: what they consist of, how they are trained, and how much work a search puts in.

An index that needs training is trained once, on a sample, and every shard is built from that one empty *template*:
shards then share coarse quantizer and codec, so that they can be built apart and searched as one index.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import faiss
import numpy as np
from numpy.typing import NDArray

from vitalfew.storage.indexes.types import Flat

Vectors = NDArray[np.float32]

EFFORTS = sorted(size for step in range(14) for size in (1 << step, 3 << step))
"""1, 2, 3, 4, 6, 8, 12 …: every one a third to a half more work than the one before."""
MOST_LISTS = 8
"""A search looks into one list in eight, at most; beyond that a flat index does as well."""
FEW_LISTS = 64
LEAST_EF_SEARCH = 32
"""Below this, a graph finds a corpus's own units much better than it finds questions, which lie further off."""


# FAISS 1.15 takes BLAS from 128,000 numbers in a batch of queries on, a threshold measured on machines of 80 cores: on
# one core, batches of 20 to 300 questions then take 7 times as long (FAISS pull request 5109, whose value this is).
faiss.cvar.distance_compute_blas_threshold = 800 * faiss.omp_get_max_threads()


@dataclass(frozen=True)
class Recipe:
    """An index of `rows` vectors of `dimension` numbers, trained on `sample` of them; inner product throughout."""

    type: Flat
    dimension: int
    rows: int
    sample: int

    def factory(self) -> str:
        """The index as FAISS's `index_factory` spells it."""
        return self.type.factory(self)

    def bytes_per_vector(self) -> float:
        """About what a vector takes in a shard, ids apart."""
        return self.type.bytes_per_vector(self)

    def bytes_per_shard(self) -> int:
        """About what every shard has besides its vectors."""
        return self.type.bytes_per_shard(self)

    def template(self, sample: Vectors | None = None) -> faiss.Index:
        """An empty index, trained where it needs to be, on float32 (n, dimension). The same sample, the same bytes."""
        index = faiss.index_factory(self.dimension, self.factory(), faiss.METRIC_INNER_PRODUCT)
        self.type.set(index)
        if not index.is_trained and sample is not None:
            points = np.ascontiguousarray(sample if len(sample) > 1 else np.repeat(sample, 2, axis=0), np.float32)
            with one_thread():
                index.train(points)  # a code of one bit takes two points
        return index


def efforts(index: faiss.Index, k: int) -> list[int]:
    """The settings worth trying: `nprobe` of an IVF index, `efSearch` of an HNSW graph, [0] where there is neither."""
    if isinstance(index, faiss.IndexIVF):
        most = min(index.nlist, max(FEW_LISTS, index.nlist // MOST_LISTS))
        return [*(effort for effort in EFFORTS if effort < most), most]
    if isinstance(index, faiss.IndexHNSW):
        return [effort for effort in EFFORTS if max(k, LEAST_EF_SEARCH) <= effort <= 512]
    return [0]


@contextmanager
def one_thread() -> Iterator[None]:
    """FAISS on one thread inside the block: sums in one order, so that the same input gives the same bytes."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
