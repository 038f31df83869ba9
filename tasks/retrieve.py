"""retrieve: questions → hits, from a named index."""

from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from configs.schema import Retrieve as RetrieveConfig
from storage import schemas
from storage.artifacts import Artifact
from storage.runs import find_index
from tasks.index import table_of
from tasks.registry import resolve
from tasks.retrievers.base import Retriever
from tasks.searcher import Searcher
from tasks.stage import Progress, ShardResult, Stage


class Retrieve(Stage):
    """Stage `retrieve` over `asked`, by one retriever on one index. Questions of a shard are searched together."""

    name: ClassVar[str] = "retrieve"
    table: ClassVar[str] = "hits"

    def __init__(
        self, store: Path, asked: Artifact, vectors: Artifact | None, index: str, config: RetrieveConfig
    ) -> None:
        """`vectors`: those of the questions; None for a retriever that does without. Raises IndexNotFound."""
        self.index = index
        self.retriever: Retriever = resolve("retriever", config.retriever)(config)
        named = find_index(store, index).artifacts
        inputs = {role: Artifact(store, *name.split("/")) for role, name in named.items()}
        inputs |= {"asked": asked} | ({"question_vectors": vectors} if vectors else {})
        super().__init__(store, inputs, config)

    config: RetrieveConfig

    def config_identity(self) -> dict[str, Any]:
        return self.config.model_dump(mode="json", include={"retriever", "top_k", *self.retriever.settings})

    def method_identity(self) -> dict[str, Any]:
        return {"retriever": self.config.retriever, "version": self.retriever.version}

    def shards(self) -> list[int]:
        return [record.shard for record in self.inputs["asked"].completed().shards]

    def total_rows(self) -> int:
        return self.inputs["asked"].completed().rows["asked"]

    def work(self, shard: int, progress: Progress) -> ShardResult:
        searcher = _searcher(self.store, self.index, tuple(sorted(artifact.name for artifact in self.inputs.values())))
        asked = pq.read_table(self.inputs["asked"].path(shard), columns=["question_id", "text"])
        vectors = self._vectors(shard) if "question_vectors" in self.inputs else None
        found = searcher.search(asked["text"].to_pylist(), self.config, vectors)
        rows, ranks = np.nonzero(found.rows >= 0)
        unit, table = self.retriever.unit, table_of(self.retriever.unit)
        shards, places = found.shards[rows, ranks], found.rows[rows, ranks]
        columns = ["passage_id", "text", *(["start", "end"] if unit == "sentence" else ["title"])]
        units = searcher.units.take(table, shards, places, columns)
        texts, passages = units["text"].to_pylist(), units["passage_id"].to_numpy()
        if unit == "sentence":
            at = np.array([searcher.units.place(int(s), int(p)) for s, p in zip(shards, passages, strict=True)], int)
            titles = searcher.units.take("passages", shards, at, ["title"])["title"]
            starts, ends = units["start"].to_numpy(), units["end"].to_numpy()
        else:
            titles = units["title"]
            starts, ends = np.zeros(len(texts), int), np.array([len(text) for text in texts], int)
        hits = {
            "question_id": asked["question_id"].to_numpy()[rows],
            "rank": ranks + 1,
            "unit": [unit] * len(texts),
            "unit_id": found.ids[rows, ranks],
            "passage_id": passages,
            "start": starts,
            "end": ends,
            "score": found.scores[rows, ranks],
            "title": titles.to_pylist(),
            "text": texts,
        }
        progress(len(asked), 0)
        return ShardResult(len(asked), {"hits": _table(hits)})

    def _vectors(self, shard: int) -> np.ndarray:
        """float32 (questions, dimension)."""
        column = pq.read_table(self.inputs["question_vectors"].path(shard))["vector"].combine_chunks()
        return column.flatten().to_numpy().reshape(len(column), -1)


def _table(columns: dict[str, Any]) -> pa.Table:
    schema = schemas.HITS
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


@lru_cache(4)
def _searcher(store: Path, index: str, artifacts: tuple[str, ...]) -> Searcher:
    """Opened once in a worker for all methods that search it; `artifacts`: what the name stands for now."""
    return Searcher(store, index)
