"""index: `vectors` → FAISS shards, one set per retrievable unit.

Layout `dual` keeps [core; context] of every sentence in one vector of 2d numbers: score(alpha) is then its inner
product with [alpha * q; (1 - alpha) * q], for any alpha, since ParetoRAG's score is linear in it (arXiv 2502.08178,
section 3.2). `fused` keeps alpha * core + (1 - alpha) * context, d numbers, for one alpha. A sentence without context
stands for its own: its score is core.q for every alpha. Passages are always kept as they are, d numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from configs.schema import IndexConfig, Unit
from storage import faiss_shards
from storage.artifacts import Artifact, File, Manifest
from storage.faiss_shards import Vectors
from storage.schemas import VECTOR_KINDS
from tasks.stage import Progress, ShardResult, Stage


class Index(Stage):
    """Stage `index`. Its files are `<shard>.<unit>.faiss`; a FAISS shard covers a run of vectors shards."""

    name: ClassVar[str] = "index"
    table: ClassVar[str] = "faiss"
    config: IndexConfig

    def __init__(self, store: Path, units: Artifact, vectors: Artifact, config: IndexConfig) -> None:
        self.units, self.vectors = units, vectors
        super().__init__(store, {units.table: units, "vectors": vectors}, config)

    def config_identity(self) -> dict[str, Any]:
        identity = self.config.model_dump(mode="json")
        if self.config.layout == "dual":
            del identity["alpha"]
        return identity

    def method_identity(self) -> dict[str, Any]:
        return {"index": "flat", "library": "faiss"}

    def _encoding(self) -> Manifest:
        manifest = self.vectors.recorded_manifest()
        if manifest is None:
            raise FileNotFoundError(f"{self.vectors.name} is not complete; encode comes before index")
        return manifest

    def covered(self) -> list[list[int]]:
        """The vectors shards of each FAISS shard."""
        records = self._encoding().shards
        largest = max(record.files[0].bytes for record in records)
        run = max(1, (self.config.shard_mb << 20) // max(1, largest))
        numbers = [record.shard for record in records]
        return [numbers[start : start + run] for start in range(0, len(numbers), run)]

    def shards(self) -> list[int]:
        return list(range(len(self.covered())))

    def total_rows(self) -> int:
        return self._encoding().rows["vectors"]

    def work(self, shard: int, progress: Progress) -> ShardResult:
        covered = self.covered()[shard]
        encoding = self._encoding().config
        files = []
        for unit in encoding["units"]:
            files.append(self._build(shard, unit, covered, encoding["context"]))
        rows_in = sum(record.files[0].rows for record in self._encoding().shards if record.shard in covered)
        progress(rows_in, 0)
        return ShardResult(rows_in, files=files, notes={"first": covered[0], "last": covered[-1]})

    def _build(self, shard: int, unit: Unit, covered: list[int], context: str) -> File:
        path = self.artifact.path(shard, suffix=f"{unit}.faiss")
        kind = "core" if unit == "sentence" else "passage"
        ids = np.concatenate([_ids(self.vectors.path(number), kind) for number in covered])
        dimension = self.dimension() * (2 if unit == "sentence" and self.config.layout == "dual" else 1)
        faiss_shards.build_flat(path, ids, self._rows(unit, covered, context), dimension)
        return self.artifact.describe(path, self.table, len(ids))

    def dimension(self) -> int:
        field = pq.read_schema(self.vectors.path(self._encoding().shards[0].shard)).field("vector")
        return int(field.type.list_size)

    def _rows(self, unit: Unit, covered: list[int], context: str) -> Iterator[Vectors]:
        for number in covered:
            layout = ShardVectors.read(self.vectors.path(number))
            if unit == "passage":
                yield layout.passage
            else:
                core, around = layout.core, layout.contexts(self.units.path(number), context)
                yield self._laid_out(core, around)

    def _laid_out(self, core: Vectors, context: Vectors) -> Vectors:
        if self.config.layout == "dual":
            return np.concatenate([core, context], axis=1)
        return self.config.alpha * core + (1 - self.config.alpha) * context


@dataclass(frozen=True)
class ShardVectors:
    """A shard of `vectors`, by kind, in the order of its units. Arrays float32 (·, d); `context_ids` int64."""

    core: Vectors
    context: Vectors
    context_ids: np.ndarray
    passage: Vectors

    @classmethod
    def read(cls, path: Path) -> "ShardVectors":
        table = pq.read_table(path, memory_map=True)
        vectors = table["vector"].combine_chunks()
        matrix = vectors.flatten().to_numpy().reshape(len(vectors), vectors.type.list_size)
        counts = [pc.sum(pc.equal(table["kind"], kind)).as_py() or 0 for kind in VECTOR_KINDS]
        core, context, passage = np.split(matrix, np.cumsum(counts)[:2])
        return cls(core, context, table["id"].to_numpy()[len(core) : len(core) + len(context)], passage)

    def contexts(self, sentences: Path, mode: str) -> Vectors:
        """The context vector of every sentence, float32 (sentences, d); its core where it has none."""
        table = pq.read_table(sentences, columns=["sentence_id", "position"])
        starts = np.flatnonzero(table["position"].to_numpy() == 0)
        sizes = np.diff([*starts, table.num_rows])
        has_context = np.repeat(sizes > 1, sizes)
        contexts = self.core.copy()
        if mode == "passage":
            contexts[has_context] = np.repeat(self.passage, sizes, axis=0)[has_context]
        else:
            if not np.array_equal(table["sentence_id"].to_numpy()[has_context], self.context_ids):
                raise ValueError(f"{sentences}: context vectors do not belong to these sentences")
            contexts[has_context] = self.context
        return contexts


def _ids(path: Path, kind: str) -> np.ndarray:
    table = pq.read_table(path, columns=["id", "kind"])
    return table.filter(pc.equal(table["kind"], kind))["id"].to_numpy()
