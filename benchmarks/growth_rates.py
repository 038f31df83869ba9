"""How fast one core trains, fills and searches an IVF-PQ index, at the widths that real vectors have.

The stand-in encoder's vectors are too short to tell what an index of real ones takes: MiniLM's have 384 numbers, and a
dual index's 768. So the pieces of its work are measured at these widths, on as few vectors as show the rate, and put
together for any number of rows and lists (benchmarks/growth_fit.py).
"""

import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import faiss
import numpy as np
import psutil

from benchmarks.growth_fit import Rates
from benchmarks.index_types import Clusters
from vitalfew.storage import files
from vitalfew.storage.indexes import faiss_shards
from vitalfew.storage.indexes.recall import PROBES

WIDTHS = {"fused": 384, "dual": 768}
VECTORS, CENTRES, LISTS, QUERIES, K = 65_536, 32_768, 64, 64, 10
INNER = faiss.METRIC_INNER_PRODUCT


def seconds(action: Callable[[], Any], rounds: int = 3) -> float:
    """CPU seconds of the fastest round."""
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        action()
        taken.append(time.process_time() - began)
    return min(taken)


class Filled:
    """An IVF-PQ index whose lists are long (or have one code each), and queries with the lists nearest to them."""

    def __init__(self, width: int, vectors: np.ndarray, queries: np.ndarray, times: int) -> None:
        """`times`: how often the vectors are added; 0 adds one to a list."""
        self.queries = queries
        self.quantizer = faiss.IndexFlatIP(width)
        self.quantizer.add(vectors[:LISTS])
        self.index = faiss.IndexIVFPQ(self.quantizer, width, LISTS, width // 4, 8, INNER)
        self.index.pq.cp.min_points_per_centroid = 1
        self.index.train(vectors[:8192])
        self.lists = self.quantizer.search(vectors, 1)[1][:, 0].copy() if times else np.arange(LISTS)
        for _ in range(times):
            self.add(vectors)
        if not times:
            self.add(vectors[:LISTS])

    def add(self, vectors: np.ndarray) -> None:
        """Into lists that are known already."""
        ids = np.arange(len(vectors))
        pointers = [faiss.swig_ptr(array) for array in (vectors, ids, self.lists)]
        self.index.add_core(len(vectors), *pointers)

    def search(self, count: int) -> tuple[float, float]:
        """Seconds of a query, and codes that it looks at, in so many lists."""
        scores, numbers = self.quantizer.search(self.queries, count)
        sizes = np.array([self.index.invlists.list_size(number) for number in range(LISTS)])
        self.index.nprobe = count

        def one_by_one() -> None:
            for query in range(QUERIES):
                part = slice(query, query + 1)
                self.index.search_preassigned(self.queries[part], K, numbers[part].copy(), scores[part].copy())

        return seconds(one_by_one) / QUERIES, float(sizes[numbers].sum() / QUERIES)


def rates(width: int) -> Rates:
    """All of one width."""
    clusters = Clusters(width)
    vectors = np.concatenate([clusters.draw(number, 16_384) for number in range(VECTORS // 16_384)])
    centres = faiss.IndexFlatIP(width)
    centres.add(np.concatenate([clusters.draw(100 + number, 16_384) for number in range(CENTRES // 16_384)]))
    some, queries = vectors[:4096], clusters.draw(10**6, PROBES)
    filled = Filled(width, vectors, queries[:QUERIES], 8)
    empty = Filled(width, vectors, queries[:QUERIES], 0)
    (long, codes), (none, _), (visits, _) = filled.search(LISTS // 2), empty.search(1), empty.search(LISTS)
    visit = max(0.0, visits - none) / (LISTS - 1)
    own = [query[None] for query in queries[:20]]
    return Rates(
        width,
        product=seconds(lambda: centres.search(some, 1)) / (len(some) * CENTRES * width),
        encode=seconds(lambda: filled.add(vectors), 1) / VECTORS,
        scan=(long - none - LISTS // 2 * visit) / codes,
        probe=seconds(lambda: faiss.knn(queries, vectors, K + 1, metric=INNER)) / VECTORS,
        coarse=seconds(lambda: [centres.search(query, LISTS) for query in own]) / (len(own) * CENTRES * width),
        shard=none,
        visit=visit,
    )


def opened(folder: Path, rows: int = 2_000_000) -> dict[str, float]:
    """Seconds and bytes of memory per vector to open a shard, as a search does: its ids are read. `checksum`: seconds
    per byte to compare it with its checksum, once on a machine."""
    width = 64
    vectors = Clusters(width).draw(0, 16_384)
    template = faiss.index_factory(width, "IVF64,PQ16x8", INNER)
    template.train(vectors)
    batches = (vectors for _ in range(-(-rows // len(vectors))))
    count = -(-rows // len(vectors)) * len(vectors)
    path = folder / "opened.faiss"
    faiss_shards.build(path, template, np.arange(count), batches)
    before, began = psutil.Process().memory_info().rss, time.process_time()
    shard = faiss_shards.Shard(path)
    assert len(shard.ids) == count
    taken, more = time.process_time() - began, psutil.Process().memory_info().rss - before
    checking = seconds(lambda: files.checksum(path)) / path.stat().st_size
    path.unlink()
    return {"seconds": taken / count, "bytes": more / count, "checksum": checking}


def measure(tell: Callable[[str, Any], Any], folder: Path) -> None:
    for layout, width in WIDTHS.items():
        tell(layout, asdict(rates(width)))
    tell("open", opened(folder))
