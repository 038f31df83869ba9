"""refine: hits → evidence, the contexts of a prompt."""

from collections.abc import Mapping
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from configs.evaluation import RefineConfig
from storage import schemas
from storage.artifacts import Artifact
from storage.ids import shard_of
from storage.indexes.units import Units
from tasks.refiners.base import Evidence, Hit, Refiner, Vectors
from tasks.registry import kept, with_options
from tasks.stage import Progress, ShardResult, Stage


class Refine(Stage):
    """Stage `refine` over `hits`, by one refiner."""

    name: ClassVar[str] = "refine"
    table: ClassVar[str] = "evidence"
    section: ClassVar[str] = "refine"
    role: ClassVar[str | None] = "refiner"

    def __init__(
        self,
        store: Path,
        asked: Artifact,
        hits: Artifact,
        corpus: Mapping[str, Artifact],
        config: RefineConfig,
        question_vectors: Artifact | None = None,
    ) -> None:
        """`corpus`: the index's passages, sentences and vectors, by role, as far as it has them; `question_vectors`: by
        the index's encoder, if the refiner needs vectors. Raises UnknownName, ConfigError,
        EngineUnavailable."""
        options = with_options(config, "refine")
        self.refiner: Refiner = kept(options, self.name)
        inputs = {"asked": asked, "hits": hits} | ({"passages": corpus["passages"]} if config.text == "passage" else {})
        if question_vectors:
            inputs |= {**corpus, "question_vectors": question_vectors}
        super().__init__(store, inputs, options)
        self.num_gpus = 1.0 if self.refiner.uses_gpu else 0.0
        self.workers = self.refiner.workers

    config: RefineConfig

    def __getstate__(self) -> dict[str, Any]:
        # A worker constructs its own refiner: a model is not pickled.
        return {name: value for name, value in vars(self).items() if name != "refiner"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.refiner = kept(self.config, self.name)

    def config_identity(self) -> dict[str, Any]:
        return self.config.identity()

    def method_identity(self) -> dict[str, Any]:
        return self.refiner.identity()

    def shards(self) -> list[int]:
        return [record.shard for record in self.inputs["hits"].completed().shards]

    def total_rows(self) -> int:
        return self.inputs["asked"].completed().rows["asked"]

    def work(self, shard: int, progress: Progress) -> ShardResult:
        asked = self.inputs["asked"].read(shard, columns=["question_id", "text"])
        table = self.inputs["hits"].read(shard)
        table = self._whole(table) if self.config.text == "passage" else table
        ids = asked["question_id"].to_pylist()
        places = _places(table, ids)
        hits = [Hit(**hit) for hit in table.select(["title", "text", "passage_id", "start", "end"]).to_pylist()]
        vectors = self._vectors(shard, table, places) if self.refiner.needs_vectors else None
        hits_of_questions = [hits[place] for place in places]
        refined = self.refiner.refine(asked["text"].to_pylist(), hits_of_questions, vectors, progress)
        rows = [
            _row(question, rank, evidence)
            for question, contexts in zip(ids, refined.contexts, strict=True)
            for rank, evidence in enumerate(contexts, 1)
        ]
        table = pa.Table.from_pylist(rows, schemas.EVIDENCE)
        return ShardResult(len(ids), {"evidence": table}, tokens=refined.tokens, notes=dict(refined.notes))

    def _vectors(self, shard: int, hits: pa.Table, places: list[slice]) -> Vectors:
        """The index's vectors of the questions and of their hits."""
        column = self.inputs["question_vectors"].read(shard)["vector"].combine_chunks()
        questions = column.flatten().to_numpy().reshape(len(places), -1)
        if not len(hits):
            return Vectors(questions, [questions[:0]] * len(places))
        shards = shard_of(hits["passage_id"].to_numpy(), len(self.inputs["passages"].completed().shards))
        units = Units(self.inputs)
        vectors = units.vectors(hits["unit"][0].as_py(), shards, hits["unit_id"].to_numpy())
        return Vectors(questions, [vectors[place] for place in places])

    def _whole(self, hits: pa.Table) -> pa.Table:
        """Every hit as its whole passage; a question gets a passage once, at the place of its best hit."""
        pairs = zip(hits["question_id"].to_pylist(), hits["passage_id"].to_pylist(), strict=True)
        first = {pair: row for row, pair in reversed([*enumerate(pairs)])}
        hits = hits.take(pa.array(sorted(first.values()), pa.int64()))
        load = self.inputs["passages"]
        units = Units({"passages": load})
        passages = hits["passage_id"].to_numpy()
        shards = shard_of(passages, len(load.completed().shards))
        places = np.array([units.place(int(s), int(p)) for s, p in zip(shards, passages, strict=True)], np.int64)
        texts = units.take("passages", shards, places, ["text"])["text"].to_pylist()
        whole = {"text": texts, "start": [0] * len(texts), "end": [len(text) for text in texts]}
        for name, column in whole.items():
            field = hits.schema.field(name)
            hits = hits.set_column(hits.schema.get_field_index(name), field, pa.array(column, field.type))
        return hits


def _places(hits: pa.Table, questions: list[int]) -> list[slice]:
    """The slice of every question's hits, which are adjacent, best first; an empty slice if it has none."""
    counts = {question: len([*rows]) for question, rows in groupby(hits["question_id"].to_pylist())}
    ends = dict(zip(counts, accumulate(counts.values()), strict=True))
    return [slice(ends.get(question, 0) - counts.get(question, 0), ends.get(question, 0)) for question in questions]


def _row(question: int, rank: int, evidence: Evidence) -> dict[str, Any]:
    origin = [dict(zip(("passage_id", "start", "end"), span, strict=True)) for span in evidence.origin]
    return {"question_id": question, "rank": rank, "text": evidence.text, "tokens": evidence.tokens, "origin": origin}
