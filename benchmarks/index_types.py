"""`make bench-faiss`: every index type against flat, on vectors that lie in clusters as a language model's do.

    python -m benchmarks.index_types [--vectors 1000000] [--types flat,ivf_sq8] [--shards 6]

The vectors: unit vectors around 16,384 centres, which lie around 512 topics in turn, with a spread as large as the
distance to the centre that falls off along its axes as a power law. That is as hard for an IVF index as real text is:
36,000 of them in 757 lists reach recall@10 0.48 with one list and 0.95 with 64; MiniLM's vectors of 35,888 sentences
of SQuAD, HotpotQA and 2WikiMultihopQA 0.46 with one and 0.95 with 48. Queries are drawn as the vectors are and are none
of them. Vectors are drawn batch by batch: no more than one shard is in memory, and the sample an index is trained on.
One thread; recall@10 and queries per second are those of `storage.faiss_shards.search` on memory-mapped files, for
batches of one query and of a hundred, over several shards; "1 index" is the same index in one file.
"""

import argparse
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import faiss
import numpy as np

from configs.schema import IndexConfig
from storage import faiss_shards
from storage.faiss_shards import Shard
from storage.faiss_types import Recipe, efforts
from storage.found import Found, merged

DIMENSION = 384
TOPICS, CENTRES = 512, 16_384
SPREAD = 1.2
BATCH = 16_384
QUERIES = 500
K = 10
SECONDS = 3.0
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
            found = Found(rows + self.starts[number], scores, rows, rows)
            best = found if best is None else merged([best, found], K)
        return best.ids

    def ids(self, numbers: range) -> np.ndarray:
        return np.arange(self.starts[numbers.start], self.starts[numbers.stop])


def built(corpus: Corpus, recipe: Recipe, name: str, shards: int, template: Path) -> tuple[list[Shard], float]:
    """The corpus in that many shards, and the seconds it took without drawing the vectors."""
    ends = np.linspace(0, len(corpus.sizes), shards + 1).astype(int)
    files = []
    began, drawing = time.perf_counter(), [0.0]

    def timed(numbers: range) -> Iterator[np.ndarray]:
        for number in numbers:
            start = time.perf_counter()
            vectors = corpus.clusters.draw(number, corpus.sizes[number])
            drawing[0] += time.perf_counter() - start
            yield vectors

    for number, (start, end) in enumerate(zip(ends, ends[1:], strict=False)):
        path = BUILD / f"{name}.{shards}.{number}.faiss"
        numbers = range(start, end)
        faiss_shards.build(path, faiss.read_index(str(template)), corpus.ids(numbers), timed(numbers))
        files.append(Shard(path))
    return files, time.perf_counter() - began - drawing[0]


def queries_per_second(shards: list[Shard], queries: np.ndarray, batch: int, effort: int) -> float:
    """Over at least SECONDS, after a first round that maps the files in; queries in turn, so that caches are honest."""
    parts = [queries[start : start + batch] for start in range(0, len(queries) - batch + 1, batch)]
    faiss_shards.search(shards, parts[0], K, effort)
    done, began = 0, time.perf_counter()
    while done < len(parts) or time.perf_counter() - began < SECONDS:
        faiss_shards.search(shards, parts[done % len(parts)], K, effort)
        done += 1
        if time.perf_counter() - began > 10 * SECONDS:
            break
    return done * batch / (time.perf_counter() - began)


def recall(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean([len(set(a) & set(b)) / K for a, b in zip(found.tolist(), truth.tolist(), strict=True)]))


def chosen_effort(shards: list[Shard], queries: np.ndarray, truth: np.ndarray, target: float) -> tuple[int, float]:
    """The least effort that reaches the target on these queries, or the greatest there is, and the recall."""
    for effort in efforts(shards[0].inner, K):
        reached = recall(faiss_shards.search(shards, queries, K, effort).ids, truth)
        if reached >= target:
            break
    return effort, reached


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--vectors", type=int, default=1_000_000)
    options.add_argument("--types", default="flat,sq8,sqfp16,ivf_flat,ivf_sq8,ivf_pq")
    options.add_argument("--shards", type=int, default=6)
    options.add_argument("--recall", type=float, default=0.95)
    given = options.parse_args()
    faiss.omp_set_num_threads(1)
    shutil.rmtree(BUILD, ignore_errors=True)
    corpus = Corpus(given.vectors)
    truth = corpus.truth()
    half = QUERIES // 2  # the setting is chosen on one half, all that is told is of the other
    print(f"{given.vectors:,} vectors of {DIMENSION} numbers, {given.shards} shards, one thread, recall@{K}")
    print(
        "| type | effort | recall@10 | bytes/vector | train s | build s | q/s, 1 | q/s, 100 | of flat, 1 | of flat, 100 |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    flat: dict[int, float] = {}
    for name in given.types.split(","):
        shape = IndexConfig(type=name)
        size = min(given.vectors, (shape.shard_mb << 20) // (4 * DIMENSION))
        recipe = Recipe(shape, DIMENSION, given.vectors, size)
        began = time.perf_counter()
        sample = np.concatenate(list(corpus.batches(range(-(-size // BATCH)))))[:size] if name != "flat" else None
        drawn = time.perf_counter()
        template = BUILD / f"{name}.template"
        faiss_shards.write(template, recipe.template(sample))
        training = time.perf_counter() - drawn
        shards, building = built(corpus, recipe, name, given.shards, template)
        effort, _ = chosen_effort(shards, corpus.queries[:half], truth[:half], given.recall)
        reached = recall(faiss_shards.search(shards, corpus.queries[half:], K, effort).ids, truth[half:])
        rates = {batch: queries_per_second(shards, corpus.queries[half:], batch, effort) for batch in (1, 100)}
        flat = flat or rates
        size = sum(shard.path.stat().st_size for shard in shards) / given.vectors
        ratios = " | ".join(f"{rates[batch] / flat[batch]:.1f}" for batch in rates)
        speeds = " | ".join(f"{rate:,.1f}" for rate in rates.values())
        print(
            f"| {name} ({recipe.factory()}) | {effort or '–'} | {reached:.3f} | {size:,.0f} | {training:.0f} "
            f"| {building:.0f} | {speeds} | {ratios} |",
            flush=True,
        )
        if name in ("flat", "ivf_sq8"):
            together, _ = built(corpus, recipe, name, 1, template)
            whole = {batch: queries_per_second(together, corpus.queries[half:], batch, effort) for batch in (1, 100)}
            cost = ", ".join(f"{whole[batch] / rates[batch]:.2f} (batch of {batch})" for batch in whole)
            print(f"<!-- {name}: {given.shards} shards together cost {cost} of one index -->", flush=True)
            together[0].path.unlink()
        for shard in shards:
            shard.path.unlink()


if __name__ == "__main__":
    main()
