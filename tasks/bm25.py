"""bm25: units and the corpus's `terms` → BM25 shards, which together score as one index of everything does."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from configs.schema import BM25Config, Unit
from storage import bm25_shards, vocabulary
from storage.artifacts import Artifact, File, Manifest
from storage.bm25_shards import Corpus
from tasks.retrievers.words import VERSION, words
from tasks.stage import Progress, ShardResult, Stage
from tasks.terms import read_texts


class BM25(Stage):
    """Stage `bm25`. Its files are `<shard>.<unit>.<array>.npy`; a shard is one of the units' table."""

    name: ClassVar[str] = "bm25"
    table: ClassVar[str] = "bm25"
    config: BM25Config

    def __init__(self, store: Path, texts: Mapping[Unit, Artifact], terms: Artifact, config: BM25Config) -> None:
        self.texts, self.terms = dict(texts), terms
        super().__init__(store, {**{each.table: each for each in texts.values()}, "terms": terms}, config)

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
        return self.artifact.directory / f"{unit}.vocabulary.parquet"

    def is_prepared(self) -> bool:
        return super().is_prepared() and all(self.vocabulary(unit).exists() for unit in self.texts)

    def prepare(self, progress: Progress) -> None:
        for unit in self.texts:
            vocabulary.merge([self.terms.path(shard) for shard in self.shards()], unit, self.vocabulary(unit))

    def work(self, shard: int, progress: Progress) -> ShardResult:
        rows_in, files = 0, []
        for unit, artifact in self.texts.items():
            units = words(read_texts(artifact.path(shard)))
            files += self._build(shard, unit, units)
            rows_in += len(units)
            progress(len(units), 0)
        return ShardResult(rows_in, files=files)

    def _build(self, shard: int, unit: Unit, units: list[list[str]]) -> list[File]:
        counts = self._counts()
        corpus = Corpus(counts.note(f"{unit}_units"), counts.note(f"{unit}_words"), self.config.k1, self.config.b)
        documents = vocabulary.documents(self.vocabulary(unit), {word for each in units for word in each})
        paths = bm25_shards.build(stem(self.artifact, shard, unit), corpus, units, documents)
        # The arrays are one index: its rows are counted once.
        return [self.artifact.describe(path, self.table, len(units) * (path == paths[0])) for path in paths]


def stem(artifact: Artifact, shard: int, unit: Unit) -> Path:
    """What the names of a shard's files begin with."""
    return artifact.directory / f"{shard:05d}.{unit}"
