"""Where the units of an index lie: from table shard and row to text, passage and vectors."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from vitalfew.configs.schema import ContextMode, Unit
from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.ids import shard_of
from vitalfew.storage.indexes import Vectors
from vitalfew.storage.schemas import VECTOR_KINDS

CACHED_BYTES = 64 << 20
"""Row groups of texts that an open index keeps, in bytes."""
OPEN_FILES = 32
"""Parquet files that are held open by a process."""
CACHED_COLUMNS = 64
_READING = RLock()
"""Open files, and the caches of row groups, are used by one thread at a time: a server has several."""


class TableShard(NamedTuple):
    """A shard of a table, and its recorded checksum."""

    path: Path
    checksum: str


@dataclass(frozen=True)
class Outline:
    """A shard of `sentences` without its texts, as numbers: the first row of every passage and its number of rows,
    int64 (passages,), and every sentence's length, int32 (sentences,), in words and punctuation marks."""

    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    lengths: NDArray[np.int32]

    @classmethod
    def read(cls, path: Path) -> "Outline":
        table = files.read_table(path, columns=["position", "tokens"])
        starts = np.flatnonzero(numbers_of(table["position"]) == 0)
        return cls(starts, np.diff([*starts, table.num_rows]), numbers_of(table["tokens"]))

    @cached_property
    def has_context(self) -> NDArray[np.bool_]:
        """True for a sentence whose passage has another sentence, (sentences,): only such a sentence has a context."""
        return np.repeat(self.sizes > 1, self.sizes)

    def passage(self, row: int) -> int:
        """The number of the passage that a sentence is in."""
        return int(np.searchsorted(self.starts, row, side="right")) - 1

    def siblings(self, row: int) -> NDArray[np.int64]:
        """The rows of all sentences of the passage that a sentence is in."""
        passage = self.passage(row)
        return self.starts[passage] + np.arange(self.sizes[passage])


@dataclass(frozen=True)
class SentencesAt:
    """Sentences, as they were asked for: ids int64 (n,), core vectors and their passages' vectors, float32 (n, d; zero
    without passage vectors), texts and, where units are encoded with them, their passages' titles, else empty ones."""

    ids: NDArray[np.int64]
    core: Vectors
    passage: Vectors
    texts: Sequence[str]
    titles: Sequence[str]


@dataclass(frozen=True)
class ShardVectors:
    """A shard of `vectors`, by kind, in the order of its units. Arrays float32 (·, d)."""

    core: Vectors
    context: Vectors
    passage: Vectors

    @classmethod
    def read(cls, path: Path) -> "ShardVectors":
        table = files.read_table(path, mapped=True)
        vectors = table["vector"].combine_chunks()
        matrix = vectors.flatten().to_numpy().reshape(len(vectors), vectors.type.list_size)
        counts = [pc.sum(pc.equal(table["kind"], kind)).as_py() or 0 for kind in VECTOR_KINDS]
        core, context, passage = np.split(matrix, np.cumsum(counts)[:2])
        return cls(core, context, passage)

    def contexts(self, sentences: Path, mode: str) -> Vectors:
        """As `of_sentences`, of all sentences of a table shard."""
        return self.of_sentences(Outline.read(sentences), mode)

    def of_sentences(self, outline: Outline, mode: str) -> Vectors:
        """The context vector of every sentence, float32 (sentences, d); the core vector of one without a context."""
        has_context = outline.has_context
        if mode == "exact":
            contexts = self.core.copy()
            contexts[has_context] = self.context
            return contexts
        of_passages = pooled(self.core, outline.lengths, outline.starts) if mode == "pooled" else self.passage
        contexts = np.repeat(of_passages, outline.sizes, axis=0)
        contexts[~has_context] = self.core[~has_context]
        return contexts


def pooled(core: Vectors, lengths: np.ndarray, starts: np.ndarray) -> Vectors:
    """The context of mode `pooled`, float32 (passages, d): the mean of a passage's core vectors, weighted by their
    lengths in words and punctuation marks (at least one), whatever the encoder's tokens are. `starts`: the passages'
    first rows."""
    weights = np.maximum(lengths, 1).astype(np.float32)[:, None]
    sums = np.add.reduceat(core * weights, starts, axis=0)
    return sums / np.add.reduceat(weights, starts, axis=0)


def table_of(unit: Unit) -> str:
    return "sentences" if unit == "sentence" else "passages"


class Units:
    """The tables of an index, read row group by row group as rows are asked for. `context`: where it has sentences.

    The latest row groups are kept, up to CACHED_BYTES: a server's questions have their hits all over the same few
    files. Vectors are not kept, because they are large and few of a group are needed.
    """

    def __init__(self, artifacts: Mapping[str, Artifact], context: ContextMode | None = None) -> None:
        self.artifacts, self.context = artifacts, context
        self._kept: OrderedDict[tuple[TableShard, int, tuple[str, ...]], pa.Table] = OrderedDict()
        self._bytes = 0
        self._checksums: dict[str, dict[str, str]] = {}
        self._places: dict[tuple[str, int], TableShard] = {}

    def row(self, unit: Unit, shard: int, row: int) -> dict[str, Any]:
        """The row of `sentences` (or `passages`)."""
        return self.take(table_of(unit), np.array([shard]), np.array([row])).to_pylist()[0]

    def passage(self, shard: int, passage_id: int) -> dict[str, Any]:
        """The row of `passages`: shards of passages and sentences go together, and passages are sorted by id."""
        return self.row("passage", shard, self.place(shard, passage_id))

    def find_passage(self, shard: int, passage_id: int) -> dict[str, Any] | None:
        """As `passage`; None where the shard, in which it would be, lacks it."""
        row, ids = self.place(shard, passage_id), self.ids("passage", shard)
        return self.row("passage", shard, row) if row < len(ids) and ids[row] == passage_id else None

    def similarities(
        self, unit: Unit, places: Sequence[tuple[int, int]], question: Vectors
    ) -> list[tuple[float, float | None]]:
        """Core and context similarity of units, by table shard and row, to a question, float32 (d,); a passage, and a
        sentence that is its passage's only one, have no context."""
        if not places:
            return []
        needed = {(shard, row): self._vector_rows(unit, shard, row) for shard, row in {*places}}
        wanted = sorted({(shard, int(row)) for (shard, _), rows in needed.items() for row in np.concatenate(rows)})
        vectors = dict(zip(wanted, self._vectors(*np.array(wanted, np.int64).reshape(-1, 2).T), strict=True))

        def similarity(shard: int, row: int) -> tuple[float, float | None]:
            core, context = ([vectors[shard, int(row)] for row in rows] for rows in needed[shard, row])
            if not context:
                return float(core[0] @ question), None
            if self.context == "pooled":
                outline = self.outline(shard)
                context = [*pooled(np.array(context), outline.lengths[outline.siblings(row)], np.array([0]))]
            return float(core[0] @ question), float(context[0] @ question)

        return [similarity(*place) for place in places]

    def _vector_rows(self, unit: Unit, shard: int, row: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The row of a unit's vector in its shard of `vectors`, and the rows that its context comes from, none without
        one, as `ShardVectors.contexts` gives it to the index."""
        end = _starts(self._place("vectors", shard))[-1]
        nothing = np.empty(0, np.int64)
        if unit == "passage":
            return np.array([end - len(self.ids("passage", shard)) + row]), nothing
        outline = self.outline(shard)
        if not outline.has_context[row]:
            return np.array([row]), nothing
        if self.context == "pooled":
            return np.array([row]), outline.siblings(row)
        if self.context == "exact":
            context = len(outline.lengths) + int(np.count_nonzero(outline.has_context[:row]))
        else:
            context = int(end) - len(outline.starts) + outline.passage(row)
        return np.array([row]), np.array([context])

    def take(self, table: str, shards: np.ndarray, rows: np.ndarray, columns: Sequence[str] = ()) -> pa.Table:
        """Rows of a table of the index, by table shard and row, in the order asked for, with these columns, by default
        all; a row group is read once."""
        order = np.lexsort((rows, shards))
        parts = []
        for shard in np.unique(shards):
            place = self._place(table, int(shard))
            wanted = np.sort(rows[shards == shard])
            groups = np.searchsorted(_starts(place), wanted, side="right") - 1
            for group in np.unique(groups):
                content = self._group(place, int(group), columns)
                parts.append(content.take(_rows_of(wanted[groups == group] - _starts(place)[group])))
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return pa.concat_tables(parts).take(_rows_of(places)) if parts else pa.table({name: [] for name in columns})

    def _group(self, place: TableShard, group: int, columns: Sequence[str]) -> pa.Table:
        """A row group. Raises Damaged."""
        with _READING:
            if "vector" in columns:
                return _parquet(place).read_row_group(group, columns=[*columns])
            key = (place, group, tuple(columns))
            if key in self._kept:
                self._kept.move_to_end(key)  # the least recently used one is the first
                return self._kept[key]
            content = self._kept[key] = _parquet(place).read_row_group(group, columns=[*columns] or None)
            self._bytes += content.nbytes
            while self._bytes > CACHED_BYTES and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return content

    def vectors(self, unit: Unit, shards: np.ndarray, ids: np.ndarray) -> Vectors:
        """The vectors of units by their ids, float32 (n, d), as encoded by themselves: core vectors of sentences."""
        places = np.zeros(len(ids), np.int64)
        for shard in np.unique(shards):
            here = shards == shard
            known = self.ids(unit, int(shard))
            order = np.argsort(known)
            places[here] = order[np.searchsorted(known, ids[here], sorter=order)]
            if unit == "passage":  # after the sentences' vectors
                places[here] += _starts(self._place("vectors", int(shard)))[-1] - len(known)
        return self._vectors(shards, places)

    def _vectors(self, shards: np.ndarray, rows: np.ndarray) -> Vectors:
        """Vectors by table shard and row, float32 (n, d)."""
        column = self.take("vectors", shards, rows, ["vector"])["vector"].combine_chunks()
        numbers: Any = np.from_dlpack(column.flatten())
        return numbers.reshape(len(rows), -1)

    def sentences(self, shards: np.ndarray, passages: np.ndarray) -> dict[int, list[tuple[int, int]]]:
        """The spans (start, end) of passages' sentences, in order, by the passages' ids; rewritten: start = end."""
        rows, of_shards = [], []
        for shard, passage in {*zip(shards.tolist(), passages.tolist(), strict=True)}:
            outline, number = self.outline(shard), self.place(shard, passage)
            rows.append(outline.starts[number] + np.arange(outline.sizes[number]))
            of_shards.append(np.full(len(rows[-1]), shard))
        if not rows:
            return {}
        columns = ["passage_id", "start", "end"]
        found = self.take("sentences", np.concatenate(of_shards), np.concatenate(rows), columns)
        spans: dict[int, list[tuple[int, int]]] = {}
        for passage, start, end in zip(*(found[name].to_pylist() for name in columns), strict=True):
            spans.setdefault(passage, []).append((start, end))
        return spans

    def outline(self, shard: int) -> Outline:
        """A shard of `sentences` as numbers."""
        return _outline(self._place("sentences", shard))

    def place(self, shard: int, passage_id: int) -> int:
        """The row of a passage in its table shard."""
        return int(np.searchsorted(self.ids("passage", shard), passage_id))

    def ids(self, unit: Unit, shard: int) -> np.ndarray:
        """The ids of a table shard's units, int64, in order."""
        return _ids(self._place(table_of(unit), shard), f"{unit}_id")

    def _place(self, table: str, shard: int) -> TableShard:
        if (table, shard) not in self._places:
            path = self.artifacts[table].path(shard)
            self._places[table, shard] = TableShard(path, self.checksum(table, path))
        return self._places[table, shard]

    def checksum(self, role: str, path: Path) -> str:
        """The recorded checksum of a file of an artifact."""
        artifact = self.artifacts[role]
        if role not in self._checksums:
            self._checksums[role] = {file.path: file.checksum for file in artifact.completed().files()}
        return self._checksums[role][str(path.relative_to(artifact.store))]


class Passages:
    """The rows of `passages`, by id."""

    def __init__(self, load: Artifact) -> None:
        self.units, self.shards = Units({"passages": load}), len(load.completed().shards)

    def row(self, passage_id: int) -> dict[str, Any]:
        """Raises KeyError where the corpus lacks the passage."""
        if (row := self.find(passage_id)) is None:
            raise KeyError(f"there is no passage {passage_id} in this index")
        return row

    def title(self, passage_id: int) -> str:
        """'' where the corpus lacks the passage, as it may lack gold ones."""
        row = self.find(passage_id)
        return str(row["title"]) if row else ""

    def find(self, passage_id: int) -> dict[str, Any] | None:
        shard = int(shard_of(np.array(passage_id, np.int64), self.shards))
        return self.units.find_passage(shard, passage_id)


@lru_cache(OPEN_FILES)
def _parquet(place: TableShard) -> pq.ParquetFile:
    """Raises Damaged."""
    return files.OpenTable(files.checked(*place))


@lru_cache(CACHED_COLUMNS)
def _starts(place: TableShard) -> NDArray[np.int64]:
    """The first row of every row group, and after them the number of rows."""
    metadata = _parquet(place).metadata
    return np.cumsum([0, *(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))])


@lru_cache(CACHED_COLUMNS)
def _ids(place: TableShard, column: str) -> np.ndarray:
    return numbers_of(files.read_table(files.checked(*place), columns=[column])[column])


def _rows_of(rows: NDArray[np.int64]) -> pa.Array:
    """Rows for Arrow's `take`. Not by `pa.array`, which imports pandas, slowly, where it is installed."""
    return pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows, np.int64))])


def numbers_of(column: pa.ChunkedArray) -> np.ndarray:
    """A column without nulls. Not by `to_numpy`, which imports pandas, slowly, where it is installed."""
    parts = [np.from_dlpack(chunk) for chunk in column.chunks if len(chunk)]
    if not parts:
        return column.to_numpy()
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@lru_cache(CACHED_COLUMNS)
def _outline(sentences: TableShard) -> Outline:
    return Outline.read(files.checked(*sentences))
