"""terms: the words of every unit, counted shard by shard: what BM25 has to know of the corpus before it can score."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from configs.schema import BM25Config, Unit
from storage import schemas
from storage.artifacts import Artifact
from tasks.retrievers.words import VERSION, words
from tasks.stage import Progress, ShardResult, Stage


class Terms(Stage):
    """Stage `terms`. `texts`: the table of each unit. Notes: units and words of each kind."""

    name: ClassVar[str] = "terms"
    table: ClassVar[str] = "terms"

    def __init__(self, store: Path, texts: Mapping[Unit, Artifact], config: BM25Config) -> None:
        self.texts = dict(texts)
        super().__init__(store, {artifact.table: artifact for artifact in texts.values()}, config)

    def config_identity(self) -> dict[str, Any]:
        return {}

    def method_identity(self) -> dict[str, Any]:
        return {"words": VERSION}

    def shards(self) -> list[int]:
        return [record.shard for record in next(iter(self.texts.values())).completed().shards]

    def total_rows(self) -> int:
        return sum(artifact.completed().rows[artifact.table] for artifact in self.texts.values())

    def work(self, shard: int, progress: Progress) -> ShardResult:
        rows_in, tables = 0, []
        notes: dict[str, int] = {}
        for unit, artifact in self.texts.items():
            units = words(read_texts(artifact.path(shard)))
            documents = Counter(term for each in units for term in set(each))
            occurrences = Counter(term for each in units for term in each)
            tables.append(_table(unit, documents, occurrences))
            notes |= {f"{unit}_units": len(units), f"{unit}_words": occurrences.total()}
            rows_in += len(units)
            progress(len(units), 0)
        return ShardResult(rows_in, {"terms": pa.concat_tables(tables)}, notes=notes)


def read_texts(path: Path) -> list[str]:
    """The texts of a shard of sentences or passages."""
    return pq.read_table(path, columns=["text"])["text"].to_pylist()


def _table(unit: Unit, documents: Counter[str], occurrences: Counter[str]) -> pa.Table:
    terms = sorted(documents)
    columns: list[Any] = [
        [unit] * len(terms),
        terms,
        [documents[term] for term in terms],
        [occurrences[term] for term in terms],
    ]
    fields = zip(columns, schemas.TERMS, strict=True)
    return pa.table([pa.array(column, field.type) for column, field in fields], schema=schemas.TERMS)
