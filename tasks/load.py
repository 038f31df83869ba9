"""load: source rows → `passages`, `questions`, `rejects`.

Both steps have bounded memory. *Preparation* streams the sources once into chunks of some ten megabytes, sorted by id.
A *shard* is a range of ids: its rows are gathered from all chunks, so that copies of a text meet in one shard, however
far apart they are in the sources, and a passage that moves within a file stays in its shard.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from configs.schema import LoadConfig
from storage import files, schemas
from storage.artifacts import Manifest
from storage.files import DamagedRecord
from storage.ids import ID_RANGE, content_id, passage_id
from storage.sources import SourceChanged, file_digest, file_key
from tasks.datasets.base import Dataset, InputError, Passage, Question, Record, Reject
from tasks.datasets.specification import parse_dataset
from tasks.stage import Progress, RowsLost, ShardResult, Stage

CHUNK_CHARS = 8 << 20
CHUNK_ROWS = 25_000
# A small corpus has up to FEW_SHARDS shards of at least SMALL_SHARD passages, so that workers share its work.
FEW_SHARDS = 8
SMALL_SHARD = 256

_STAGED = [pa.field("key", pa.int64(), False), pa.field("ordinal", pa.int64(), False)]
_ORIGIN = [pa.field("source", pa.string(), False), pa.field("offset", pa.int64(), False)]


def _staged(schema: pa.Schema) -> pa.Schema:
    """A table's columns with its sort key, its place among all records, and its origin for `rejects`."""
    names = set(schema.names)
    return pa.schema([*_STAGED, *schema, *(field for field in _ORIGIN if field.name not in names)])


STAGED = {
    "passages": _staged(schemas.PASSAGES),
    "questions": _staged(schemas.QUESTIONS),
    "rejects": _staged(schemas.REJECTS),
}


class Load(Stage):
    """Stage `load` over one or several dataset specifications, which together form one corpus."""

    name: ClassVar[str] = "load"
    table: ClassVar[str] = "passages"
    section: ClassVar[str] = "load"

    def __init__(self, store: Path, datasets: tuple[str, ...], config: LoadConfig) -> None:
        self.datasets = [parse_dataset(specification) for specification in datasets]
        self.sources = [_source_name(name, dataset) for name, dataset in self.datasets]
        self.files = [path for _, dataset in self.datasets for path in dataset.files()]
        self.digests = [
            {"format": name, "version": dataset.version, "options": dataset.options.model_dump(mode="json")}
            | {"files": [file_digest(store, path) for path in dataset.files()], **dataset.identity()}
            for name, dataset in self.datasets
        ]
        super().__init__(store, {}, config)

    config: LoadConfig

    def method_identity(self) -> dict[str, Any]:
        return {"datasets": self.digests}

    def prepare(self, progress: Progress) -> None:
        keys = self._fingerprinted_files()
        done = _chunks(self.staging)
        skip = done[-1]["records"] if done else 0
        chunk = _Chunk(self.staging, len(done), skip)
        try:
            for ordinal, (source, offset, record) in enumerate(self._records()):
                if ordinal < skip:
                    continue
                chunk.add(ordinal, source, offset, self._checked(record))
                if chunk.is_full():
                    _check_unchanged(keys)
                    progress(chunk.size, 0)
                    chunk.write()
                    chunk = _Chunk(self.staging, chunk.number + 1, ordinal + 1)
        except InputError:  # a truncated file may be one that is being replaced
            _check_unchanged(keys)
            raise
        _check_unchanged(keys)
        if chunk.size:
            progress(chunk.size, 0)
            chunk.write()
        self._write_plan()

    def _fingerprinted_files(self) -> dict[Path, str]:
        """Size, date and inode of the files, after a check of their content by its digest. Raises InputError."""
        keys = {path: file_key(path) for path in self.files}
        digests = [digest for dataset in self.digests for digest in dataset["files"]]
        for path, digest in zip(self.files, digests, strict=True):
            if file_digest(self.store, path) != digest:
                raise InputError(f"{path} was changed since this run began; run again when it is whole")
        return keys

    def _write_plan(self) -> None:
        counts = _chunks(self.staging)
        passages = sum(chunk["passages"] for chunk in counts)
        shards = shard_count(passages, self.config)
        rows = counts[-1]["records"] if counts else 0
        files.write_json(self.staging / "plan.json", {"shards": shards, "rows": rows})

    def is_prepared(self) -> bool:
        try:
            return super().is_prepared() and bool(self._plan())
        except (FileNotFoundError, DamagedRecord):
            return False

    def _records(self) -> Iterator[tuple[str, int, Record]]:
        for source, (_, dataset) in zip(self.sources, self.datasets, strict=True):
            for offset, record in dataset.records():
                yield source, offset, record

    def _checked(self, record: Record) -> Record:
        limit = self.config.max_chars
        if isinstance(record, Passage) and len(record.text) > limit:
            return Reject("over_long", f"{len(record.text):,} characters; load.max_chars is {limit:,}")
        return record

    def _plan(self) -> dict[str, int]:
        plan = self.staging / "plan.json"
        return files.read_record(plan, lambda value: {name: int(value[name]) for name in ("shards", "rows")})

    def shards(self) -> list[int]:
        return list(range(self._plan()["shards"]))

    def total_rows(self) -> int:
        return self._plan()["rows"]

    def work(self, shard: int, progress: Progress) -> ShardResult:
        gathered = {table: self._gather(table, shard) for table in STAGED}
        rejects = [gathered["rejects"].select(schemas.REJECTS.names)]
        tables: dict[str, pa.Table] = {}
        for table, schema in (("passages", schemas.PASSAGES), ("questions", schemas.QUESTIONS)):
            kept, duplicates = _without_copies(gathered[table])
            tables[table] = kept.select(schema.names).cast(schema)
            rejects.append(duplicates)
        tables["rejects"] = pa.concat_tables(rejects).cast(schemas.REJECTS)
        rows_in = sum(rows.num_rows for rows in gathered.values())
        progress(rows_in, 0)
        return ShardResult(rows_in, tables)

    def _gather(self, table: str, shard: int) -> pa.Table:
        """The shard's rows from every chunk, ordered by key, then by their place in the sources."""
        width = ID_RANGE // self._plan()["shards"]
        parts = [STAGED[table].empty_table()]
        for path in files.find(self.staging, f"*.{table}.arrow"):
            rows = files.read_arrow(path)
            keys = rows["key"].to_numpy()
            start = np.searchsorted(keys, shard * width, "left")
            end = np.searchsorted(keys, shard * width + width - 1, "right")
            # A copy: slices would keep every chunk mapped, and memory would grow with the corpus.
            parts.append(rows.take(pa.array(np.arange(start, end))))
        return pa.concat_tables(parts).sort_by([("key", "ascending"), ("ordinal", "ascending")])

    def check(self, manifest: Manifest) -> None:
        rows_out = sum(manifest.rows.values())
        if not manifest.rows_in == rows_out == self._plan()["rows"]:
            raise RowsLost(f"load read {self._plan()['rows']} rows and wrote {rows_out}; its artifact is not complete")
        if manifest.rows["passages"] + manifest.rows["questions"] == 0:
            raise InputError(self._nothing_usable())

    def _nothing_usable(self) -> str:
        rejects = pa.concat_tables([self._gather("rejects", shard) for shard in self.shards()])
        first = rejects.slice(0, 1).to_pylist()
        where = f"; row {first[0]['offset']}: {first[0]['reason']} ({first[0]['detail']})" if first else ""
        return f"{', '.join(self.sources)}: no usable passage or question in {rejects.num_rows} rows{where}"


def shard_count(passages: float, config: LoadConfig) -> int:
    """A power of two, so that when a corpus grows, a new shard is a half of an old one."""
    wanted = max(passages / config.shard_passages, min(FEW_SHARDS, passages / SMALL_SHARD), 1)
    return 1 << math.ceil(math.log2(wanted))


def _check_unchanged(keys: dict[Path, str]) -> None:
    """Raises InputError if a file changed since its content was fingerprinted."""
    for path, key in keys.items():
        try:
            same = file_key(path) == key
        except SourceChanged:
            same = False
        if not same:
            raise InputError(
                f"{path} was changed or replaced while it was read, and what was read since is not kept; "
                "run again when it is whole"
            )


def _source_name(format_name: str, dataset: Dataset) -> str:
    if dataset.path is not None:
        return f"{format_name}:{dataset.path.name}"
    return f"{format_name}:" + ",".join(f"{key}={value}" for key, value in dataset.options.model_dump().items())


class _Chunk:
    """Rows on their way from the sources to the chunk files."""

    def __init__(self, staging: Path, number: int, records: int) -> None:
        self.staging, self.number, self.records = staging, number, records
        self.rows: dict[str, list[dict[str, Any]]] = {table: [] for table in STAGED}
        self.chars = 0

    @property
    def size(self) -> int:
        return sum(map(len, self.rows.values()))

    def is_full(self) -> bool:
        return self.chars >= CHUNK_CHARS or self.size >= CHUNK_ROWS

    def add(self, ordinal: int, source: str, offset: int, record: Record) -> None:
        self.records = ordinal + 1
        table, key, row = _row(source, offset, record)
        self.chars += len(row.get("text", ""))
        self.rows[table].append({"key": key, "ordinal": ordinal, "source": source, "offset": offset, **row})

    def write(self) -> None:
        for table, rows in self.rows.items():
            if rows:
                sorted_rows = sorted(rows, key=lambda row: (row["key"], row["ordinal"]))
                content = pa.Table.from_pylist(sorted_rows, STAGED[table])
                path = self.staging / f"{self.number:05d}.{table}.arrow"
                files.write_arrow(path, content)
        counts = {table: len(rows) for table, rows in self.rows.items()}
        files.write_json(self.staging / f"chunk-{self.number:05d}.json", {"records": self.records, **counts})


def _row(source: str, offset: int, record: Record) -> tuple[str, int, dict[str, Any]]:
    """Table, sort key and columns of a record."""
    match record:
        case Passage(title, text, source_id):
            key = passage_id(text)
            return "passages", key, {"passage_id": key, "source_id": source_id, "title": title, "text": text}
        case Question():
            row = asdict(record)
            key = content_id(record.text, *record.answers, "|", *record.gold_passages)
            return "questions", key, {"question_id": key, **row}
        case Reject(reason, detail):
            return "rejects", content_id(source, offset), {"stage": "load", "reason": reason, "detail": detail}


def _chunks(staging: Path) -> list[dict[str, int]]:
    """The counts of the written chunks, in order, up to the first unreadable one."""
    chunks = []
    for path in files.find(staging, "chunk-*.json"):
        try:
            chunks.append(
                files.read_record(path, lambda value: {name: int(value[name]) for name in ("records", "passages")})
            )
        except DamagedRecord:
            break
    return chunks


def _without_copies(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Rows sorted by (key, ordinal) → the first row of every key, and rows of `rejects` for the others."""
    keys = rows["key"].to_numpy()
    first = np.ones(len(keys), dtype=bool)
    first[1:] = keys[1:] != keys[:-1]
    originals = rows.take(pa.array(np.maximum.accumulate(np.where(first, np.arange(len(keys)), 0))[~first]))
    copies = rows.filter(pa.array(~first))
    # Nothing downstream distinguishes two texts with one id, so the second is rejected with its own reason.
    reasons = pc.if_else(pc.equal(copies["text"], originals["text"]), "duplicate", "id_collision")
    places = pc.binary_join_element_wise(
        "the same id as row", originals["offset"].cast(pa.string()), "of", originals["source"], " "
    )
    stage = pa.array(["load"] * copies.num_rows, pa.string())
    columns = [stage, copies["source"], copies["offset"], reasons, places]
    return rows.filter(pa.array(first)), pa.table(columns, schema=schemas.REJECTS)
