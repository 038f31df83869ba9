"""retrieve: questions → hits, from a named index."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from configs.schema import EncodeConfig, IndexConfig, Layout, Retrieve, Unit
from storage import bm25_shards, faiss_shards
from storage.artifacts import Artifact, Manifest
from storage.faiss_types import Vectors
from storage.found import NOTHING, Found
from storage.runs import NamedIndex, find_index
from tasks.bm25 import stem
from tasks.encode import make_encoder
from tasks.index import table_of
from tasks.registry import resolve
from tasks.retrievers.base import Questions, Retriever
from tasks.retrievers.words import words
from tasks.units import Units


class IndexMismatch(ValueError):
    """The index cannot answer this request: the message says what it holds and how to build what is missing."""


@dataclass(frozen=True)
class Hit:
    """A retrieved unit. `core` and `context` are its similarities to the question (context None: it has none)."""

    rank: int
    score: float
    core: float
    context: float | None
    unit_id: int
    passage_id: int
    position: int
    title: str
    text: str
    passage: str


class Searcher:
    """An index opened for searching: the encoder is loaded once, shards and texts are read as they are needed."""

    def __init__(self, store: Path, index: str) -> None:
        """Raises IndexNotFound, and IndexMismatch where its artifacts or its encoder are not what they were."""
        self.store = store
        self.index: NamedIndex = find_index(store, index)
        self.artifacts = {role: Artifact(store, *name.split("/")) for role, name in self.index.artifacts.items()}
        self.manifests = {role: self._complete(artifact) for role, artifact in self.artifacts.items()}
        self.encoding = EncodeConfig.model_validate(self.manifests["vectors"].config)
        self.config = IndexConfig.model_validate(self.manifests["faiss"].config)
        self.units = Units(self.artifacts, self.encoding.context)

    def _complete(self, artifact: Artifact) -> Manifest:
        manifest = artifact.recorded_manifest()
        damage = artifact.damage(manifest) if manifest else f"{artifact.name} is missing or not complete"
        if manifest is None or damage:
            raise IndexMismatch(
                f"index {self.index.name!r}: {damage} (store {self.store}); "
                "run the same `vitalfew index` again: it redoes only what is missing or was changed"
            )
        return manifest

    @cached_property
    def encoder(self) -> Any:
        # Questions are encoded here, on whatever the passages were.
        encoder = make_encoder(self.encoding.model_copy(update={"device": "auto"}))
        indexed = self.manifests["vectors"].method
        found = encoder.identity()
        if indexed["files"] != found["files"]:
            raise IndexMismatch(
                f"index {self.index.name!r} was encoded by {indexed['encoder']!r} with other weights than those "
                "installed now; questions encoded by these would find nothing true. Index the corpus again"
            )
        return encoder

    def search(self, questions: Sequence[str], request: Retrieve, vectors: Vectors | None = None) -> Found:
        """The best units of each question, by table shard and row; see `texts` and `hits`. All questions are encoded
        together, where the retriever needs it and `vectors`, float32 (n, d), does not say that they are already."""
        return self._search(Questions(questions, lambda texts: self._encoded(texts, vectors)), request)

    def _encoded(self, texts: Sequence[str], vectors: Vectors | None) -> Vectors:
        return self.encoder.encode_questions(texts).vectors if vectors is None else vectors

    def _search(self, questions: Questions, request: Retrieve) -> Found:
        return self._retriever(request).retrieve(questions, OpenIndex(self, request), request.top_k)

    def _retriever(self, request: Retrieve) -> Retriever:
        retriever: Retriever = resolve("retriever", request.retriever)(request)
        if retriever.unit not in self.encoding.units:
            raise IndexMismatch(
                f"retriever {request.retriever!r} searches {retriever.unit}s, and index {self.index.name!r} holds only "
                f"{', '.join(self.encoding.units)}s; index with --set 'encode.units=[sentence, passage]'"
            )
        return retriever

    def check(self, request: Retrieve) -> None:
        """Raises IndexMismatch, UnknownName, ValueError where this index cannot answer such requests."""
        retriever = self._retriever(request)
        if retriever.dense:
            self.encoder  # noqa: B018  # which looks whether it is the one that the passages were encoded by
        if "unit" in retriever.settings:
            self.bm25  # noqa: B018  # likewise, whether it is there
        weighs = "alpha" in retriever.settings and retriever.unit == "sentence"
        if weighs and self.config.layout == "fused" and abs(request.alpha - self.config.alpha) > 1e-9:
            raise IndexMismatch(
                f"index {self.index.name!r} is fused at alpha {self.config.alpha:g} and cannot answer for alpha "
                f"{request.alpha:g}; build one that answers every alpha with --set index.layout=dual"
            )

    def texts(self, found: Found, unit: Unit) -> list[list[dict[str, Any]]]:
        """The rows of `sentences` (or `passages`) of what was found, question by question, best first."""
        return [
            [self.units.row(unit, int(shard), int(row)) for shard, row in zip(shards, rows, strict=True) if row >= 0]
            for shards, rows in zip(found.shards, found.rows, strict=True)
        ]

    def hits(self, question: str, request: Retrieve) -> list[Hit]:
        """One question's hits, with all that explains them."""
        questions = Questions([question], lambda texts: self._encoded(texts, None))
        found = self._search(questions, request)
        unit = self._retriever(request).unit
        hits = []
        for rank, row in enumerate(self.texts(found, unit)[0]):
            shard, number = int(found.shards[0, rank]), int(found.rows[0, rank])
            core, context = self.units.similarities(unit, shard, number, questions.vectors[0])
            passage = self.units.passage(shard, row["passage_id"])
            hits.append(
                Hit(
                    rank=rank + 1,
                    score=float(found.scores[0, rank]),
                    core=core,
                    context=context,
                    unit_id=int(found.ids[0, rank]),
                    passage_id=row["passage_id"],
                    position=row.get("position", 0),
                    title=passage["title"],
                    text=row["text"].strip(),
                    passage=passage["text"],
                )
            )
        return hits

    @cached_property
    def faiss(self) -> dict[Unit, list[faiss_shards.Shard]]:
        """The FAISS shards of each unit, in order."""
        opened: dict[Unit, list[faiss_shards.Shard]] = {}
        for record in self.manifests["faiss"].shards:
            for unit in self.encoding.units:
                path = self.artifacts["faiss"].path(record.shard, suffix=f"{unit}.faiss")
                opened.setdefault(unit, []).append(faiss_shards.Shard(path))
        return opened

    @cached_property
    def efforts(self) -> dict[Unit, int]:
        """The nprobe or efSearch that was chosen for each unit's index when it was built."""
        path = self.artifacts["faiss"].path(0, "index_quality")
        return {row["unit"]: row["effort"] for row in pq.read_table(path).to_pylist() if row["chosen"]}

    @cached_property
    def bm25(self) -> dict[Unit, list[bm25_shards.Shard]]:
        """The BM25 shards of each unit, which are those of its table. Raises IndexMismatch where there are none."""
        if "bm25" not in self.artifacts:
            raise IndexMismatch(
                f"index {self.index.name!r} has no BM25; run its `vitalfew index` again with --set bm25.enabled=true: "
                "that adds it and redoes nothing else"
            )
        opened: dict[Unit, list[bm25_shards.Shard]] = {}
        for unit in self.encoding.units:
            for record in self.manifests[table_of(unit)].shards:
                place = stem(self.artifacts["bm25"], record.shard, unit)
                opened.setdefault(unit, []).append(bm25_shards.Shard(place, record.rows(table_of(unit))))
        return opened

    @cached_property
    def coverage(self) -> dict[Unit, list[tuple[int, np.ndarray]]]:
        """Per unit and FAISS shard: the first table shard it covers and the row each of them starts at."""
        coverage: dict[Unit, list[tuple[int, np.ndarray]]] = {}
        for unit in self.encoding.units:
            table = table_of(unit)
            sizes = [record.rows(table) for record in self.manifests[table].shards]
            for record in self.manifests["faiss"].shards:
                first, last = record.notes["first"], record.notes["last"]
                coverage.setdefault(unit, []).append((first, np.cumsum([0, *sizes[first:last]])))
        return coverage


@dataclass(frozen=True)
class OpenIndex:
    """What a retriever sees of an index for one request: `tasks.retrievers.base.Index`."""

    searcher: Searcher
    request: Retrieve

    @property
    def layout(self) -> Layout:
        return self.searcher.config.layout

    @property
    def alpha(self) -> float:
        return self.searcher.config.alpha

    def nearest(self, unit: Unit, queries: Vectors, k: int) -> Found:
        found = faiss_shards.search(self.searcher.faiss[unit], queries, k, self._effort(unit))
        shards, rows = np.full_like(found.shards, NOTHING), np.full_like(found.rows, NOTHING)
        for number, (first, starts) in enumerate(self.searcher.coverage[unit]):
            here = (found.shards == number) & (found.rows >= 0)
            places = np.searchsorted(starts, found.rows[here], side="right") - 1
            shards[here], rows[here] = first + places, found.rows[here] - starts[places]
        return Found(found.ids, found.scores, shards, rows)

    def _effort(self, unit: Unit) -> int:
        kind = self.searcher.config.type
        if kind.startswith("ivf"):
            return self.request.nprobe or self.searcher.efforts[unit]
        return self.request.ef_search or self.searcher.efforts[unit] if kind == "hnsw" else 0

    def matching(self, unit: Unit, texts: Sequence[str], k: int) -> Found:
        found = bm25_shards.search(self.searcher.bm25[unit], words(texts), k)
        shards, ids = found.shards.copy(), found.ids.copy()
        for number, record in enumerate(self.searcher.manifests[table_of(unit)].shards):
            here = found.shards == number
            if here.any():
                shards[here] = record.shard
                ids[here] = self.searcher.units.ids(unit, record.shard)[found.rows[here]]
        return Found(ids, found.scores, shards, found.rows)
