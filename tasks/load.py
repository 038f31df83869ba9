"""load: source rows → `passages`, `questions`, `rejects`.

Both steps have bounded memory. *Preparation* streams the sources once into runs of some ten megabytes, sorted by id
(storage/staging.py). A *shard* is a range of ids, so that copies of a text meet in one shard, however far apart they
are in the sources, and a passage that moves within a file stays in its shard. A copy of a row of the same run goes to
`rejects` at once; of the others, texts are read only of the rows that are kept.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vitalfew.configs.schema import LoadConfig
from vitalfew.storage import files, schemas
from vitalfew.storage.artifacts import Manifest
from vitalfew.storage.files import DamagedRecord
from vitalfew.storage.ids import SourceChanged, content_id, file_digest, file_key, passage_id
from vitalfew.storage.staging import StagedShard, Staging, is_spread
from vitalfew.tasks.datasets.base import Dataset, InputError, Passage, Question, Record, Reject
from vitalfew.tasks.datasets.limits import MOST_DETAIL, CorpusSize, checked, shard_count, size_of
from vitalfew.tasks.datasets.specification import parse_dataset
from vitalfew.tasks.datasets.written import located
from vitalfew.tasks.stage import Progress, RowsLost, ShardResult, Stage

RUN_BYTES = 32 << 20
RUN_ROWS = 1 << 16

_STAGED = [pa.field(name, pa.int64(), False) for name in ("key", "ordinal", "check")]
_ORIGIN = [pa.field("source", pa.string(), False), pa.field("offset", pa.int64(), False)]


def _staged(schema: pa.Schema) -> pa.Schema:
    """A table's columns with its sort key, its place among all records, and its origin for `rejects`."""
    names = set(schema.names)
    return pa.schema([*_STAGED, *schema, *(field for field in _ORIGIN if field.name not in names)])


# What copies are told by; their texts are not read.
_HEAD = ("key", "ordinal", "check", "source", "offset", "source_id")
STAGED = {table: _staged(schemas.TABLES[table]) for table in ("passages", "questions", "rejects")}
_RECORDED = ("records", *CorpusSize._fields, "questions", "rejects")
"""The counts that are recorded of a run."""


class Load(Stage):
    """Stage `load` over one or several dataset specifications, which together form one corpus."""

    name: ClassVar[str] = "load"
    table: ClassVar[str] = "passages"
    section: ClassVar[str] = "load"
    version: ClassVar[str] = "2"
    at_home: ClassVar[bool] = True

    def __init__(self, store: Path, datasets: tuple[str, ...], config: LoadConfig) -> None:
        self.datasets = [parse_dataset(located(store, specification)) for specification in datasets]
        for _, dataset in self.datasets:
            dataset.limit(config)
        self.sources = [_source_name(name, dataset) for name, dataset in self.datasets]
        self.files = [path for _, dataset in self.datasets for path in dataset.files()]
        self.digests = [
            {"format": name, "version": dataset.version, "options": dataset.options.model_dump(mode="json")}
            | {"files": [file_digest(path) for path in dataset.files()], **dataset.identity()}
            for name, dataset in self.datasets
        ]
        super().__init__(store, {}, config)

    config: LoadConfig

    def method_identity(self) -> dict[str, Any]:
        return {"datasets": self.digests}

    @property
    def staged(self) -> Staging:
        return Staging(self.staging, STAGED)

    def prepare(self, progress: Progress) -> None:
        keys = self._fingerprinted_files()
        done = list(self.staged.records(*_RECORDED))
        skip = done[-1]["records"] if done else 0
        run = _Run(len(done), skip)
        try:
            for ordinal, (source, offset, record) in enumerate(self._records()):
                if ordinal < skip:
                    continue
                run.add(ordinal, source, offset, checked(record, self.config))
                if run.is_full():
                    self._write(run, keys, progress)
                    run = _Run(run.number + 1, ordinal + 1)
        except InputError:  # a truncated file may be one that is being replaced
            _check_unchanged(keys)
            raise
        self._write(run, keys, progress)
        self._write_plan()

    def _write(self, run: "_Run", keys: dict[Path, str], progress: Progress) -> None:
        """Write a run of what was read while no source changed. Raises InputError."""
        _check_unchanged(keys)
        if run.size:
            progress(run.size, 0)
            self.staged.write(run.number, run.rows, run.record())

    def _fingerprinted_files(self) -> dict[Path, str]:
        """The keys of the files, after a check of their content by its digest. Raises InputError."""
        keys = {path: file_key(path) for path in self.files}
        digests = [digest for dataset in self.digests for digest in dataset["files"]]
        for path, digest in zip(self.files, digests, strict=True):
            if file_digest(path) != digest:
                raise InputError(f"{path} was changed since this run began; run again once it is complete")
        return keys

    def _write_plan(self) -> None:
        runs = list(self.staged.records(*_RECORDED))
        size = CorpusSize(*(sum(run[name] for run in runs) for name in CorpusSize._fields))
        shards = shard_count(size, self.config)
        if is_spread(shards, len(runs)):
            self.staged.spread(len(runs))
        rows = runs[-1]["records"] if runs else 0
        staged = {table: sum(run[table] for run in runs) for table in STAGED}
        plan = {"shards": shards, "runs": len(runs), "rows": rows, **staged, "notes": self._notes()}
        files.write_json(self.staging / "plan.json", plan)

    def _notes(self) -> dict[str, int]:
        notes = Counter[str]()
        for _, dataset in self.datasets:
            notes.update(dataset.notes())
        return dict(notes)

    def is_prepared(self) -> bool:
        try:
            return super().is_prepared() and bool(self._plan())
        except (FileNotFoundError, DamagedRecord):
            return False

    def _records(self) -> Iterator[tuple[str, int, Record]]:
        for source, (_, dataset) in zip(self.sources, self.datasets, strict=True):
            for offset, record in dataset.records():
                yield source, offset, record

    def _plan(self) -> dict[str, Any]:
        names = ("shards", "runs", "rows", *STAGED)

        def plan(value: Any) -> dict[str, Any]:
            return {name: int(value[name]) for name in names} | {"notes": dict(value["notes"])}

        return files.read_record(self.staging / "plan.json", plan)

    def shards(self) -> list[int]:
        return list(range(self._plan()["shards"]))

    def total_rows(self) -> int:
        return self._plan()["rows"]

    def work(self, shard: int, progress: Progress) -> ShardResult:
        plan = self._plan()
        place = StagedShard(shard, plan["shards"], plan["runs"])
        there = [table for table in STAGED if plan[table]]  # no file is asked for tables without rows
        rejects = self.staged.read("rejects", place) if "rejects" in there else STAGED["rejects"].empty_table()
        rows_in, tables, rejected = rejects.num_rows, {}, [rejects.select(schemas.REJECTS.names)]
        for table, schema in (("passages", schemas.PASSAGES), ("questions", schemas.QUESTIONS)):
            heads = self.staged.read(table, place, _HEAD) if table in there else STAGED[table].empty_table()
            first, copies = _without_copies(heads)
            kept = self.staged.read(table, place, ordinals=first) if len(first) else STAGED[table].empty_table()
            tables[table] = kept.select(schema.names).cast(schema)
            rejected.append(copies)
            rows_in += heads.num_rows
        tables["rejects"] = pa.concat_tables(rejected).cast(schemas.REJECTS)
        progress(rows_in, 0)
        # The notes are about all shards: the first one has them.
        return ShardResult(rows_in, tables, notes=plan["notes"] if shard == 0 else {})

    def check(self, manifest: Manifest) -> None:
        rows_out = sum(manifest.rows.values())
        if not manifest.rows_in == rows_out == self._plan()["rows"]:
            raise RowsLost(f"load read {self._plan()['rows']} rows and wrote {rows_out}; its artifact is not complete")
        if manifest.rows["passages"] + manifest.rows["questions"] == 0:
            raise InputError(self._nothing_usable())

    def _nothing_usable(self) -> str:
        first = self.artifact.read(0, "rejects").sort_by("offset").slice(0, 1).to_pylist()
        where = f"; row {first[0]['offset']}: {first[0]['reason']} ({first[0]['detail']})" if first else ""
        return f"{', '.join(self.sources)}: no usable passage or question in {self.total_rows()} rows{where}"


def _check_unchanged(keys: dict[Path, str]) -> None:
    """Raises InputError if a file changed since its content was fingerprinted."""
    for path, key in keys.items():
        try:
            same = file_key(path) == key
        except SourceChanged:
            same = False
        if not same:
            raise InputError(
                f"{path} was changed or replaced while it was read, so the rows read since then are not kept; "
                "run again once it is complete"
            )


def _source_name(format_name: str, dataset: Dataset) -> str:
    if dataset.path is not None:
        return f"{format_name}:{dataset.path.name}"
    given = {key: value for key, value in dataset.options.model_dump().items() if value is not None}
    return f"{format_name}:" + ",".join(f"{key}={value}" for key, value in given.items())


class _Run:
    """Rows on their way from the sources to the staging, sorted there by id."""

    def __init__(self, number: int, records: int) -> None:
        self.number, self.records = number, records
        self.rows: dict[str, list[dict[str, Any]]] = {table: [] for table in STAGED}
        self.content = CorpusSize(0, 0, 0)
        self._first: dict[tuple[str, int], dict[str, Any]] = {}

    @property
    def size(self) -> int:
        return sum(map(len, self.rows.values()))

    def is_full(self) -> bool:
        return self.content.bytes >= RUN_BYTES or self.size >= RUN_ROWS

    def record(self) -> dict[str, int]:
        """Sizes, and rows by table: `passages` is both."""
        rows = {table: len(of_table) for table, of_table in self.rows.items()}
        return {"records": self.records, **{name: int(count) for name, count in self.content._asdict().items()}, **rows}

    def add(self, ordinal: int, source: str, offset: int, record: Record) -> None:
        self.records = ordinal + 1
        origin = {"ordinal": ordinal, "source": source, "offset": offset}
        table, row = _row(record)
        if table != "rejects":
            first = self._first.setdefault((table, row["key"]), {**row, **origin})
            if first["ordinal"] != ordinal:
                reason = "duplicate" if first["check"] == row["check"] else "id_collision"
                named, original = row["source_id"], first["source_id"]
                detail = f"the same id as row {first['offset']} of {first['source']}"
                record = Reject(reason, f"{named}: {detail}, {original}" if named and original else detail)
                table, row = _row(record)
        if table == "rejects":
            row["key"] = content_id(source, offset)
        self.rows[table].append({**row, **origin})
        self.content = CorpusSize(*map(sum, zip(self.content, size_of(record), strict=True)))


def _row(record: Record) -> tuple[str, dict[str, Any]]:
    """Table and columns of a record, its sort key among them. `check`: another hash of the text, so that two texts of
    one id are distinguished without being read."""
    match record:
        case Passage(title, text, source_id):
            key = passage_id(text)
            row = {"passage_id": key, "source_id": source_id, "title": title, "text": text, "metadata": record.metadata}
            return "passages", {"key": key, "check": content_id("check", text), **row}
        case Question():
            places = [part for place in record.gold_places for part in ("place", place.source, place.quote)]
            key = content_id(record.text, *record.answers, "|", *record.gold_passages, *places)
            row = {"question_id": key, **asdict(record)}
            return "questions", {"key": key, "check": content_id("check", record.text), **row}
        case Reject(reason, detail):
            return "rejects", {"key": 0, "check": 0, "stage": "load", "reason": reason, "detail": detail[:MOST_DETAIL]}


def _without_copies(heads: pa.Table) -> tuple[np.ndarray, pa.Table]:
    """Rows sorted by (key, ordinal) → the ordinal of every key's first row, sorted, and rows of `rejects` for the
    others."""
    keys, ordinals = heads["key"].to_numpy(), heads["ordinal"].to_numpy()
    first = np.ones(len(keys), dtype=bool)
    first[1:] = keys[1:] != keys[:-1]
    originals = heads.take(pa.array(np.maximum.accumulate(np.where(first, np.arange(len(keys)), 0))[~first]))
    copies = heads.filter(pa.array(~first))
    # Nothing downstream distinguishes two texts with one id, so the second is rejected with its own reason.
    reasons = pc.if_else(pc.equal(copies["check"], originals["check"]), "duplicate", "id_collision")
    places = pc.binary_join_element_wise(
        "the same id as row", originals["offset"].cast(pa.string()), "of", originals["source"], " "
    )
    named = pc.binary_join_element_wise(copies["source_id"], ": ", places, ", ", originals["source_id"], "")
    are_named = pc.and_(pc.not_equal(copies["source_id"], ""), pc.not_equal(originals["source_id"], ""))
    details = pc.utf8_slice_codeunits(pc.if_else(are_named, named, places), 0, MOST_DETAIL)
    stage = pa.array(["load"] * copies.num_rows, pa.string())
    columns = [stage, copies["source"], copies["offset"], reasons, details]
    return np.sort(ordinals[first]), pa.table(columns, schema=schemas.REJECTS)
