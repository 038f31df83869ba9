"""index: `vectors` → FAISS shards, one set per retrievable unit.

Layout `dual` stores [core; context] of every sentence as one vector of 2d numbers. Its inner product with
[alpha * q; (1 - alpha) * q] is score(alpha) for any alpha, because ParetoRAG's score is linear in alpha (arXiv
2502.08178, section 3.2). `fused` stores alpha * core + (1 - alpha) * context, d numbers, for one alpha. A sentence
without context has its core as context: its score is core.q for every alpha. Passages are stored unchanged, d numbers.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vitalfew.configs.schema import IndexConfig, Unit
from vitalfew.storage import files, schemas
from vitalfew.storage.artifacts import Artifact, ShardRecord
from vitalfew.storage.indexes import Vectors, faiss_shards
from vitalfew.storage.indexes.faiss_shards import FaissShard
from vitalfew.storage.indexes.recall import PROBES, Answers, Exact, Probes, Recall, chosen, neighbours
from vitalfew.storage.indexes.types import FaissRecipe, Flat
from vitalfew.storage.indexes.units import ShardVectors, table_of
from vitalfew.tasks.registry import construct
from vitalfew.tasks.retrievers.dense import CoreContext
from vitalfew.tasks.stage import Progress, ShardResult, Stage

SAMPLED_SHARDS = 64
"""The vectors shards that give a training sample, at most; more give the large one of an IVF index."""


class Index(Stage):
    """Stage `index`. Its files are `<shard>.<unit>.faiss`; a FAISS shard covers a run of vectors shards.

    Types other than flat have a template per unit, which the preparation trains on a bounded sample and every shard is
    built from, and probes, whose neighbours give the recall (storage/indexes/recall.py).
    """

    name: ClassVar[str] = "index"
    table: ClassVar[str] = "faiss"
    counts: ClassVar[str] = "vectors"
    section: ClassVar[str] = "index"
    version: ClassVar[str] = "2"
    config: IndexConfig

    def __init__(self, store: Path, units: Artifact, vectors: Artifact, config: IndexConfig) -> None:
        """Raises UnknownName, ConfigError."""
        self.type: Flat = construct(config)
        self.units, self.vectors = units, vectors
        super().__init__(store, {units.table: units, "vectors": vectors}, config)

    def method_identity(self) -> dict[str, Any]:
        return {"index": self.config.type, "library": "faiss", "version": self.type.version}

    @property
    def kinds(self) -> list[Unit]:
        """The units that are indexed."""
        return self.vectors.completed().config["units"]

    def recipe(self, unit: Unit, sample: int = 0) -> FaissRecipe:
        """The index of a unit, trained on `sample` vectors."""
        manifest = self.units.completed()
        rows = manifest.rows_in if unit == "passage" and "sentences" in manifest.rows else manifest.rows[table_of(unit)]
        width = 2 if unit == "sentence" and self.config.layout == "dual" else 1
        return FaissRecipe(self.type, width * self.dimension(), rows, sample)

    def covered(self) -> list[list[int]]:
        """The vectors shards of every FAISS shard: as many as fit into `shard_mb` in the format of the index; more
        where what every shard repeats would be more than a fifth of it."""
        numbers = [record.shard for record in self.vectors.completed().shards]
        largest = max(record.rows(self.units.table) for record in self.units.completed().shards)
        recipe = self.recipe(self.kinds[0], sum(self._sample(self.kinds[0]).values()))
        size = largest * recipe.bytes_per_vector()
        run = max(1, int(max(self.config.shard_mb << 20, 4 * recipe.bytes_per_shard()) / max(1, size)))
        return [numbers[start : start + run] for start in range(0, len(numbers), run)]

    def shards(self) -> list[int]:
        return list(range(len(self.covered())))

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
            self._train(unit, self._sample(unit))

    def _train(self, unit: Unit, sample: Mapping[int, int]) -> None:
        """Write the template and the probes of a unit."""
        count = sum(sample.values())
        places = np.unique(np.linspace(0, count - 1, PROBES).astype(int))
        probes: list[VectorSample] = []

        def rows() -> Iterator[Vectors]:
            start = 0
            for number, share in sample.items():
                part = self._read(unit, number)[:share]
                probes.append(part[places[(start <= places) & (places < start + share)] - start])
                start += share
                yield part.rows

        recipe, path = self.recipe(unit, count), self.staging / f"{unit}.sample.npy"
        files.write_rows(path, (count, recipe.dimension), rows())
        faiss_shards.write(self.template(unit), recipe.template(files.map_array(path)))
        files.remove(path)
        questions = np.concatenate([part.questions for part in probes])
        if unit == "sentence":
            questions = CoreContext(CoreContext.Options()).queries(questions, self.config.layout)
        Probes(np.concatenate([part.ids for part in probes]), questions).save(self.probes(unit))

    def _sample(self, unit: Unit) -> dict[int, int]:
        """How many vectors of which shards the index is trained on, its first ones: a random choice, as shards and
        their rows are ordered by hashes of content.

        As many as its type asks for, and else at most `shard_mb`. They are written to a file and mapped: what is in
        memory is one vectors shard and, of an IVF index, its lists' centres thrice and 200,000 vectors that FAISS
        learns codes from (1.4 GiB for the 89,442 lists of 768 numbers of 5·10⁸ sentences, whose sample has 16.4 GiB).
        """
        records = self.vectors.completed().shards
        recipe = self.recipe(unit)
        points, most = self.type.points(recipe), SAMPLED_SHARDS
        wanted = points or (self.config.shard_mb << 20) // (4 * recipe.dimension)
        if points:  # half of a shard's rows on average, as shards differ in size
            most = max(most, math.ceil(2 * points * len(records) / max(1, recipe.rows)))
        chosen = [records[place].shard for place in np.unique(np.linspace(0, len(records) - 1, most).astype(int))]
        share = -(-wanted // len(chosen))
        rows = {record.shard: self._rows(unit, record) for record in self.units.completed().shards}
        sample: dict[int, int] = {}
        for number in chosen:
            sample[number] = min(share, rows[number], wanted - sum(sample.values()))
        return sample

    @staticmethod
    def _rows(unit: Unit, record: ShardRecord) -> int:
        """Units of a kind in a shard of the units' table."""
        of_sentences = record.rows(table_of("sentence"))
        return record.rows_in if unit == "passage" and of_sentences else record.rows(table_of(unit))

    def work(self, shard: int, progress: Progress) -> ShardResult:
        covered = self.covered()[shard]
        written, near = [], []
        for unit in self.kinds:
            path = self.artifact.new_path(shard, suffix=f"{unit}.faiss")
            ids = np.concatenate([self._ids(unit, number) for number in covered])
            batches = (self._read(unit, number).rows for number in covered)
            if self.config.type == "flat":
                faiss_shards.build(path, self.recipe(unit).template(), ids, batches)
            else:
                exact = Exact(Probes.load(self.artifact.prepared_file(self.probes(unit))), ids)
                empty = faiss_shards.read_template(self.artifact.prepared_file(self.template(unit)))
                faiss_shards.build(path, empty, ids, exact.watch(batches))
                near.append(neighbours(unit, exact, FaissShard(path)))
            written.append(self.artifact.describe(path, self.table, len(ids)))
        rows_in = sum(record.files[0].rows for record in self.vectors.completed().shards if record.shard in covered)
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
            asked = Probes.load(self.artifact.prepared_file(self.probes(unit)))
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
        return pa.table([*zip(*rows, strict=True)], schema=schemas.INDEX_QUALITY)

    def dimension(self) -> int:
        field = self.vectors.schema(self.vectors.completed().shards[0].shard).field("vector")
        return int(field.type.list_size)

    def _ids(self, unit: Unit, number: int) -> np.ndarray:
        table = self.vectors.read(number, columns=["id", "kind"])
        return table.filter(pc.equal(table["kind"], "core" if unit == "sentence" else "passage"))["id"].to_numpy()

    def _read(self, unit: Unit, number: int) -> "VectorSample":
        """A vectors shard in the layout of the index."""
        layout = ShardVectors.read(self.vectors.path(number))
        ids = self._ids(unit, number)
        if unit == "passage":
            return VectorSample(ids, layout.passage, layout.passage)
        core, alpha = layout.core, self.config.alpha
        context = layout.contexts(self.units.path(number), self.vectors.completed().config["context"])
        if alpha is None:  # dual
            return VectorSample(ids, core, np.concatenate([core, context], axis=1))
        return VectorSample(ids, core, alpha * core + (1 - alpha) * context)


@dataclass(frozen=True)
class VectorSample:
    """Units by id, int64 (n,): as `questions`, float32 (n, d), and as `rows` of the index, float32 (n, width)."""

    ids: np.ndarray
    questions: Vectors
    rows: Vectors

    def __getitem__(self, places: slice | np.ndarray) -> "VectorSample":
        return VectorSample(self.ids[places], self.questions[places], self.rows[places])
