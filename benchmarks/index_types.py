"""`make bench-faiss`: every index type against flat, on vectors that lie in clusters as a language model's do.

    python -m benchmarks.index_types [--vectors 1000000] [--types flat,ivf_sq8] [--shards 6]

The vectors: unit vectors around 16,384 centres, which lie around 512 topics in turn, with a spread as large as the
distance to the centre that falls off along its axes as a power law. That is as hard for an IVF index as real text is:
36,000 of them in 757 lists reach recall@10 0.48 with one list and 0.95 with 64; MiniLM's vectors of 35,888 sentences
of SQuAD, HotpotQA and 2WikiMultihopQA 0.46 with one and 0.95 with 48. Queries are drawn as the vectors are and are none
of them. Vectors are drawn batch by batch: no more than one shard is in memory, and the sample an index is trained on.
One thread; recall@10 and queries per second are those of `faiss_shards.search` on memory-mapped files, for
batches of one query and of a hundred, over several shards. `nprobe` and `efSearch` are chosen on one half of the
queries as `vitalfew index` chooses them, and all that is told is of the other half. What shards together cost is
measured against the same index in one file, in turns, and the median taken, as other work may share the machine.
"""

import math
import os
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import faiss
import numpy as np

from benchmarks.common import in_turns, machine, options, show
from vitalfew.configs.schema import IndexConfig
from vitalfew.storage.indexes import TopK, faiss_shards, merged
from vitalfew.storage.indexes.faiss_shards import FaissShard
from vitalfew.storage.indexes.recall import Recall, chosen
from vitalfew.storage.indexes.types import FaissRecipe, efforts
from vitalfew.tasks.registry import make

DIMENSION = 384
TOPICS, CENTRES = 512, 16_384
SPREAD = 1.2
BATCH = 16_384
QUERIES = 500
K = 10
ROUNDS, SECONDS = 7, 1.0
BUILD = Path("build/bench-faiss")


class Clusters:
    """A mixture of Gaussians on the sphere; batch `number` is the same whenever it is drawn."""

    def __init__(self, dimension: int, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        topics = _unit(random.standard_normal((TOPICS, dimension)))
        away = _unit(random.standard_normal((CENTRES, dimension)))
        self.centres = _unit(topics[random.integers(TOPICS, size=CENTRES)] + 0.8 * away).astype(np.float32)
        spread = np.arange(1, dimension + 1) ** -0.5
        axes, _ = np.linalg.qr(random.standard_normal((dimension, dimension)))
        self.spread = (SPREAD * (spread / np.linalg.norm(spread))[:, None] * axes).astype(np.float32)
        self.seed = seed

    def draw(self, number: int, size: int) -> np.ndarray:
        """float32 (size, dimension), of length 1."""
        random = np.random.default_rng([self.seed, number])
        noise = random.standard_normal((size, len(self.spread)), dtype=np.float32) @ self.spread
        return _unit(self.centres[random.integers(CENTRES, size=size)] + noise)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class Corpus:
    """`vectors` vectors, by batches, and the exact answers to the queries."""

    def __init__(self, vectors: int) -> None:
        self.clusters = Clusters(DIMENSION)
        self.sizes = [min(BATCH, vectors - start) for start in range(0, vectors, BATCH)]
        self.starts = np.cumsum([0, *self.sizes])
        self.queries = self.clusters.draw(10**6, QUERIES)

    def batches(self, numbers: range) -> Iterator[np.ndarray]:
        for number in numbers:
            yield self.clusters.draw(number, self.sizes[number])

    def truth(self) -> np.ndarray:
        best = None
        for number, vectors in enumerate(self.batches(range(len(self.sizes)))):
            scores, rows = faiss.knn(self.queries, vectors, min(K, len(vectors)), metric=faiss.METRIC_INNER_PRODUCT)
            top = TopK(rows + self.starts[number], scores, rows, rows)
            best = top if best is None else merged([best, top], K)
        return best.ids

    def ids(self, numbers: range) -> np.ndarray:
        return np.arange(self.starts[numbers.start], self.starts[numbers.stop])


def built(
    corpus: Corpus, recipe: FaissRecipe, name: str, shards: int, template: Path
) -> tuple[list[FaissShard], float]:
    """Build the corpus in that many shards; return them, and the seconds without drawing the vectors."""
    ends = np.linspace(0, len(corpus.sizes), shards + 1).astype(int)
    files = []
    began, drawing = time.perf_counter(), [0.0]

    def timed(numbers: range) -> Iterator[np.ndarray]:
        for number in numbers:
            start = time.perf_counter()
            vectors = corpus.clusters.draw(number, corpus.sizes[number])
            drawing[0] += time.perf_counter() - start
            yield vectors

    for number, (start, end) in enumerate(pairwise(ends)):
        path = BUILD / f"{name}.{shards}.{number}.faiss"
        numbers = range(start, end)
        faiss_shards.build(path, faiss.read_index(str(template)), corpus.ids(numbers), timed(numbers))
        files.append(FaissShard(path))
    return files, time.perf_counter() - began - drawing[0]


def rates(variants: list[list[FaissShard]], queries: np.ndarray, batch: int, effort: int) -> list[float]:
    """Return the queries per second of an index's variants: medians of rounds, in which they take turns."""
    parts = [queries[start : start + batch] for start in range(0, len(queries) - batch + 1, batch)]

    def rate(shards: list[FaissShard]) -> float:
        faiss_shards.search(shards, parts[0], K, effort)
        done, began = 0, time.perf_counter()
        while not done or time.perf_counter() - began < SECONDS:
            faiss_shards.search(shards, parts[done % len(parts)], K, effort)
            done += 1
        return done * batch / (time.perf_counter() - began)

    return [statistics.median(each) for each in in_turns(ROUNDS, *(partial(rate, shards) for shards in variants))]


def recall(answers: np.ndarray, truth: np.ndarray) -> Recall:
    return Recall.of([set(row) for row in answers.tolist()], [set(row) for row in truth.tolist()])


class Trial:
    """One type: built in shards and in one file, its effort chosen, its figures taken."""

    def __init__(self, corpus: Corpus, name: str, shards: int | None) -> None:
        self.corpus, self.name = corpus, name
        index_type = make(IndexConfig(type=name), "index")
        total = int(corpus.starts[-1])
        size = min(total, (index_type.options.shard_mb << 20) // (4 * DIMENSION))
        self.recipe = FaissRecipe(index_type, DIMENSION, total, size)
        shards = shards or math.ceil(total * self.recipe.bytes_per_vector() / (index_type.options.shard_mb << 20))
        sample = np.concatenate(list(corpus.batches(range(-(-size // BATCH)))))[:size] if name != "flat" else None
        began = time.perf_counter()
        template = BUILD / f"{name}.template"
        faiss_shards.write(template, self.recipe.template(sample))
        self.training = time.perf_counter() - began
        self.shards, self.building = built(corpus, self.recipe, name, shards, template)
        self.together, _ = built(corpus, self.recipe, name, 1, template)

    def choose(self, truth: np.ndarray) -> tuple[int, float]:
        """Return the effort that half of the queries choose, and the recall of the others."""
        half = QUERIES // 2
        answers = {
            effort: faiss_shards.search(self.shards, self.corpus.queries, K, effort).ids
            for effort in efforts(self.shards[0].inner, K)
        }
        recalls = {effort: recall(ids[:half], truth[:half]) for effort, ids in answers.items()}
        effort = chosen(recalls, self.recipe.type.recall)
        return effort, recall(answers[effort][half:], truth[half:]).mean

    def row(self, truth: np.ndarray, flat: dict[int, float]) -> Sequence[object]:
        """Return a row of the table; the first trial's rates become those of `flat`."""
        effort, reached = self.choose(truth)
        queries = self.corpus.queries[QUERIES // 2 :]
        cells, costs = [], []
        for batch in (1, 100):
            rate, whole = rates([self.shards, self.together], queries, batch, effort)
            cells += [f"{rate:,.1f}", f"{rate / flat.setdefault(batch, rate):.1f}"]
            costs.append(f"{whole / rate:.2f}")
        size = sum(shard.path.stat().st_size for shard in self.shards) / int(self.corpus.starts[-1])
        figures = [f"{reached:.3f}", f"{size:,.0f}", f"{self.training:.0f}", f"{self.building:.0f}", *cells, *costs]
        for shard in [*self.shards, *self.together]:
            shard.path.unlink()
        return f"{self.name} ({self.recipe.factory()})", len(self.shards), effort or "–", *figures


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--types", default="flat,sq8,sqfp16,ivf_flat,ivf_sq8,ivf_pq")
    parser.add_argument("--shards", type=int, help="default: as many as `vitalfew index` makes of each type")
    given = parser.parse_args()
    shutil.rmtree(BUILD, ignore_errors=True)
    corpus = Corpus(given.vectors)
    truth = corpus.truth()
    columns = ["type", "shards", "nprobe / efSearch", f"recall@{K}", "bytes/vector", "train s", "build s"]
    columns += ["q/s, batch 1", "× flat", "q/s, batch 100", "× flat", "shards / 1 index, batch 1", "batch 100"]
    print(f"{given.vectors:,} vectors of {DIMENSION} numbers, one thread; {machine()}\n")
    flat: dict[int, float] = {}
    show(columns, (Trial(corpus, name, given.shards).row(truth, flat) for name in given.types.split(",")))


if __name__ == "__main__":
    main()
