"""BM25 shards: a shard has the scores of one shard of a table, which are those of the whole corpus.

BM25 needs three figures of the corpus: its number of units, their mean length, and of every term the number of units it
is in. The score of a term in a unit is computed when the shard is built, and a search adds up (Lù, BM25S, 2024,
arXiv 2407.03618):

    ln(1 + (N - n + ½) / (n + ½)) · tf / (k1 (1 - b + b · length / mean length) + tf)

n of N units have the term (Kamphuis et al., Which BM25 Do You Mean?, ECIR 2020: "Lucene (accurate)"). It is rounded to
a multiple of STEP, so that sums are exact in float32: equal units have equal scores, in whatever shard they are and in
whatever order the question has its words. Equal scores are in the order of the units' ids.

A shard is four arrays, memory-mapped: a sparse matrix, terms by units (`data`, `indices`, `indptr`), and `terms`, the
sorted ids of its terms, whose places are the matrix's columns.

The corpus's terms, and in how many of its units they stand, are merged from the shards' `terms` in bounded memory.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vitalfew.configs.schema import Unit
from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.catalog.views import quoted
from vitalfew.storage.ids import content_id
from vitalfew.storage.indexes import NOTHING, Rows, TopK, Vectors, search_shards

ARRAYS = ("data", "indices", "indptr", "terms")
VERSION = "2"  # since 2, scores are multiples of STEP
STEP = 2.0**-16
"""Multiples of this are exact in float32 up to 256. A term that is there has one at the least."""


class Words(NamedTuple):
    """The words of some units. `distinct`: every word once; `numbers`, int64: of all units' words in order, their
    places in `distinct`; `lengths`, int64: the number of words of every unit."""

    distinct: list[str]
    numbers: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Every word of every unit once, by word and then unit: the word, the unit, and how often it is there."""
        places = self.numbers * len(self.lengths) + np.repeat(np.arange(len(self.lengths)), self.lengths)
        found, counts = np.unique(places, return_counts=True)
        return *np.divmod(found, max(1, len(self.lengths))), counts


@dataclass(frozen=True)
class CorpusStatistics:
    """The figures of the whole corpus: the number of units and of their words, and BM25's two parameters."""

    units: int
    words: int
    k1: float
    b: float


def stem(artifact: Artifact, shard: int, unit: Unit) -> Path:
    """The path of a shard's files without their endings."""
    return artifact.path(shard, suffix=f"{unit}.{ARRAYS[0]}.npy").with_suffix("").with_suffix("")


def new_stem(artifact: Artifact, shard: int, unit: Unit) -> Path:
    """As `stem`, for files that are being written."""
    return artifact.new_path(shard, suffix=unit)


def build(stem: Path, corpus: CorpusStatistics, units: Words, documents: NDArray[np.int64]) -> list[Path]:
    """Write the shard of these units; `documents`: of every distinct word, the units of the corpus that have it."""
    identifiers = np.array([*map(_word_id, units.distinct)], np.int64)
    terms, columns = np.unique(identifiers, return_inverse=True)
    if len(terms) != len(identifiers):
        raise ValueError(f"{stem.name}: two words have the same id; index with bm25.enabled=false, and report it")
    by_term = units._replace(numbers=columns[units.numbers])
    arrays = _scored(corpus, by_term, documents[np.argsort(identifiers)]) | {"terms": terms}
    for name in ARRAYS:
        files.write_array(array_path(stem, name), arrays[name])
    return [array_path(stem, name) for name in ARRAYS]


_word_id = lru_cache(1 << 18)(content_id)
"""Most words are in many shards. About 40 MB."""


def _scored(corpus: CorpusStatistics, units: Words, documents: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    columns, rows, counts = units.counts()
    sizes, of_size = np.unique(documents, return_inverse=True)
    rarity = np.array([idf(size, corpus.units) for size in sizes.tolist()])[of_size]
    relative = units.lengths[rows] * corpus.units / max(1, corpus.words)
    scores = rarity[columns] * counts / (corpus.k1 * (1 - corpus.b + corpus.b * relative) + counts)
    rounded = np.maximum(np.round(scores / STEP), 1) * STEP
    starts = np.searchsorted(columns, np.arange(len(documents) + 1))
    return {"data": rounded.astype(np.float32), "indices": rows.astype(np.int32), "indptr": starts}


def idf(documents: int, units: int) -> float:
    return math.log(1 + (units - documents + 0.5) / (documents + 0.5))


def array_path(stem: Path, name: str) -> Path:
    return stem.with_name(f"{stem.name}.{name}.npy")


@dataclass(frozen=True)
class Bm25Shard:
    """One shard, opened at its first use; `units` of the table are in it. It holds no file open.

    `checksums`: of its arrays, by name, which they are compared with when they are opened; empty for a shard that this
    process has just written.
    """

    stem: Path
    units: int
    checksums: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def matrix(self) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int64]]:
        """Scores and rows, term by term, and the first place of every term."""
        return self._array("data"), self._array("indices"), self._array("indptr")

    @cached_property
    def terms(self) -> NDArray[np.int64]:
        return self._array("terms")

    def documents(self, terms: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of units that have a term, for all of these terms, given by their ids."""
        places = np.searchsorted(self.terms, terms)
        here = places < len(self.terms)
        here[here] = self.terms[places[here]] == terms[here]
        counts = np.zeros(len(terms), np.int64)
        starts = self.matrix[2]
        counts[here] = starts[places[here] + 1] - starts[places[here]]
        return counts

    def _array(self, name: str) -> NDArray[Any]:
        """Raises Damaged."""
        path = array_path(self.stem, name)
        return files.map_array(files.checked(path, self.checksums[name]) if self.checksums else path)

    def search(
        self, words: NDArray[np.int64], k: int, mask: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Scores and rows of the k best units that have any of the words (by id), best first, then by row. `mask`,
        (units,): true for the units to search."""
        places = np.searchsorted(self.terms, words)
        words, places = words[places < len(self.terms)], places[places < len(self.terms)]
        known = places[self.terms[places] == words]
        if not len(known):
            return np.empty(0, np.float32), np.empty(0, np.int64)
        data, indices, starts = self.matrix
        terms = [*map(slice, starts[known].tolist(), starts[known + 1].tolist())]
        found, own = (np.concatenate([column[term] for term in terms]) for column in (indices, data))
        scores = np.bincount(found, own, self.units).astype(np.float32)  # sums of whole STEPs are exact
        rows = np.flatnonzero(scores > 0 if mask is None else (scores > 0) & mask)
        if len(rows) > k:
            least = np.partition(scores[rows], len(rows) - k)[len(rows) - k]
            rows = rows[scores[rows] >= least]
        rows = rows[np.argsort(-scores[rows], kind="stable")][:k]
        return scores[rows], rows


def search(
    shards: Sequence[Bm25Shard],
    questions: Sequence[Sequence[str]],
    k: int,
    masked: Callable[[int], NDArray[np.bool_]] | None = None,
) -> TopK:
    """The k best units for every question, given as its words, over all shards; their ids are −1, for not known.
    `masked`: by a shard's number, true for the units to search."""
    asked = [np.array([content_id(word) for word in words], np.int64) for words in questions]

    def of_shard(number: int, scores: Vectors, rows: Rows) -> None:
        mask = masked(number) if masked else None
        scores[:], rows[:] = -np.inf, NOTHING
        for line, words in enumerate(asked):
            best, places = shards[number].search(words, k, mask)
            scores[line, : len(places)], rows[line, : len(places)] = best, places

    return search_shards(len(shards), len(asked), k, of_shard)


MEMORY = "512MB"


def merge_terms(paths: Sequence[Path], unit: str, vocabulary: Path) -> None:
    """Write one unit's `term, documents`, by term, over all shards; what does not fit into memory is spilled."""
    sources = ", ".join(quoted(str(files.local(path))) for path in paths)
    rows = f"SELECT term, sum(documents)::BIGINT AS documents FROM read_parquet([{sources}]) WHERE unit = '{unit}'"

    def write(temporary: Path) -> None:
        # On one thread the same rows give the same bytes.
        spill = str(temporary.parent / "spill")
        with duckdb.connect(config={"memory_limit": MEMORY, "threads": 1, "temp_directory": spill}) as connection:
            target = f"{quoted(str(temporary))} (FORMAT parquet, COMPRESSION zstd)"
            connection.execute(f"COPY ({rows} GROUP BY term ORDER BY term) TO {target}")

    files.write_atomically(vocabulary, write)


def term_documents(vocabulary: Path, terms: Sequence[str]) -> NDArray[np.int64]:
    """The number of the corpus's units that contain a term, for all of these terms."""
    documents, wanted = np.zeros(len(terms), np.int64), pa.array(terms, pa.string())
    for batch in files.OpenTable(vocabulary).iter_batches():
        places = pc.index_in(batch["term"], wanted)
        documents[places.drop_null().to_numpy()] = batch["documents"].filter(places.is_valid()).to_numpy()
    return documents
