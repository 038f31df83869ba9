"""Artifacts: dataset directories `<table>/<fingerprint>`, their shards, done-markers and manifests.

A shard's tables are written first, each under a temporary name, then its done-marker (`done/<shard>.json`) with row
counts and checksums, and the manifest last of all. So whatever instant a run is killed at, what carries a marker is
whole, and the next run redoes the rest only.

Files of a finished artifact may be used elsewhere: the weights of a training are copied to a directory of their own
(`export_weights`), and rows are taken over by another artifact (`whole_bases`).
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa

from vitalfew.storage import files, version
from vitalfew.storage.costs import write_ledger
from vitalfew.storage.files import DamagedRecord
from vitalfew.storage.manifests import (
    PREPARATION,
    File,
    Manifest,
    ShardRecord,
    first_fault,
    known_manifest,
    known_record,
    read_description,
    seen_together,
    write_manifest,
)
from vitalfew.storage.names import attempt_path, is_attempt, plain_path


def fingerprint(**parts: Any) -> str:
    """Hash of everything a result depends on, 16 hexadecimal digits."""
    canonical = json.dumps(parts, sort_keys=True, ensure_ascii=True, default=str)
    return blake2b(canonical.encode(), digest_size=8).hexdigest()


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
        """The file of a shard of one of the artifact's tables. In a bucket the manifest or the done-marker says which
        one counts; a file that is in neither has its plain path."""
        plain = self._plain(shard, table, suffix)
        if files.is_in_bucket(self.store):
            with suppress(FileNotFoundError):
                return _recorded_place(self, shard, plain)
        return plain

    def new_path(self, shard: int, table: str | None = None, suffix: str = "parquet") -> Path:
        """The file in which this attempt writes a shard of one of the artifact's tables."""
        return attempt_path(self._plain(shard, table, suffix))

    def _plain(self, shard: int, table: str | None, suffix: str) -> Path:
        return self.store / (table or self.table) / self.fingerprint / f"{shard:05d}.{suffix}"

    def file(self, name: str) -> Path:
        """The path of a file beside the tables: a template, probes, parameters."""
        return self.directory / name

    @property
    def lock(self) -> Path:
        return self.directory / "lock"

    def locked(self) -> AbstractContextManager[bool]:
        """Wait until no other run works on this artifact; a process that dies lets go of it."""
        return files.locked(self.lock)

    def write(self, shard: int, table: str, rows: pa.Table) -> File:
        path = self.new_path(shard, table)
        files.write_table(path, rows)
        return self.describe(path, table, rows.num_rows)

    def describe(self, path: Path, table: str, rows: int) -> File:
        status = files.status(path)
        name = str(path.relative_to(self.store))
        return File(table, name, rows, status.size, files.checksum(path), status.modified_ns)

    def read(self, shard: int, table: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """A shard of one of the artifact's tables, or some of its columns. Raises FileNotFoundError, Damaged."""
        return files.read_table(self.path(shard, table), columns)

    def open(self, shard: int, table: str | None = None) -> files.OpenTable:
        """A shard of one of the artifact's tables, to be read row group by row group."""
        return files.OpenTable(self.path(shard, table))

    def schema(self, shard: int, table: str | None = None) -> pa.Schema:
        return files.read_schema(self.path(shard, table))

    def begin(self, description: Mapping[str, Any]) -> None:
        """Describe what is being made, so that an unfinished artifact can be understood, and its vectors reused. The
        first one gives the store its version. Raises as `version.mark` does."""
        version.mark(self.store)
        files.write_json(self.directory / "stage.json", description)

    def description(self) -> dict[str, Any] | None:
        """Read what `begin` wrote; None where nothing was begun, or the file is damaged."""
        with suppress(FileNotFoundError, NotADirectoryError, DamagedRecord):
            return read_description(self.directory)
        return None

    def mark_done(self, record: ShardRecord) -> ShardRecord:
        """Mark a shard as done and return the record that counts: that of another attempt if it was first and is
        whole."""
        marker = self.marker(record.shard)
        if not files.write_json_once(marker, asdict(record)):
            if other := self.record(record.shard):
                for path in {file.path for file in record.files} - {file.path for file in other.files}:
                    files.remove(self.store / path)
                return other
            files.write_json(marker, asdict(record))
            _recorded_place.cache_clear()  # what was damaged lies elsewhere now
        return record

    def record(self, shard: int) -> ShardRecord | None:
        """The shard's done-marker, or None where it has to be done (again: it or a file of it is damaged)."""
        record = known_record(self.marker(shard))
        return record if record and not any(file.fault(self.store) for file in record.files) else None

    def records_of(self, shards: Sequence[int]) -> list[ShardRecord | None]:
        """`record` of all these shards."""
        known = files.at_once(self.store, known_record, map(self.marker, shards))
        seen = seen_together(self.store, (file for record in known if record for file in record.files))
        return [
            record if record and not any(file.fault(self.store, seen=seen) for file in record.files) else None
            for record in known
        ]

    def pending(self, shards: Sequence[int]) -> list[int]:
        """The shards that have to be done (again)."""
        listed = shards
        if files.is_in_bucket(self.store):
            there = files.statuses(self.directory / "done")
            listed = [shard for shard in shards if self.marker(shard) in there]
        done = {shard for shard, record in zip(listed, self.records_of(listed), strict=True) if record}
        return [shard for shard in shards if shard not in done]

    def prepared_file(self, path: Path) -> Path:
        """A file of the preparation, as it was written. Raises Damaged."""
        record = self.record(PREPARATION)
        for file in record.files if record else []:
            if self.store / file.path == path:
                return file.checked(self.store)
        raise files.Damaged.because(path, "it differs from what the preparation wrote")

    def records(self) -> Iterator[ShardRecord]:
        """Every done-marker that can be read, whatever became of the files."""
        for path in files.find(self.directory / "done", "*.json"):
            if record := known_record(path):
                yield record

    def inputs(self) -> list[str]:
        """The artifacts it was made from. Raises DamagedRecord where its records cannot be read."""
        described = self.recorded_manifest() or self.description()
        if isinstance(described, Manifest):
            return list(described.inputs.values())
        if described is None and any(files.exists(self.file(name)) for name in ("manifest.json", "stage.json")):
            raise DamagedRecord(f"{self.directory}: neither manifest.json nor stage.json can be read")
        return list(described["inputs"].values()) if described else []

    def add_costs(self, stage: str, model: str | None, records: Sequence[ShardRecord], finished: bool = True) -> None:
        """Enter shards in the ledger, with the model that did the work. What was paid before for shards that were lost
        since stays in it."""
        rows = [
            {
                **vars(record.cost),
                "model": model,
                "stage": stage,
                "shard": record.shard,
                "run_id": record.run_id,
                "started": datetime.fromisoformat(record.cost.started),
                "rows": record.rows(self.table),
                "finished": finished,
            }
            for record in records
        ]
        counted = {
            (record.shard, run_id, datetime.fromisoformat(started))
            for record in records
            for run_id, _, started in (name.partition(" ") for name in record.others)
        }
        write_ledger(self.ledger, rows, counted)

    @property
    def ledger(self) -> Path:
        return self.store / "costs" / self.fingerprint / "00000.parquet"

    def marked(self, shard: int) -> bool:
        """Return whether the shard was done once; `record` looks whether its files are still as they were."""
        return files.exists(self.marker(shard))

    def complete(self, manifest: Manifest) -> None:
        """Raises LeaseLost where this process is not the one that works on it any more."""
        for table in {file.table for file in manifest.files()}:
            for path in files.find(self.store / table / self.fingerprint, ".*.tmp"):
                if files.is_leftover(path):
                    files.remove(path)
        files.confirm_lock(self.lock)
        write_manifest(self.directory, manifest)
        _recorded_place.cache_clear()  # what was damaged lies elsewhere now
        for path in self.superseded(manifest):
            files.remove(path)

    def superseded(self, manifest: Manifest) -> list[Path]:
        """List the files of attempts that do not count."""
        recorded = {self.store / file.path for file in manifest.files()}
        folders = sorted({path.parent for path in recorded})
        there = (path for folder in folders for path in files.statuses(folder))
        return [path for path in there if is_attempt(path.name) and path not in recorded]

    def manifest(self) -> Manifest | None:
        """The manifest, or None where the artifact is not complete (any more: see `damage`)."""
        manifest = self.recorded_manifest()
        return None if manifest is None or self.damage(manifest) else manifest

    def damage(self, manifest: Manifest) -> str | None:
        """Say in words how the first damaged file differs from what was written; None if no file is damaged."""
        return first_fault(self.store, [*manifest.files()])

    def recorded_manifest(self) -> Manifest | None:
        """The manifest, whatever became of the files since; None where it is missing or damaged."""
        return known_manifest(self.directory)

    def completed(self) -> Manifest:
        """The manifest of an artifact that another is made from. Raises FileNotFoundError where it is not complete."""
        manifest = self.recorded_manifest()
        if manifest is None:
            raise FileNotFoundError(f"{self.name} is not complete, and this stage needs it; run the same command again")
        return manifest

    def marker(self, shard: int) -> Path:
        return self.directory / "done" / f"{shard_name(shard)}.json"


@dataclass(frozen=True)
class Held(Artifact):
    """An artifact in memory, of one shard: the questions that are answered now, or what a stage made of them."""

    tables: dict[str, pa.Table] = field(default_factory=dict, compare=False)

    def read(self, shard: int, table: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        rows = self.tables[table or self.table]
        return rows.select(list(columns)) if columns else rows


def shard_name(shard: int) -> str:
    return "preparation" if shard == PREPARATION else f"{shard:05d}"


def complete_artifacts(store: Path) -> Iterator[tuple[Artifact, Manifest]]:
    """Every artifact of a store whose manifest exists, in the order of their names."""
    found = files.find(store, "*/*/manifest.json")
    made = [Artifact(store, path.parent.parent.name, path.parent.name) for path in found]
    known = files.at_once(store, Artifact.recorded_manifest, made)
    for artifact, manifest in zip(made, known, strict=True):
        if manifest:
            yield artifact, manifest


@lru_cache(1 << 16)
def _recorded_place(artifact: Artifact, shard: int, plain: Path) -> Path:
    """Look up once where a file lies that is written once. Raises FileNotFoundError."""
    name = str(plain.relative_to(artifact.store))
    if manifest := artifact.recorded_manifest():
        placed = manifest.placed
    else:
        record = known_record(artifact.marker(shard))
        placed = {plain_path(file.path): file.path for file in record.files} if record else {}
    if name not in placed:
        raise FileNotFoundError(f"{plain} does not exist")
    return artifact.store / placed[name]


WEIGHTS = "weights"
"""The directory within the artifact, and the `table` of its files in the manifest."""
FIGURES = "figures.json"


def weights_folder(artifact: Path) -> Path:
    """The folder of the weights in a training's artifact. In a bucket its address names a model in a setting."""
    return artifact / WEIGHTS


def training_figures(artifact: Artifact) -> list[dict[str, Any]]:
    """The rows that a finished training measured on held-out data. Raises FileNotFoundError."""
    return files.read_json(weights_folder(artifact.directory) / FIGURES)["figures"]


def export_weights(artifact: Artifact, directory: Path) -> None:
    """Copy weights, card and figures to a directory; files of those names are replaced. Raises FileNotFoundError
    where the training is not complete."""
    for file in artifact.completed().files():
        if file.table == WEIGHTS:
            source = artifact.store / file.path
            files.write_bytes(directory / source.name, files.read_bytes(source))


logger = logging.getLogger("vitalfew")

_damaged: set[Path] = set()
"""Files that this process has warned about."""


def whole_bases(store: Path, bases: Sequence[File]) -> Iterator[Path]:
    """Yield the paths of these files on this machine, without those that are gone; warn of those that are damaged."""
    for file in bases:
        try:
            yield file.checked(store)
        except FileNotFoundError:
            continue
        except files.Damaged as error:
            if (path := store / file.path) not in _damaged:
                logger.warning("nothing is taken over from a damaged file: %s", error)
            _damaged.add(path)
