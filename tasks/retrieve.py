"""retrieve: questions → hits, from a named index."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from configs.schema import EncodeConfig, IndexConfig, Retrieve, Unit
from storage import faiss_shards
from storage.artifacts import Artifact, Manifest
from storage.faiss_shards import Found, Vectors
from storage.runs import NamedIndex, find_index
from tasks.encode import make_encoder
from tasks.index import ShardVectors
from tasks.registry import resolve
from tasks.retrievers.base import Retriever

CACHED_GROUPS = 64
OPEN_FILES = 64


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
        self.layout = IndexConfig.model_validate(self.manifests["faiss"].config)
        self._groups: OrderedDict[tuple[Path, int], pa.Table] = OrderedDict()

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

    def search(self, questions: Sequence[str], request: Retrieve) -> Found:
        """The best units of each question. Encodes all questions together; see `hits` for texts."""
        return self.search_vectors(self.encoder.encode_questions(questions).vectors, request)

    def search_vectors(self, questions: Vectors, request: Retrieve) -> Found:
        """The same, for questions that are encoded already: float32 (n, d)."""
        retriever = self._retriever(request)
        queries = retriever.queries(questions, self.layout.layout, self.layout.alpha)
        return faiss_shards.search(self._shards(retriever.unit), queries, request.top_k)

    def _retriever(self, request: Retrieve) -> Retriever:
        retriever: Retriever = resolve("retriever", request.retriever)(request.alpha)
        if retriever.unit not in self.encoding.units:
            raise IndexMismatch(
                f"retriever {request.retriever!r} searches {retriever.unit}s, and index {self.index.name!r} holds only "
                f"{', '.join(self.encoding.units)}s; index with --set 'encode.units=[sentence, passage]'"
            )
        return retriever

    def _shards(self, unit: Unit) -> list[faiss_shards.Shard]:
        return self._opened[unit]

    @cached_property
    def _opened(self) -> dict[Unit, list[faiss_shards.Shard]]:
        opened: dict[Unit, list[faiss_shards.Shard]] = {}
        for file in self.manifests["faiss"].files():
            unit: Unit = "sentence" if file.path.endswith(".sentence.faiss") else "passage"
            opened.setdefault(unit, []).append(faiss_shards.Shard(self.store / file.path))
        return opened

    def texts(self, found: Found, unit: Unit) -> list[list[dict[str, Any]]]:
        """The rows of `sentences` (or `passages`) of what was found, question by question, best first."""
        return [
            [self._row(unit, int(shard), int(row)) for shard, row in zip(shards, rows, strict=True) if row >= 0]
            for shards, rows in zip(found.shards, found.rows, strict=True)
        ]

    def hits(self, question: str, request: Retrieve) -> list[Hit]:
        """One question's hits, with all that explains them."""
        vectors = self.encoder.encode_questions([question]).vectors
        found = self.search_vectors(vectors, request)
        unit = self._retriever(request).unit
        hits = []
        for rank, row in enumerate(self.texts(found, unit)[0]):
            shard, number = int(found.shards[0, rank]), int(found.rows[0, rank])
            core, context = self._similarities(unit, shard, number, vectors[0])
            passage = self._passage(row["passage_id"], shard, number, unit)
            only = passage["text"].strip() == row["text"].strip()
            hits.append(
                Hit(
                    rank=rank + 1,
                    score=float(found.scores[0, rank]),
                    core=core,
                    context=None if only else context,
                    unit_id=int(found.ids[0, rank]),
                    passage_id=row["passage_id"],
                    position=row.get("position", 0),
                    title=passage["title"],
                    text=row["text"].strip(),
                    passage=passage["text"],
                )
            )
        return hits

    def _similarities(self, unit: Unit, shard: int, row: int, question: Vectors) -> tuple[float, float]:
        """Core and context similarity of a unit; a passage is its own core."""
        if unit == "sentence" and self.layout.layout == "fused":  # the index keeps their sum only
            number, row = self._locate(unit, shard, row)
            vectors = ShardVectors.read(self.artifacts["vectors"].path(number))
            contexts = vectors.contexts(self.artifacts["sentences"].path(number), self.encoding.context)
            return float(vectors.core[row] @ question), float(contexts[row] @ question)
        kept = self._shards(unit)[shard].vectors(np.array([row]))[0].reshape(-1, len(question))
        return float(kept[0] @ question), float(kept[-1] @ question)

    def _passage(self, passage_id: int, shard: int, row: int, unit: Unit) -> dict[str, Any]:
        """The row of `passages`: shards of passages and sentences go together, and passages are sorted by id."""
        number, _ = self._locate(unit, shard, row)
        path = self.artifacts["passages"].path(number)
        return self._fetch(path, int(np.searchsorted(_passage_ids(path), passage_id)))

    def _row(self, unit: Unit, shard: int, row: int) -> dict[str, Any]:
        number, row = self._locate(unit, shard, row)
        return self._fetch(self.artifacts[table_of(unit)].path(number), row)

    def _locate(self, unit: Unit, shard: int, row: int) -> tuple[int, int]:
        """Shard of the tables, and row in it, of a row of a FAISS shard."""
        numbers, starts = self._coverage[unit][shard]
        place = int(np.searchsorted(starts, row, side="right")) - 1
        return numbers[place], row - int(starts[place])

    @cached_property
    def _coverage(self) -> dict[Unit, list[tuple[list[int], np.ndarray]]]:
        """Per unit and FAISS shard: the table shards it covers and the row each one starts at."""
        coverage: dict[Unit, list[tuple[list[int], np.ndarray]]] = {}
        for unit in self._opened:
            table = table_of(unit)
            sizes = [record.rows(table) for record in self.manifests[table].shards]
            coverage[unit] = []
            for record in self.manifests["faiss"].shards:
                first, last = record.notes["first"], record.notes["last"]
                starts = np.cumsum([0, *sizes[first:last]])
                coverage[unit].append((list(range(first, last + 1)), starts))
        return coverage

    def _fetch(self, path: Path, row: int) -> dict[str, Any]:
        """A row of a Parquet file, through a cache of row groups."""
        file = _parquet(path)
        group = 0
        while row >= file.metadata.row_group(group).num_rows:
            row -= file.metadata.row_group(group).num_rows
            group += 1
        key = (path, group)
        if key not in self._groups:
            self._groups[key] = file.read_row_group(group)
            if len(self._groups) > CACHED_GROUPS:
                self._groups.popitem(last=False)
        self._groups.move_to_end(key)
        return self._groups[key].slice(row, 1).to_pylist()[0]


def table_of(unit: Unit) -> str:
    """The table that a unit's rows are in."""
    return "sentences" if unit == "sentence" else "passages"


@lru_cache(OPEN_FILES)
def _parquet(path: Path) -> pq.ParquetFile:
    return pq.ParquetFile(path)


@lru_cache(OPEN_FILES)
def _passage_ids(path: Path) -> np.ndarray:
    return pq.read_table(path, columns=["passage_id"])["passage_id"].to_numpy()
