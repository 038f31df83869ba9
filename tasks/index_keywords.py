"""index_keywords: the units' texts → `terms` and BM25 shards.

`terms` counts the words of every unit, shard by shard: BM25 needs these counts of the whole corpus for its scores.
`bm25` then builds one index shard per units shard, and all together give the scores of a single index.
"""

from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from configs.schema import BM25Config, Unit
from storage import files, schemas
from storage.artifacts import Artifact, File, Manifest
from storage.indexes import bm25_shards, vocabulary
from storage.indexes.bm25_shards import Corpus
from tasks.retrievers.words import VERSION, words
from tasks.stage import Progress, ShardResult, Stage


class Terms(Stage):
    """Stage `terms`. `texts`: the table of a unit, by unit. Notes: the numbers of units and words of every kind."""

    name: ClassVar[str] = "terms"
    table: ClassVar[str] = "terms"
    section: ClassVar[str] = "bm25"

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
            documents = Counter(term for terms in units for term in set(terms))
            occurrences = Counter(term for terms in units for term in terms)
            tables.append(_table(unit, documents, occurrences))
            notes |= {f"{unit}_units": len(units), f"{unit}_words": occurrences.total()}
            rows_in += len(units)
            progress(len(units), 0)
        return ShardResult(rows_in, {"terms": pa.concat_tables(tables)}, notes=notes)


def read_texts(path: Path) -> list[str]:
    """The texts of a shard of sentences or passages."""
    return files.read_table(path, columns=["text"])["text"].to_pylist()


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


class BM25(Stage):
    """Stage `bm25`. Its files are `<shard>.<unit>.<array>.npy`; its shards are those of the units' table."""

    name: ClassVar[str] = "bm25"
    table: ClassVar[str] = "bm25"
    section: ClassVar[str] = "bm25"
    config: BM25Config

    def __init__(self, store: Path, texts: Mapping[Unit, Artifact], terms: Artifact, config: BM25Config) -> None:
        self.texts, self.terms = dict(texts), terms
        super().__init__(store, {**{units.table: units for units in texts.values()}, "terms": terms}, config)

    def config_identity(self) -> dict[str, Any]:
        return {"k1": self.config.k1, "b": self.config.b}

    def method_identity(self) -> dict[str, Any]:
        return {"bm25s": version("bm25s"), "method": bm25_shards.METHOD, "words": VERSION}

    def _counts(self) -> Manifest:
        return self.terms.completed()

    def shards(self) -> list[int]:
        return [record.shard for record in self._counts().shards]

    def total_rows(self) -> int:
        return self._counts().rows_in

    def vocabulary(self, unit: Unit) -> Path:
        return self.artifact.file(f"{unit}.vocabulary.parquet")

    def prepared(self) -> list[Path]:
        return [self.vocabulary(unit) for unit in self.texts]

    def prepare(self, progress: Progress) -> None:
        counts = [file.checked(self.store) for file in self._counts().files() if file.table == "terms"]
        for unit in self.texts:
            vocabulary.merge(counts, unit, self.vocabulary(unit))

    def work(self, shard: int, progress: Progress) -> ShardResult:
        rows_in, written = 0, []
        for unit, artifact in self.texts.items():
            units = words(read_texts(artifact.path(shard)))
            written += self._build(shard, unit, units)
            rows_in += len(units)
            progress(len(units), 0)
        return ShardResult(rows_in, files=written)

    def _build(self, shard: int, unit: Unit, units: list[list[str]]) -> list[File]:
        counts = self._counts()
        corpus = Corpus(counts.note(f"{unit}_units"), counts.note(f"{unit}_words"), self.config.k1, self.config.b)
        documents = vocabulary.documents(
            self.prepared_file(self.vocabulary(unit)), {word for text in units for word in text}
        )
        paths = bm25_shards.build(bm25_shards.stem(self.artifact, shard, unit), corpus, units, documents)
        # The arrays form one index, so only the first counts its rows.
        return [self.artifact.describe(path, self.table, len(units) * (path == paths[0])) for path in paths]
