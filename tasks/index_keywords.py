"""index_keywords: the units' texts → `terms` and BM25 shards.

`terms` counts the words of every unit, shard by shard: BM25 needs these counts of the whole corpus for its scores.
`bm25` then builds one index shard per units shard, and all together give the scores of a single index. With
encode.text=titled a unit has the words of its passage's title, as its vector does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from vitalfew.configs.schema import BM25Config, Stemmer, Unit
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.indexes import bm25_shards
from vitalfew.storage.indexes.bm25_shards import CorpusStatistics, Words
from vitalfew.tasks.encoders import titles
from vitalfew.tasks.retrievers.keywords import VERSION, numbered
from vitalfew.tasks.stage import Progress, ShardResult, Stage


@dataclass(frozen=True)
class Texts:
    """The texts of an index: the table of every unit, and the passages whose titles come before them, if any do."""

    tables: Mapping[Unit, Artifact]
    titled: Artifact | None
    stemmer: Stemmer

    def inputs(self) -> dict[str, Artifact]:
        return {artifact.table: artifact for artifact in (*self.tables.values(), self.titled) if artifact}

    def identity(self) -> dict[str, Any]:
        return {"words": VERSION, "stemmer": self.stemmer} | ({"titled": titles.identity()} if self.titled else {})

    def words(self, unit: Unit, shard: int) -> Words:
        """The words of a shard's units, in order."""
        table = self.tables[unit].read(shard, columns=["passage_id", "text"])
        texts = table["text"].to_pylist()
        if self.titled is None:
            return numbered(texts, self.stemmer)
        passages = self.titled.read(shard, columns=["passage_id", "title"])
        leads = [titles.lead(title) for title in passages["title"].to_pylist()]
        places = np.searchsorted(passages["passage_id"].to_numpy(), table["passage_id"].to_numpy())
        pairs = (part for place, text in zip(places, texts, strict=True) for part in (leads[place], text))
        found = numbered(pairs, self.stemmer)
        return found._replace(lengths=found.lengths.reshape(-1, 2).sum(1))


class Terms(Stage):
    """Stage `terms`. Notes: the numbers of units and words of every kind."""

    name: ClassVar[str] = "terms"
    table: ClassVar[str] = "terms"
    section: ClassVar[str] = "bm25"

    def __init__(self, store: Path, texts: Texts, config: BM25Config) -> None:
        self.texts = texts
        super().__init__(store, texts.inputs(), config)

    def config_identity(self) -> dict[str, Any]:
        return {}

    def method_identity(self) -> dict[str, Any]:
        return self.texts.identity()

    def shards(self) -> list[int]:
        return [record.shard for record in next(iter(self.texts.tables.values())).completed().shards]

    def total_rows(self) -> int:
        return sum(artifact.completed().rows[artifact.table] for artifact in self.texts.tables.values())

    def work(self, shard: int, progress: Progress) -> ShardResult:
        rows_in, tables = 0, []
        notes: dict[str, int] = {}
        for unit in self.texts.tables:
            units = self.texts.words(unit, shard)
            tables.append(_table(unit, units))
            notes |= {f"{unit}_units": len(units.lengths), f"{unit}_words": len(units.numbers)}
            rows_in += len(units.lengths)
            progress(len(units.lengths), 0)
        return ShardResult(rows_in, {"terms": pa.concat_tables(tables)}, notes=notes)


def _table(unit: Unit, units: Words) -> pa.Table:
    """The rows of `terms` of a unit, by term."""
    order = sorted(range(len(units.distinct)), key=units.distinct.__getitem__)
    counts = {"documents": units.counts()[0], "occurrences": units.numbers}
    columns = {name: np.bincount(column, minlength=len(order))[order] for name, column in counts.items()}
    terms = [units.distinct[place] for place in order]
    return pa.table({"unit": [unit] * len(terms), "term": terms, **columns}, schema=schemas.TERMS)


class IndexKeywords(Stage):
    """Stage `bm25`. Its files are `<shard>.<unit>.<array>.npy`; its shards are those of the units' table."""

    name: ClassVar[str] = "bm25"
    table: ClassVar[str] = "bm25"
    over: ClassVar[str] = "terms"
    section: ClassVar[str] = "bm25"
    config: BM25Config

    def __init__(self, store: Path, texts: Texts, terms: Artifact, config: BM25Config) -> None:
        self.texts, self.terms = texts, terms
        super().__init__(store, {**texts.inputs(), "terms": terms}, config)

    def config_identity(self) -> dict[str, Any]:
        return {"k1": self.config.k1, "b": self.config.b, "stemmer": self.config.stemmer}

    def method_identity(self) -> dict[str, Any]:
        return {"scores": bm25_shards.VERSION, **self.texts.identity()}

    def total_rows(self) -> int:
        return self.terms.completed().rows_in

    def vocabulary(self, unit: Unit) -> Path:
        return self.artifact.file(f"{unit}.vocabulary.parquet")

    def prepared(self) -> list[Path]:
        return [self.vocabulary(unit) for unit in self.texts.tables]

    def prepare(self, progress: Progress) -> None:
        counts = [file.checked(self.store) for file in self.terms.completed().files() if file.table == "terms"]
        for unit in self.texts.tables:
            bm25_shards.merge_terms(counts, unit, self.vocabulary(unit))

    def work(self, shard: int, progress: Progress) -> ShardResult:
        rows_in, written = 0, []
        counts = self.terms.completed()
        for unit in self.texts.tables:
            units = self.texts.words(unit, shard)
            sizes = counts.note(f"{unit}_units"), counts.note(f"{unit}_words")
            corpus = CorpusStatistics(*sizes, self.config.k1, self.config.b)
            vocabulary = self.artifact.prepared_file(self.vocabulary(unit))
            documents = bm25_shards.term_documents(vocabulary, units.distinct)
            paths = bm25_shards.build(bm25_shards.new_stem(self.artifact, shard, unit), corpus, units, documents)
            # The arrays form one index, so only the first counts its rows.
            rows = len(units.lengths)
            written += [self.artifact.describe(path, self.table, rows * (path == paths[0])) for path in paths]
            rows_in += rows
            progress(rows, 0)
        return ShardResult(rows_in, files=written)
