"""An index opened for searching: its shards are mapped and its rows read as a search needs them."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from functools import cached_property, lru_cache

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalfew.configs.schema import BM25Config, EncodeConfig, IndexConfig, Layout, Stemmer, Unit
from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.catalog.database import changing
from vitalfew.storage.ids import content_id
from vitalfew.storage.indexes import NOTHING, Rows, TopK, Vectors, bm25_shards, faiss_shards
from vitalfew.storage.indexes.bm25_shards import array_path
from vitalfew.storage.indexes.faiss_shards import Bits
from vitalfew.storage.indexes.units import Outline, SentencesAt, Units, numbers_of, table_of
from vitalfew.storage.manifests import Manifest, ShardRecord

Mask = NDArray[np.bool_]
_ROW = "vitalfew_row"
_TEXT = re.compile(r"\btext\b", re.IGNORECASE)


class IndexMismatch(ValueError):
    """The index cannot answer this request: the message says what it holds and how to build what is missing."""


class OpenedIndex:
    """The artifacts of an index, by role (passages, sentences, vectors, faiss, bm25). `name`: for messages."""

    def __init__(self, name: str, artifacts: Mapping[str, Artifact]) -> None:
        """Raises IndexMismatch where an artifact is not what it was."""
        self.name, self.artifacts = name, dict(artifacts)
        self.manifests = {role: self._complete(artifact) for role, artifact in self.artifacts.items()}
        self.encoding = EncodeConfig.model_validate(self.manifests["vectors"].config)
        faiss = self.manifests.get("faiss")
        self.config = IndexConfig.model_validate(faiss.config) if faiss else IndexConfig()
        self.units = Units(self.artifacts, self.encoding.context)
        self.selection: Selection | None = None
        self._views: dict[str, OpenedIndex] = {}

    def _complete(self, artifact: Artifact) -> Manifest:
        manifest = artifact.recorded_manifest()
        damage = artifact.damage(manifest) if manifest else f"{artifact.name} is missing or not complete"
        if manifest is None or damage:
            raise IndexMismatch(
                f"index {self.name!r}: {damage} (store {artifact.store}); "
                "run the same `vitalfew index` again; it rebuilds only what is missing or damaged"
            )
        return manifest

    @cached_property
    def faiss(self) -> dict[Unit, list[faiss_shards.FaissShard]]:
        """The FAISS shards of every unit, in order."""

        def opened(unit: Unit, shard: int) -> faiss_shards.FaissShard:
            path = self.artifacts["faiss"].path(shard, suffix=f"{unit}.faiss")
            return faiss_shards.FaissShard(path, self.units.checksum("faiss", path))

        records = self.manifests["faiss"].shards
        return {unit: [opened(unit, record.shard) for record in records] for unit in self.encoding.units}

    @cached_property
    def efforts(self) -> dict[Unit, int]:
        """The nprobe or efSearch that was chosen for every unit's index when it was built."""
        path = self.artifacts["faiss"].path(0, "index_quality")
        quality = files.read_table(files.checked(path, self.units.checksum("faiss", path)))
        return {row["unit"]: row["effort"] for row in quality.to_pylist() if row["chosen"]}

    @cached_property
    def bm25(self) -> dict[Unit, list[bm25_shards.Bm25Shard]]:
        """The BM25 shards of every unit, which are those of its table. Raises IndexMismatch where there are none."""
        if "bm25" not in self.artifacts:
            raise IndexMismatch(
                f"index {self.name!r} has no BM25; run its `vitalfew index` again with --set bm25.enabled=true: "
                "that adds it and redoes nothing else. retrieve.retriever=core_context needs no keywords"
            )

        def opened(unit: Unit, record: ShardRecord) -> bm25_shards.Bm25Shard:
            stem = bm25_shards.stem(self.artifacts["bm25"], record.shard, unit)
            checksums = {name: self.units.checksum("bm25", array_path(stem, name)) for name in bm25_shards.ARRAYS}
            return bm25_shards.Bm25Shard(stem, record.rows(table_of(unit)), checksums)

        return {
            unit: [opened(unit, record) for record in self.manifests[table_of(unit)].shards]
            for unit in self.encoding.units
        }

    @cached_property
    def coverage(self) -> dict[Unit, list[tuple[int, np.ndarray]]]:
        """Per unit and FAISS shard: the first table shard it covers and the rows at which its table shards start."""
        coverage: dict[Unit, list[tuple[int, np.ndarray]]] = {}
        for unit in self.encoding.units:
            table = table_of(unit)
            sizes = [record.rows(table) for record in self.manifests[table].shards]
            covered = [(record.notes["first"], record.notes["last"]) for record in self.manifests["faiss"].shards]
            coverage[unit] = [(first, np.cumsum([0, *sizes[first:last]])) for first, last in covered]
        return coverage

    @property
    def is_encoded(self) -> bool:
        """Return whether it has the vectors of its units; else they are made as they are asked for."""
        return "faiss" in self.artifacts

    def count(self, unit: Unit) -> int:
        """The number of its units of a kind."""
        return sum(record.rows(table_of(unit)) for record in self.manifests[table_of(unit)].shards)

    @property
    def searched(self) -> Collection[Unit]:
        """The units that it has vectors of."""
        return self.encoding.units

    def outline(self, shard: int) -> Outline:
        """A table shard's passages as ranges of its sentences."""
        return self.units.outline(shard)

    def sentences_at(self, places: Sequence[tuple[int, int]]) -> SentencesAt:
        """Sentences by table shard and row, with their vectors and those of their passages."""
        shards, rows = (np.array(column, np.int64) for column in zip(*places, strict=True))
        passages = np.array([self.units.outline(shard).passage(row) for shard, row in places], np.int64)
        table = self.units.take("sentences", shards, rows, ["sentence_id", "passage_id", "text"])
        ids, of_passages = numbers_of(table["sentence_id"]), numbers_of(table["passage_id"])
        titles = [""] * len(places)
        if self.encoding.text == "titled":
            titles = self.units.take("passages", shards, passages, ["title"])["title"].to_pylist()
        core = self._held("sentence", shards, rows) if self.layout == "dual" else None
        core = self.units.vectors("sentence", shards, ids) if core is None else core[:, : core.shape[1] // 2]
        if "passage" not in self.searched:
            return SentencesAt(ids, core, np.zeros_like(core), table["text"].to_pylist(), titles)
        whole = self._held("passage", shards, passages)
        whole = self.units.vectors("passage", shards, of_passages) if whole is None else whole
        return SentencesAt(ids, core, whole, table["text"].to_pylist(), titles)

    def _held(self, unit: Unit, shards: Rows, rows: Rows) -> Vectors | None:
        """The vectors of units as FAISS has them, float32 (n, width), by table shard and row: those are mapped, and the
        table's packed. None for an index with lists, which has no vector by its row."""
        if self.config.type.startswith("ivf"):
            return None
        numbers = np.searchsorted([first for first, _ in self.coverage[unit]], shards, side="right") - 1
        parts, places = [], []
        for number in np.unique(numbers):
            first, starts = self.coverage[unit][number]
            here = np.flatnonzero(numbers == number)
            parts.append(self.faiss[unit][number].vectors(starts[shards[here] - first] + rows[here]))
            places.append(here)
        return np.concatenate(parts)[np.argsort(np.concatenate(places))]

    def vectors(self, unit: Unit, places: Sequence[tuple[int, int]]) -> tuple[Vectors, Vectors | None]:
        """The vectors of units by table shard and row, float32 (n, d): of sentences, their core vectors. None: their
        contexts are not read."""
        shards = np.array([shard for shard, _ in places], np.int64)
        ids = np.array([self.units.ids(unit, shard)[row] for shard, row in places], np.int64)
        return self.units.vectors(unit, shards, ids), None

    def similarities(
        self, unit: Unit, places: Sequence[tuple[int, int]], question: Vectors
    ) -> list[tuple[float, float | None]]:
        """As Units.similarities."""
        return self.units.similarities(unit, places, question)

    def document_counts(self, terms: Sequence[str]) -> tuple[int, dict[str, int]] | None:
        """The number of sentences, and by term how many have it; None without BM25."""
        if "bm25" not in self.artifacts:
            return None
        shards, ids = self.bm25["sentence"], np.array([content_id(term) for term in terms], np.int64)
        counts = sum((shard.documents(ids) for shard in shards), np.zeros(len(ids), np.int64))
        return sum(shard.units for shard in shards), dict(zip(terms, counts.tolist(), strict=True))

    @property
    def stemmer(self) -> Stemmer:
        """The stemmer of its keywords; the default without BM25."""
        return BM25Config.model_validate(self.manifests["bm25"].config if "bm25" in self.manifests else {}).stemmer

    @property
    def layout(self) -> Layout:
        return self.config.layout

    @property
    def alpha(self) -> float | None:
        return self.config.alpha

    def only(self, condition: str | None) -> "OpenedIndex":
        """The same index; its searches find units of the passages for which an SQL condition is true."""
        if not condition:
            return self
        if condition not in self._views:
            view = self._views[condition] = copy(self)
            view.selection = Selection(self.units, condition)
        return self._views[condition]

    @property
    def has_passages(self) -> bool:
        """Return whether it has any passage that fulfils its condition."""
        shards = self.manifests["passages"].shards
        if self.selection is None:
            return any(record.rows("passages") for record in shards)
        return any(self.selection.mask("passage", record.shard).any() for record in shards)

    def called(self, names: Collection[str]) -> dict[str, tuple[int, int, int]]:
        """Find passages by their names in the sources, or by their content ids: id, table shard and row."""
        wanted, places = set(names), dict[str, tuple[int, int, int]]()
        for record in self.manifests["passages"].shards:
            rows = self.artifacts["passages"].read(record.shard, columns=["passage_id", "source_id", "also"])
            known = zip(*(column.to_pylist() for column in rows.columns), strict=True)
            for row, (identity, name, also) in enumerate(known):
                for key in wanted.intersection((name, str(identity), *also)):
                    if self.selection is None or self.selection.mask("passage", record.shard)[row]:
                        places.setdefault(key, (identity, record.shard, row))
        return places

    def nearest(
        self,
        unit: Unit,
        queries: Vectors,
        k: int,
        nprobe: int | None = None,
        ef_search: int | None = None,
        texts: Sequence[str] = (),
    ) -> TopK:
        """The k units of greatest inner product with every query, float32 (n, width), by table shard and row.

        `nprobe`, `ef_search`: None is the effort that was chosen when the index was built. `texts`: the questions', by
        which an index without vectors finds candidates.
        """
        effort = self._effort(unit, nprobe, ef_search)
        top = faiss_shards.search(self.faiss[unit], queries, k, effort, chosen=self._chosen(unit))
        shards, rows = np.full_like(top.shards, NOTHING), np.full_like(top.rows, NOTHING)
        for number, (first, starts) in enumerate(self.coverage[unit]):
            here = (top.shards == number) & (top.rows >= 0)
            places = np.searchsorted(starts, top.rows[here], side="right") - 1
            shards[here], rows[here] = first + places, top.rows[here] - starts[places]
        return TopK(top.ids, top.scores, shards, rows)

    def _chosen(self, unit: Unit) -> Callable[[int], Bits] | None:
        """By FAISS shard, the units that are searched; None where all are."""
        if (selection := self.selection) is None:
            return None

        def bits(number: int) -> Bits:
            first, starts = self.coverage[unit][number]
            return selection.bits(unit, first, first + len(starts))

        return bits

    def _effort(self, unit: Unit, nprobe: int | None, ef_search: int | None) -> int:
        asked = {"i": nprobe, "h": ef_search} if self.config.type != "flat" else {}
        kind = self.config.type[0]
        return asked[kind] or self.efforts[unit] if kind in asked else 0

    def matching(self, unit: Unit, words: Sequence[Sequence[str]], k: int) -> TopK:
        """The k units of greatest BM25 score for every question, given as its words, by table shard and row."""
        records, selection = self.manifests[table_of(unit)].shards, self.selection
        masked = (lambda number: selection.mask(unit, records[number].shard)) if selection else None
        top = bm25_shards.search(self.bm25[unit], words, k, masked)
        shards, ids = top.shards.copy(), top.ids.copy()
        for number, record in enumerate(records):
            here = top.shards == number
            if here.any():
                shards[here] = record.shard
                ids[here] = self.units.ids(unit, record.shard)[top.rows[here]]
        return TopK(ids, top.scores, shards, top.rows)


class BadCondition(ValueError):
    """A condition that is not SQL, names no column of `passages`, or may choose others the next time."""


class Selection:
    """The units of the passages for which an SQL condition on the table `passages` is true. It is asked of a shard at a
    time, of its columns without texts unless it names them. Raises BadCondition at its first use."""

    def __init__(self, units: Units, condition: str) -> None:
        self.units, self.condition = units, condition
        self.bits = lru_cache(None)(self._bits)
        self._passages = lru_cache(None)(self._of_shard)

    def mask(self, unit: Unit, shard: int) -> Mask:
        """True for the units of a table shard to search, (units,)."""
        bits, count = self._passages(shard)
        mask = np.unpackbits(bits, count=count).view(np.bool_)
        return mask if unit == "passage" else np.repeat(mask, self.units.outline(shard).sizes)

    def _bits(self, unit: Unit, first: int, last: int) -> Bits:
        """The masks of the table shards from `first` to before `last`, eight units a byte, the first one lowest. Kept
        for the next search."""
        masks = [self.mask(unit, shard) for shard in range(first, last)]
        return np.packbits(np.concatenate(masks), bitorder="little")

    def _of_shard(self, shard: int) -> tuple[Bits, int]:
        """The bits of a table shard's passages, and their number."""
        artifact = self.units.artifacts["passages"]
        names = artifact.schema(shard).names
        columns = [name for name in names if name != "text" or _TEXT.search(self.condition)]
        rows = artifact.read(shard, columns=columns)
        chosen = np.zeros(rows.num_rows, np.bool_)
        chosen[self._rows(rows.append_column(_ROW, pa.array(np.arange(rows.num_rows))))] = True
        return np.packbits(chosen), rows.num_rows

    def _rows(self, passages: pa.Table) -> NDArray[np.int64]:
        with duckdb.connect(config={"threads": 1, "python_enable_replacements": False}) as connection:
            connection.register("passages", passages)
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            try:
                condition = duckdb.SQLExpression(self.condition)
                rows = connection.view("passages").filter(condition).project(_ROW).fetchnumpy()[_ROW]
                found = changing(connection, str(condition), {"passages"})
            except duckdb.Error as error:
                known = ", ".join(name for name in passages.column_names if name != _ROW)
                fault = str(error).partition("\n")[0].rstrip("!. ")
                raise BadCondition(
                    f'retrieve.where (--where) "{self.condition}": {fault}. Write an SQL condition on the columns '
                    f"{known}, for example \"metadata->>'category' = 'guide'\""
                ) from None
        if found:
            raise BadCondition(
                f'retrieve.where (--where) "{self.condition}": the result of {found} may change, but the same settings '
                "must search the same passages"
            )
        return np.asarray(rows, np.int64)
