"""The index types that `index.type` names: what FAISS calls them, what can be set of them, what a vector takes.

An index that needs training is trained once, on a sample, and every shard is built from that one empty *template*:
shards then share coarse quantizer and codec, so that they can be built apart and searched as one index.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import faiss
import numpy as np
from pydantic import Field

from vitalfew.configs.schema import IndexConfig
from vitalfew.storage.indexes import Vectors

POINTS_PER_LIST = 64
"""Training vectors for a list of an IVF index, of a corpus that has as many. FAISS warns below 39, and takes no more
than 256 (its `ClusteringParameters`)."""
FEWEST_PER_LIST = 39
"""Vectors for a list of a small corpus, which gets fewer lists therefore."""
FEWEST_POINTS = 65_536
"""Training vectors of an index with lists, if the corpus has them: its codes are learnt from them too."""
LISTS_AT_MOST = 16_384
"""Lists, where their number is not set. Every vector is compared with the centre of every list: lists that grow with
the root of the corpus make an index grow with its power of 1.5, to 420 core-hours at 10⁸ passages."""
PQ_BITS = 8


class SearchedOptions(IndexConfig, extra="forbid"):
    """The options of types whose search looks at a part of the vectors."""

    recall: float = Field(
        0.95,
        gt=0,
        le=1,
        description="Target for Recall@10 against flat on a sample; nprobe or ef_search is chosen to reach it.",
    )


class Flat:
    """Exact search: the question's inner product with every vector; 4 bytes per number."""

    class Options(IndexConfig, extra="forbid"):
        pass

    code: ClassVar[str] = "Flat"
    bytes_per_number: ClassVar[float] = 4
    version: ClassVar[str] = "1"

    def __init__(self, options: Any) -> None:
        self.options = options

    @property
    def recall(self) -> float:
        """The recall that a search must reach; 0 for a type that compares all vectors, where nothing is chosen."""
        return float(self.options.recall) if isinstance(self.options, SearchedOptions) else 0.0

    def factory(self, size: "FaissRecipe") -> str:
        """The index in the language of FAISS's `index_factory`."""
        return self.code

    def bytes_per_vector(self, size: "FaissRecipe") -> float:
        """The approximate size of a vector in a shard, without its id."""
        return self.bytes_per_number * size.dimension

    def points(self, size: "FaissRecipe") -> int | None:
        """The number of vectors to train on; None where any few will do."""
        return None

    def bytes_per_shard(self, size: "FaissRecipe") -> int:
        """The approximate size of a shard without vectors."""
        return 0

    def set(self, index: faiss.Index) -> None:
        """Apply the settings that `index_factory` cannot express."""


class SQ8(Flat):
    """Search over every vector, one byte per number (scalar quantizer)."""

    code = "SQ8"
    bytes_per_number = 1


class SQFP16(Flat):
    """Search over every vector, two bytes per number (16-bit floats)."""

    code = "SQfp16"
    bytes_per_number = 2


class HNSW(Flat):
    """Graph of neighbouring vectors (Malkov & Yashunin, arXiv 1603.09320): fast, large, slow to build."""

    class Options(SearchedOptions):
        hnsw_m: int = Field(32, ge=2, le=256, description="Number of links per vector.")
        ef_construction: int = Field(80, ge=1, description="Number of candidates considered when linking a vector.")

    def factory(self, size: "FaissRecipe") -> str:
        return f"HNSW{self.options.hnsw_m},Flat"

    def bytes_per_vector(self, size: "FaissRecipe") -> float:
        return 4 * size.dimension + 8 * self.options.hnsw_m

    def set(self, index: faiss.Index) -> None:
        index.hnsw.efConstruction = self.options.ef_construction  # type: ignore[attr-defined]


class IVFFlat(Flat):
    """Lists of similar vectors; a search reads a few of the lists; 4 bytes per number."""

    class Options(SearchedOptions):
        nlist: int | None = Field(
            None, ge=1, description="Number of lists; default: 4 * sqrt(vectors), at most 16,384."
        )

    version = "2"

    def factory(self, size: "FaissRecipe") -> str:
        return f"IVF{self.nlist(size)},{self.code}"

    def points(self, size: "FaissRecipe") -> int:
        return max(FEWEST_POINTS, POINTS_PER_LIST * self._lists_due(size))

    def bytes_per_shard(self, size: "FaissRecipe") -> int:
        """The centres of the lists, which every shard repeats."""
        return 4 * size.dimension * self.nlist(size)

    def nlist(self, size: "FaissRecipe") -> int:
        """Lists: 4 √rows (FAISS's guidance) up to LISTS_AT_MOST, as far as the sample allows."""
        return max(1, min(self._lists_due(size), size.sample // FEWEST_PER_LIST))

    def _lists_due(self, size: "FaissRecipe") -> int:
        return self.options.nlist or min(int(4 * math.sqrt(size.rows)), LISTS_AT_MOST)

    def set(self, index: faiss.Index) -> None:
        index.cp.min_points_per_centroid = 1  # type: ignore[attr-defined]  # `nlist` sees to it: no warning


class IVFSQ8(IVFFlat):
    """Lists of similar vectors; a search reads a few of the lists; one byte per number."""

    code = "SQ8"
    bytes_per_number = 1


class IVFPQ(IVFFlat):
    """Lists of similar vectors; a search reads a few of the lists; product quantizer with one byte for four numbers."""

    class Options(IVFFlat.Options):
        pq_m: int | None = Field(None, ge=1, description="Bytes per code; default: a quarter of the dimension.")

    def factory(self, size: "FaissRecipe") -> str:
        return f"IVF{self.nlist(size)},PQ{self.pq_m(size)}x{self.pq_bits(size)}"

    def bytes_per_vector(self, size: "FaissRecipe") -> float:
        return self.pq_m(size)

    def pq_m(self, size: "FaissRecipe") -> int:
        """Sub-quantizers, a divisor of the dimension: by default one for four numbers."""
        wanted = min(self.options.pq_m or size.dimension // 4, size.dimension)
        return next(m for m in range(max(1, wanted), 0, -1) if size.dimension % m == 0)

    def pq_bits(self, size: "FaissRecipe") -> int:
        """Bits of a sub-quantizer's code: fewer than eight only where there are too few vectors to train more."""
        return max(1, min(PQ_BITS, int(math.log2(max(2, size.sample)))))

    def set(self, index: faiss.Index) -> None:
        super().set(index)
        index.pq.cp.min_points_per_centroid = 1  # type: ignore[attr-defined]
        # Minutes of annealing, for a filter that no search here uses.
        index.do_polysemous_training = False  # type: ignore[attr-defined]


EFFORTS = sorted(size for step in range(14) for size in (1 << step, 3 << step))
"""1, 2, 3, 4, 6, 8, 12 …: every one a third to a half more work than the one before."""
MOST_LISTS = 8
"""A search looks into one list in eight, at most; beyond that a flat index does as well."""
FEW_LISTS = 64
LEAST_EF_SEARCH = 32
"""Below this, a graph finds a corpus's units much better than it finds questions, which lie further off."""


# FAISS 1.15 takes BLAS from 128,000 numbers in a batch of queries on, a threshold measured on machines of 80 cores: on
# one core, batches of 20 to 300 questions then take 7 times as long (FAISS pull request 5109, whose value this is).
faiss.cvar.distance_compute_blas_threshold = 800 * faiss.omp_get_max_threads()


@dataclass(frozen=True)
class FaissRecipe:
    """An index of `rows` vectors of `dimension` numbers, trained on `sample` of them; inner product throughout."""

    type: Flat
    dimension: int
    rows: int
    sample: int

    def bytes_per_vector(self) -> float:
        return self.type.bytes_per_vector(self)

    def bytes_per_shard(self) -> int:
        return self.type.bytes_per_shard(self)

    def template(self, sample: Vectors | None = None) -> faiss.Index:
        """An empty index, trained where it needs to be, on float32 (n, dimension). The same sample, the same bytes."""
        index = faiss.index_factory(self.dimension, self.type.factory(self), faiss.METRIC_INNER_PRODUCT)
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
