"""Artifacts: dataset directories `<table>/<fingerprint>`, their shards, done-markers and manifests.

A shard's tables are written first, each under a temporary name, then its done-marker (`done/<shard>.json`) with row
counts and checksums, and the manifest last of all. So whatever instant a run is killed at, what carries a marker is
whole, and the next run redoes the rest only.
"""

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage.costs import Cost
from storage.parquet import checksum, remove_leftovers, write_json, write_table

PREPARATION = -1
"""The shard number of what a stage does once, before its shards."""


def fingerprint(**parts: Any) -> str:
    """Hash of everything a result depends on, 16 hexadecimal digits."""
    canonical = json.dumps(parts, sort_keys=True, ensure_ascii=True, default=str)
    return blake2b(canonical.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class File:
    """A file of a shard: its table, its path below the store, its rows, bytes and checksum (BLAKE2b-128)."""

    table: str
    path: str
    rows: int
    bytes: int
    checksum: str


@dataclass(frozen=True)
class ShardRecord:
    """What a done-marker says. `rows_in`: rows the shard was made from; `notes`: the stage's own counts."""

    shard: int
    run_id: str
    files: list[File]
    rows_in: int
    cost: Cost
    notes: dict[str, int] = field(default_factory=dict)

    def rows(self, table: str) -> int:
        return sum(file.rows for file in self.files if file.table == table)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ShardRecord":
        files = [File(**file) for file in value["files"]]
        return cls(**{**value, "files": files, "cost": Cost(**value["cost"])})


@dataclass(frozen=True)
class Manifest:
    """Says that an artifact is complete, what it holds and what it was made from. `whole`: files about all shards."""

    stage: str
    artifact: str
    inputs: dict[str, str]
    config: dict[str, Any]
    method: dict[str, Any]
    code_version: str
    completed: str
    rows_in: int
    rows: dict[str, int]
    shards: list[ShardRecord]
    preparation: ShardRecord | None = None
    whole: list[File] = field(default_factory=list)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Manifest":
        shards = [ShardRecord.from_json(shard) for shard in value["shards"]]
        preparation = value["preparation"] and ShardRecord.from_json(value["preparation"])
        whole = [File(**file) for file in value.get("whole", [])]
        return cls(**{**value, "shards": shards, "preparation": preparation, "whole": whole})

    def files(self) -> Iterator[File]:
        yield from self.whole
        for shard in self.shards:
            yield from shard.files

    def note(self, name: str) -> int:
        """The sum of a note over all shards."""
        return sum(shard.notes.get(name, 0) for shard in self.shards)


@dataclass(frozen=True)
class Artifact:
    """The output of one stage: a directory per table, of which `table`'s holds the markers and the manifest."""

    store: Path
    table: str
    fingerprint: str

    @property
    def name(self) -> str:
        return f"{self.table}/{self.fingerprint}"

    @property
    def directory(self) -> Path:
        return self.store / self.table / self.fingerprint

    def path(self, shard: int, table: str | None = None, suffix: str = "parquet") -> Path:
        """Where a shard of one of the artifact's tables lies."""
        return self.store / (table or self.table) / self.fingerprint / f"{shard:05d}.{suffix}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no other run works on this artifact; a process that dies lets go of it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def write(self, shard: int, table: str, rows: pa.Table) -> File:
        path = self.path(shard, table)
        write_table(path, rows)
        return self.describe(path, table, rows.num_rows)

    def describe(self, path: Path, table: str, rows: int) -> File:
        return File(table, str(path.relative_to(self.store)), rows, path.stat().st_size, checksum(path))

    def mark_done(self, record: ShardRecord) -> None:
        write_json(self._marker(record.shard), asdict(record))

    def record(self, shard: int) -> ShardRecord | None:
        """The shard's done-marker, or None where it has to be done (again: a file is missing or has another size)."""
        marker = self._marker(shard)
        if not marker.exists():
            return None
        record = ShardRecord.from_json(json.loads(marker.read_text(encoding="utf-8")))
        return record if all(self._is_there(file) for file in record.files) else None

    def complete(self, manifest: Manifest) -> None:
        for table in {file.table for file in manifest.files()}:
            remove_leftovers(self.store / table / self.fingerprint)
        write_json(self.directory / "manifest.json", asdict(manifest))

    def manifest(self) -> Manifest | None:
        """The manifest, or None where the artifact is not complete (any more: a file is missing)."""
        manifest = self.recorded_manifest()
        return manifest if manifest and all(self._is_there(file) for file in manifest.files()) else None

    def recorded_manifest(self) -> Manifest | None:
        """The manifest as it was written, whatever became of the files since."""
        path = self.directory / "manifest.json"
        return Manifest.from_json(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    def _marker(self, shard: int) -> Path:
        return self.directory / "done" / f"{'preparation' if shard == PREPARATION else format(shard, '05d')}.json"

    def _is_there(self, file: File) -> bool:
        path = self.store / file.path
        return path.exists() and path.stat().st_size == file.bytes


def complete_artifacts(store: Path) -> Iterator[tuple[Artifact, Manifest]]:
    """Every artifact of a store whose manifest exists, in the order of their names."""
    for path in sorted(store.glob("*/*/manifest.json")):
        artifact = Artifact(store, path.parent.parent.name, path.parent.name)
        manifest = artifact.recorded_manifest()
        if manifest:
            yield artifact, manifest
