"""index: `vectors` → FAISS shards, one set per retrievable unit.

Layout `dual` stores [core; context] of every sentence as one vector of 2d numbers. Its inner product with
[alpha * q; (1 - alpha) * q] is score(alpha) for any alpha, because ParetoRAG's score is linear in alpha (arXiv
2502.08178, section 3.2). `fused` stores alpha * core + (1 - alpha) * context, d numbers, for one alpha. A sentence
without context is its own context: its score is core.q for every alpha. Passages are stored unchanged, d numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from configs.schema import IndexConfig, Unit
from storage import files, schemas
from storage.artifacts import Artifact, Manifest, ShardRecord
from storage.indexes import faiss_shards
from storage.indexes.faiss_shards import Shard
from storage.indexes.faiss_types import Recipe, Vectors
from storage.indexes.recall import PROBES, Answers, Exact, Probes, Recall, chosen, neighbours
from storage.indexes.types import Flat
from storage.indexes.units import table_of
from storage.schemas import VECTOR_KINDS
from tasks.registry import make, with_options
from tasks.retrievers.core_context import CoreContext
from tasks.stage import Progress, ShardResult, Stage

SAMPLED_SHARDS = 64
"""The maximal number of vectors shards that give a training sample."""


class Index(Stage):
    """Stage `index`. Its files are `<shard>.<unit>.faiss`; a FAISS shard covers a run of vectors shards.

    Types other than flat have a template per unit, which the preparation trains on a bounded sample and every shard is
    built from, and probes, whose neighbours give the recall (storage/indexes/recall.py).
    """

    name: ClassVar[str] = "index"
    table: ClassVar[str] = "faiss"
    section: ClassVar[str] = "index"
    version: ClassVar[str] = "2"
    config: IndexConfig

    def __init__(self, store: Path, units: Artifact, vectors: Artifact, config: IndexConfig) -> None:
        """Raises UnknownName, ConfigError."""
        options = with_options(config, "index")
        self.type: Flat = make(options, "index")
        self.units, self.vectors = units, vectors
        super().__init__(store, {units.table: units, "vectors": vectors}, options)

    def config_identity(self) -> dict[str, Any]:
        return self.config.identity()

    def method_identity(self) -> dict[str, Any]:
        return {"index": self.config.type, "library": "faiss"}

    def _encoding(self) -> Manifest:
        return self.vectors.completed()

    def _units(self) -> Manifest:
        return self.units.completed()

    @property
    def kinds(self) -> list[Unit]:
        """The units that are indexed."""
        return self._encoding().config["units"]

    def recipe(self, unit: Unit, sample: int = 0) -> Recipe:
        """The index of a unit, trained on `sample` vectors."""
        manifest = self._units()
        rows = manifest.rows_in if unit == "passage" and "sentences" in manifest.rows else manifest.rows[table_of(unit)]
        width = 2 if unit == "sentence" and self.config.layout == "dual" else 1
        return Recipe(self.type, width * self.dimension(), rows, sample)

    def covered(self) -> list[list[int]]:
        """The vectors shards of every FAISS shard: as many as fit into `shard_mb` in the format of the index."""
        numbers = [record.shard for record in self._encoding().shards]
        largest = max(record.rows(self.units.table) for record in self._units().shards)
        size = largest * self.recipe(self.kinds[0]).bytes_per_vector()
        run = max(1, int((self.config.shard_mb << 20) / max(1, size)))
        return [numbers[start : start + run] for start in range(0, len(numbers), run)]

    def shards(self) -> list[int]:
        return list(range(len(self.covered())))

    def total_rows(self) -> int:
        return self._encoding().rows["vectors"]

    def template(self, unit: Unit) -> Path:
        return self.artifact.file(f"{unit}.template.faiss")

    def probes(self, unit: Unit) -> Path:
        return self.artifact.file(f"{unit}.probes.npz")

    def prepared(self) -> list[Path]:
        if self.config.type == "flat":
            return []
        return [path(unit) for unit in self.kinds for path in (self.template, self.probes)]

    def is_prepared(self) -> bool:
        return self.config.type == "flat" or super().is_prepared()

    def prepare(self, progress: Progress) -> None:
        for unit in self.kinds:
            sample = self._sample(unit)
            recipe = self.recipe(unit, len(sample.ids))
            faiss_shards.write(self.template(unit), recipe.template(sample.rows))
            places = np.unique(np.linspace(0, len(sample.ids) - 1, PROBES).astype(int))
            Probes(sample.ids[places], self._queries(unit, sample.questions[places])).save(self.probes(unit))

    def _sample(self, unit: Unit) -> "Sample":
        """At most `shard_mb` of vectors, a random choice: shards and their rows are ordered by hashes of content."""
        wanted = (self.config.shard_mb << 20) // (4 * self.recipe(unit).dimension)
        numbers = [record.shard for record in self._encoding().shards]
        numbers = [numbers[place] for place in np.unique(np.linspace(0, len(numbers) - 1, SAMPLED_SHARDS).astype(int))]
        share = -(-wanted // len(numbers))
        parts = [self._read(unit, number).first(share) for number in numbers]
        return Sample(*(np.concatenate(columns)[:wanted] for columns in zip(*map(Sample.columns, parts), strict=True)))

    def _queries(self, unit: Unit, questions: Vectors) -> Vectors:
        """The query vectors of questions, as the retriever of a unit computes them."""
        if unit == "passage" or self.config.layout == "fused":
            return questions
        return CoreContext(CoreContext.Options()).queries(questions, self.config.layout)

    def work(self, shard: int, progress: Progress) -> ShardResult:
        covered = self.covered()[shard]
        written, near = [], []
        for unit in self.kinds:
            path = self.artifact.path(shard, suffix=f"{unit}.faiss")
            ids = np.concatenate([self._ids(unit, number) for number in covered])
            batches = (self._read(unit, number).rows for number in covered)
            if self.config.type == "flat":
                faiss_shards.build(path, self.recipe(unit).template(), ids, batches)
            else:
                exact = Exact(Probes.load(self.probes(unit)), ids)
                faiss_shards.build(path, faiss_shards.read(self.template(unit)), ids, exact.watch(batches))
                near.append(neighbours(unit, exact, Shard(path)))
            written.append(self.artifact.describe(path, self.table, len(ids)))
        rows_in = sum(record.files[0].rows for record in self._encoding().shards if record.shard in covered)
        progress(rows_in, 0)
        tables = {"neighbours": pa.concat_tables(near)} if near else {}
        return ShardResult(rows_in, tables, written, notes={"first": covered[0], "last": covered[-1]})

    def conclude(self, records: Sequence[ShardRecord]) -> dict[str, pa.Table]:
        """Recall and bytes per vector of every unit's index, by effort."""
        return {"index_quality": pa.concat_tables([self._quality(unit, records) for unit in self.kinds])}

    def _quality(self, unit: Unit, records: Sequence[ShardRecord]) -> pa.Table:
        shards = [file for record in records for file in record.files if file.path.endswith(f".{unit}.faiss")]
        vectors = sum(file.rows for file in shards)
        recalls, probes = {0: Recall(1.0, 0.0)}, 0
        if self.config.type != "flat":
            asked = Probes.load(self.probes(unit))
            answers, probes = Answers(unit, asked), len(asked.ids)
            for record in records:
                answers.add(self.artifact.read(record.shard, "neighbours"))
            recalls = answers.recalls()
        size = sum(file.bytes for file in shards) / max(1, vectors)
        best = chosen(recalls, self.type.recall)
        rows = [
            (unit, self.config.type, vectors, size, effort, recall.mean, recall.error, probes, effort == best)
            for effort, recall in recalls.items()
        ]
        names = schemas.INDEX_QUALITY.names
        return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schemas.INDEX_QUALITY)

    def dimension(self) -> int:
        field = self.vectors.schema(self._encoding().shards[0].shard).field("vector")
        return int(field.type.list_size)

    def _ids(self, unit: Unit, number: int) -> np.ndarray:
        table = self.vectors.read(number, columns=["id", "kind"])
        return table.filter(pc.equal(table["kind"], "core" if unit == "sentence" else "passage"))["id"].to_numpy()

    def _read(self, unit: Unit, number: int) -> "Sample":
        """A vectors shard in the layout of the index."""
        layout = ShardVectors.read(self.vectors.path(number))
        ids = self._ids(unit, number)
        if unit == "passage":
            return Sample(ids, layout.passage, layout.passage)
        context = layout.contexts(self.units.path(number), self._encoding().config["context"])
        return Sample(ids, layout.core, self._laid_out(layout.core, context))

    def _laid_out(self, core: Vectors, context: Vectors) -> Vectors:
        alpha = self.config.alpha
        if alpha is None:  # dual
            return np.concatenate([core, context], axis=1)
        return alpha * core + (1 - alpha) * context


@dataclass(frozen=True)
class Sample:
    """Units by id, int64 (n,): as `questions`, float32 (n, d), and as `rows` of the index, float32 (n, width)."""

    ids: np.ndarray
    questions: Vectors
    rows: Vectors

    def columns(self) -> list[np.ndarray]:
        return [self.ids, self.questions, self.rows]

    def first(self, count: int) -> "Sample":
        return Sample(*(column[:count] for column in self.columns()))


@dataclass(frozen=True)
class ShardVectors:
    """A shard of `vectors`, by kind, in the order of its units. Arrays float32 (·, d); `context_ids` int64."""

    core: Vectors
    context: Vectors
    context_ids: np.ndarray
    passage: Vectors

    @classmethod
    def read(cls, path: Path) -> "ShardVectors":
        table = files.read_table(path, mapped=True)
        vectors = table["vector"].combine_chunks()
        matrix = vectors.flatten().to_numpy().reshape(len(vectors), vectors.type.list_size)
        counts = [pc.sum(pc.equal(table["kind"], kind)).as_py() or 0 for kind in VECTOR_KINDS]
        core, context, passage = np.split(matrix, np.cumsum(counts)[:2])
        return cls(core, context, table["id"].to_numpy()[len(core) : len(core) + len(context)], passage)

    def contexts(self, sentences: Path, mode: str) -> Vectors:
        """The context vector of every sentence, float32 (sentences, d); its core if it has none."""
        table = files.read_table(sentences, columns=["sentence_id", "position"])
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
