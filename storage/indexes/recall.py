"""Recall of an approximate index against exact search, measured while its shards are built.

*Probes* are some of the corpus's units, standing for questions: a sentence's core vector makes the query that a
question would make, and the sentence itself does not count among its neighbours. While a shard's vectors stream
into its index, the exact nearest neighbours of every probe in the shard are kept, and then those that the shard's index
gives; both are merged over all shards. So the whole corpus is searched, exactly and approximately, without being read
again.

A question lies further from a corpus than its units do. On MiniLM's vectors of SQuAD, HotpotQA and
2WikiMultihopQA (35,888 sentences, 9,179 passages), recall@10 of ivf types is 0.01 to 0.02 greater for 627 real
questions than for probes at the nprobe that is chosen; hnsw's is 0.01 to 0.02 less, and 0.05 with an efSearch of 12,
which is why none below 32 is chosen.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vitalfew.storage import files, schemas
from vitalfew.storage.indexes import NOTHING, TopK, Vectors, faiss_shards, merged
from vitalfew.storage.indexes.faiss_shards import FaissShard
from vitalfew.storage.indexes.types import efforts, one_thread

PROBES = 200
K = 10
DEPTH = K + 1  # a probe finds itself
EXACT = -1
WITHIN = 0.01
"""Where the target is out of reach, a recall this close to the best one is chosen."""


@dataclass(frozen=True)
class Probes:
    """Queries float32 (n, d) and the ids of the units they were made from, int64 (n,)."""

    ids: np.ndarray
    queries: Vectors

    def save(self, path: Path) -> None:
        files.write_arrays(path, {"ids": self.ids, "queries": self.queries})

    @classmethod
    def load(cls, path: Path) -> "Probes":
        arrays = files.read_arrays(path)
        return cls(arrays["ids"], arrays["queries"])


class Exact:
    """The exact neighbours of the probes among the vectors that stream by; `ids` are those of the vectors."""

    def __init__(self, probes: Probes, ids: np.ndarray) -> None:
        self.probes, self.ids = probes, ids
        self.top = _nothing(len(probes.ids))

    def watch(self, batches: Iterable[Vectors]) -> Iterator[Vectors]:
        start = 0
        for vectors in batches:
            if len(vectors):
                self._add(vectors, start)
            start += len(vectors)
            yield vectors

    def _add(self, vectors: Vectors, start: int) -> None:
        depth = min(DEPTH, len(vectors))
        with one_thread():
            scores, rows = faiss.knn(self.probes.queries, vectors, depth, metric=faiss.METRIC_INNER_PRODUCT)
        rows += start
        self.top = merged([self.top, TopK(self.ids[rows], scores, rows, rows)], DEPTH)


def neighbours(unit: str, exact: Exact, shard: FaissShard) -> pa.Table:
    """The rows of `neighbours` for one shard: the exact answers, then those of the index with every effort."""
    tables = [_rows(unit, EXACT, exact.top)]
    with one_thread():
        lists = faiss_shards.nearest_lists([shard], exact.probes.queries, max(efforts(shard.inner, K)))
        for effort in efforts(shard.inner, K):
            nearest = lists and lists.first(effort)  # found once: the lists may be as many as a shard's vectors
            top = faiss_shards.search([shard], exact.probes.queries, DEPTH, effort, nearest)
            tables.append(_rows(unit, effort, top))
    return pa.concat_tables(tables)


def _nothing(probes: int) -> TopK:
    none = np.full((probes, DEPTH), NOTHING, np.int64)
    return TopK(none, np.full((probes, DEPTH), -np.inf, np.float32), none, none)


def _rows(unit: str, effort: int, top: TopK) -> pa.Table:
    """Every probe has DEPTH rows, the last ones empty where there are fewer."""
    padded = merged([top, _nothing(len(top.ids))], DEPTH)
    probes = np.repeat(np.arange(len(padded.ids), dtype=np.int32), DEPTH)
    count = len(probes)
    columns: list[Any] = [
        pa.array([unit]).take(pa.array(np.zeros(count, np.int8))),
        np.full(count, effort, np.int32),
        probes,
        padded.ids.reshape(-1),
        padded.scores.reshape(-1),
    ]
    return pa.table(columns, schema=schemas.NEIGHBOURS)


@dataclass(frozen=True)
class Recall:
    """Mean over the probes, and its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, approximate: list[set[int]], exact: list[set[int]]) -> "Recall":
        shares = [len(a & b) / len(b) for a, b in zip(approximate, exact, strict=True) if b] or [1.0]
        return cls(float(np.mean(shares)), float(np.std(shares) / np.sqrt(len(shares))))


class Answers:
    """The neighbours of one unit's probes, merged shard by shard."""

    def __init__(self, unit: str, probes: Probes) -> None:
        self.unit, self.probes = unit, probes
        self.top: dict[int, TopK] = {}

    def add(self, rows: pa.Table) -> None:
        own = rows.filter(pc.equal(rows["unit"], self.unit))
        for effort in pc.unique(own["effort"]).to_pylist():
            part = own.filter(pc.equal(own["effort"], effort))
            ids, scores = (part[name].to_numpy().reshape(-1, DEPTH) for name in ("id", "score"))
            top = TopK(ids, scores, ids, ids)  # −1 where there is none, as rows have it
            self.top[effort] = merged([self.top[effort], top], DEPTH) if effort in self.top else top

    def recalls(self) -> dict[int, Recall]:
        """By effort: how much of the exact top ten, the probe itself apart, the index finds."""

        def found(top: TopK) -> list[set[int]]:
            answers = zip(top.ids.tolist(), self.probes.ids.tolist(), strict=True)
            return [{*[unit for unit in ids if unit not in (NOTHING, own)][:K]} for ids, own in answers]

        exact = found(self.top[EXACT])
        return {effort: Recall.of(found(top), exact) for effort, top in sorted(self.top.items()) if effort != EXACT}


def chosen(recalls: dict[int, Recall], target: float) -> int:
    """The least effort that reaches the target even two standard errors lower: a lucky sample must not decide. If no
    effort does, the least one that comes close to the best."""
    sure = {effort: recall.mean - 2 * recall.error for effort, recall in sorted(recalls.items())}
    due = min(target, max(sure.values()) - WITHIN)
    return next(effort for effort, recall in sure.items() if recall >= due)
