"""load: source rows → `passages`, `questions`, `rejects`.

Both steps have bounded memory. *Preparation* streams the sources once into runs of some ten megabytes, sorted by id
(storage/staging.py). A *shard* is a range of ids, so that copies of a text meet in one shard, however far apart they
are in the sources, and a passage that moves within a file stays in its shard. A copy of a row of the same run goes to
`rejects` at once; of the others, texts are read only of the rows that are kept. A kept row has the names of its copies.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

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
_HEAD = ("key", "ordinal", "check", "source", "offset", "source_id", "also")
STAGED = {table: _staged(schemas.TABLES[table]) for table in ("passages", "questions", "rejects")}
_RECORDED = ("records", *CorpusSize._fields, "questions", "rejects")
"""The counts that are recorded of a run."""


class Load(Stage):
    """Stage `load` over one or several dataset specifications, which together form one corpus."""

    name: ClassVar[str] = "load"
    table: ClassVar[str] = "passages"
    section: ClassVar[str] = "load"
    version: ClassVar[str] = "4"  # since 4, grades are kept; 3, a row has the names of its copies
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
            pairs = zip(self.sources, self.datasets, strict=True)
            records = ((source, *pair) for source, (_, dataset) in pairs for pair in dataset.records())
            for ordinal, (source, offset, record) in enumerate(records):
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
                raise InputError(f"{path} changed since this run began; run again when nothing writes to it")
        return keys

    def _write_plan(self) -> None:
        runs = list(self.staged.records(*_RECORDED))
        size = CorpusSize(*(sum(run[name] for run in runs) for name in CorpusSize._fields))
        shards = shard_count(size, self.config)
        if is_spread(shards, len(runs)):
            self.staged.spread(len(runs))
        rows = runs[-1]["records"] if runs else 0
        staged = {table: sum(run[table] for run in runs) for table in STAGED}
        notes = Counter[str]()
        for _, dataset in self.datasets:
            notes.update(dataset.notes())
        plan = {"shards": shards, "runs": len(runs), "rows": rows, **staged, "notes": notes}
        files.write_json(self.staging / "plan.json", plan)

    def is_prepared(self) -> bool:
        try:
            return super().is_prepared() and bool(self._plan())
        except (FileNotFoundError, DamagedRecord):
            return False

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
        rejects = self.staged.read("rejects", place) if plan["rejects"] else STAGED["rejects"].empty_table()
        rows_in, tables, rejected = rejects.num_rows, {}, [rejects.select(schemas.REJECTS.names)]
        for table in ("passages", "questions"):
            schema = schemas.TABLES[table]
            heads = self.staged.read(table, place, _HEAD) if table in there else STAGED[table].empty_table()
            first, names, copies = _without_copies(table, heads)
            kept = self.staged.read(table, place, ordinals=first) if len(first) else STAGED[table].empty_table()
            tables[table] = _with_names(kept, names).select(schema.names).cast(schema)
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
            first = self.artifact.read(0, "rejects").sort_by("offset").slice(0, 1).to_pylist()
            where = f"; row {first[0]['offset']}: {first[0]['reason']} ({first[0]['detail']})" if first else ""
            rows = f"{', '.join(self.sources)}: no usable passage or question in {self.total_rows()} rows"
            raise InputError(rows + where)


def _check_unchanged(keys: dict[Path, str]) -> None:
    """Raises InputError if a file changed since its content was fingerprinted."""
    for path, key in keys.items():
        with suppress(SourceChanged):
            if file_key(path) == key:
                continue
        raise InputError(
            f"{path} was changed or replaced while it was read, so the rows read since then are not kept; "
            "run again when nothing writes to it"
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
        self._named = set[tuple[int, str]]()

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
        row |= origin
        if table != "rejects":
            first = self._first.setdefault((table, row["key"]), row)
            if first is not row:
                record = _copy(table, row, first)
                if record.reason == DUPLICATE:
                    _add_names(first, row, self._named)
                table, row = "rejects", _row(record)[1] | origin
        if table == "rejects":
            row["key"] = content_id(source, offset)
        self.rows[table].append(row)
        self.content = CorpusSize(*map(sum, zip(self.content, size_of(record), strict=True)))


def _row(record: Record) -> tuple[str, dict[str, Any]]:
    """Table and columns of a record, its sort key among them. `check`: another hash of the text, so that two texts of
    one id are distinguished without being read."""
    match record:
        case Passage(title, text, source_id):
            key = passage_id(text)
            row = {"passage_id": key, "source_id": source_id, "title": title, "text": text, "metadata": record.metadata}
            return "passages", {"key": key, "check": content_id("check", text), "also": [], **row}
        case Question():
            places = [part for place in record.gold_places for part in ("place", place.source, place.quote)]
            key = content_id(record.text, *record.answers, "|", *record.gold_passages, *places)
            row = {"question_id": key, "also": [], **asdict(record)}
            return "questions", {"key": key, "check": content_id("check", record.text), **row}
        case Reject(reason, detail):
            return "rejects", {"key": 0, "check": 0, "stage": "load", "reason": reason, "detail": detail[:MOST_DETAIL]}


DUPLICATE = "duplicate"


def _copy(table: str, row: Mapping[str, Any], first: Mapping[str, Any]) -> Reject:
    """The reject of a row whose id an earlier row has. Nothing downstream distinguishes two texts with one id, so a
    second text is rejected with its own reason."""
    same = row["check"] == first["check"]
    what = f"the same {'text' if table == 'passages' else 'question'}" if same else "another text with the same id"
    where = ", ".join(filter(None, [f"row {first['offset']} of {first['source']}", first["source_id"]]))
    detail = f"{what} as {where}"
    named = f"{row['source_id']}: " if row["source_id"] else ""
    return Reject(DUPLICATE if same else "id_collision", named + detail)


def _add_names(first: dict[str, Any], copy: Mapping[str, Any], named: set[tuple[int, str]]) -> None:
    """Give a row the names of its copy. `named`: the further names that rows have already, by their ordinals."""
    for name in (copy["source_id"], *copy["also"]):
        if name not in ("", first["source_id"]) and (first["ordinal"], name) not in named:
            named.add((first["ordinal"], name))
            first["also"].append(name)


def _without_copies(table: str, heads: pa.Table) -> tuple[np.ndarray, dict[int, list[str]], pa.Table]:
    """Rows sorted by (key, ordinal) → the ordinal of every key's first row, sorted; the further names of those that
    have copies, by ordinal; and rows of `rejects` for the copies."""
    keys, ordinals = heads["key"].to_numpy(), heads["ordinal"].to_numpy()
    is_first = np.ones(len(keys), dtype=bool)
    is_first[1:] = keys[1:] != keys[:-1]
    copied = np.flatnonzero(~is_first)
    places = np.maximum.accumulate(np.where(is_first, np.arange(len(keys)), 0))[copied]
    firsts = {row["ordinal"]: row for row in heads.take(pa.array(np.unique(places))).to_pylist()}
    named = {(ordinal, name) for ordinal, row in firsts.items() for name in row["also"]}
    rejects = []
    for first, copy in zip(ordinals[places].tolist(), heads.take(pa.array(copied)).to_pylist(), strict=True):
        reject = _copy(table, copy, firsts[first])
        if reject.reason == DUPLICATE:
            _add_names(firsts[first], copy, named)
        origin = {name: copy[name] for name in ("source", "offset")}
        rejects.append({"stage": "load", **origin, "reason": reject.reason, "detail": reject.detail[:MOST_DETAIL]})
    names = {ordinal: row["also"] for ordinal, row in firsts.items()}
    return np.sort(ordinals[is_first]), names, pa.Table.from_pylist(rejects, schemas.REJECTS)


def _with_names(rows: pa.Table, names: Mapping[int, list[str]]) -> pa.Table:
    """Rows with their further names, by ordinal."""
    if not names:
        return rows
    place = rows.schema.get_field_index("also")
    pairs = zip(rows["ordinal"].to_pylist(), rows["also"].to_pylist(), strict=True)
    also = [names.get(ordinal, own) for ordinal, own in pairs]
    return rows.set_column(place, rows.schema.field(place), pa.array(also, rows.schema.field(place).type))
