"""What is recorded of an artifact: its files with their checksums, its shards' done-markers, its manifest."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from vitalfew.storage import files
from vitalfew.storage.attempts import plain
from vitalfew.storage.costs import Cost
from vitalfew.storage.files import DamagedRecord, Status

PREPARATION = -1
"""The shard number of what a stage does once, before its shards."""
PREPARED = "preparation"
"""What stands for the table of a file that this leaves, which is no table of the catalog."""


NOTHING_SEEN: Mapping[Path, Status] = MappingProxyType({})


def seen_together(store: Path, written: Iterable["File"]) -> dict[Path, Status]:
    """Of the files' folders what is in them, where that is cheaper than to look at every file."""
    if not files.is_in_bucket(store):
        return {}
    seen: dict[Path, Status] = {}
    for folder in sorted({(store / file.path).parent for file in written}):
        seen |= files.statuses(folder)
    return seen


@dataclass(frozen=True)
class File:
    """A file of a shard: its table, its path below the store, its rows, bytes and checksum (BLAKE2b-128).

    `modified_ns` is the date it was given when it was written: while that and the size hold, it is not read again to be
    checked (`vitalfew store verify` reads it all the same).
    """

    table: str
    path: str
    rows: int
    bytes: int
    checksum: str
    modified_ns: int = 0

    def misfit(self, store: Path, seen: Mapping[Path, Status] = NOTHING_SEEN) -> str | None:
        """What is wrong with the file in this store as far as its size tells, in words; None where nothing is.

        `seen`: of files that were looked at together (`seen_together`).
        """
        return self._look(store, seen)[1]

    def damage(self, store: Path, seen: Mapping[Path, Status] = NOTHING_SEEN) -> str | None:
        """The same, and by its checksum where its date is another than it was given (in a directory), or where this
        machine has read it and seen other bytes."""
        now, fault = self._look(store, seen)
        if now is None or fault:
            return fault
        path = store / self.path
        as_written = files.as_written(path, now, self.modified_ns)
        as_written = as_written and not files.seen_otherwise(path, now, self.checksum)
        return None if as_written or files.has_checksum(path, self.checksum) else self._changed()

    def corruption(self, store: Path, progress: Callable[[int], Any] = lambda read: None) -> str | None:
        """The same by reading every byte, whatever its date; `progress` is called with how many more are read."""
        if fault := self.misfit(store):
            return fault
        return None if files.checksum_now(store / self.path, progress) == self.checksum else self._changed()

    def checked(self, store: Path) -> Path:
        """The file's path on this machine, for what maps or opens it by itself and does not see damage (FAISS, NumPy,
        DuckDB): `faiss.read_index(str(file.checked(store)))`.

        Every byte is read and compared with the checksum when the file is first opened on this machine, and again once
        it is another file or has another size or date: storage/files/checksums.py. Raises FileNotFoundError, Damaged.
        """
        return files.checked(store / self.path, self.checksum)

    def _look(self, store: Path, seen: Mapping[Path, Status]) -> tuple[Status | None, str | None]:
        try:
            now = seen.get(store / self.path) or files.status(store / self.path)
        except FileNotFoundError:
            return None, f"{self.path} is missing"
        size = f"{self.path} has {now.size:,} bytes and was written with {self.bytes:,}"
        return now, None if now.size == self.bytes else size

    def _changed(self) -> str:
        return f"{self.path} differs from what was written (checksum)"


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
        written = [File(**file) for file in value["files"]]
        return cls(**{**value, "files": written, "cost": Cost(**value["cost"])})


@dataclass(frozen=True)
class Manifest:
    """Says that an artifact is complete, what it holds and what it was made from. `whole`: files about all shards;
    `model`: what did the work, as the prices list it; none of a stage without one, and of artifacts made before it was
    recorded."""

    stage: str
    version: str
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
    model: str | None = None
    whole: list[File] = field(default_factory=list)

    @classmethod
    def from_json(cls, value: Mapping[str, Any], shards: list[ShardRecord]) -> "Manifest":
        preparation = value["preparation"] and ShardRecord.from_json(value["preparation"])
        whole = [File(**file) for file in value.get("whole", [])]
        records = {"shards": shards, "preparation": preparation, "whole": whole}
        return cls(**{"version": "1", **value, **records})

    def files(self) -> Iterator[File]:
        """All that belongs to the artifact, besides its records."""
        yield from self.whole
        yield from self.preparation.files if self.preparation else ()
        for shard in self.shards:
            yield from shard.files

    def read(self, store: Path, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """All shards of one of the artifact's tables, one below the other. Raises FileNotFoundError."""
        return files.read_tables((store / file.path for file in self.files() if file.table == table), columns)

    @cached_property
    def placed(self) -> dict[str, str]:
        """The path of every file by its plain path: in a bucket it says which attempt wrote it."""
        return {plain(file.path): file.path for file in self.files()}

    def note(self, name: str) -> int:
        """The sum of a note over all shards."""
        return self._notes[name]

    @cached_property
    def _notes(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for shard in self.shards:
            total.update(shard.notes)
        return total


SHARDS = "done/shards.parquet"
"""The done-markers of a complete artifact as a table, which is read at once: 10⁸ passages have some 25,000 of them."""
_FILES = pa.list_(
    pa.struct(
        {
            "table": pa.string(),
            "path": pa.string(),
            "rows": pa.int64(),
            "bytes": pa.int64(),
            "checksum": pa.string(),
            "modified_ns": pa.int64(),
        }
    )
)


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """First the table of the shards, then manifest.json, which has the checksum of it. Raises NotWritten."""
    shards = manifest.shards
    columns = {
        "shard": pa.array([shard.shard for shard in shards], pa.int32()),
        "run_id": pa.array([shard.run_id for shard in shards], pa.string()),
        "rows_in": pa.array([shard.rows_in for shard in shards], pa.int64()),
        "files": pa.array([[vars(file) for file in shard.files] for shard in shards], _FILES),
        "cost": pa.array([vars(shard.cost) for shard in shards]),
        "notes": pa.array([[*shard.notes.items()] for shard in shards], pa.map_(pa.string(), pa.int64())),
    }
    files.write_table(directory / SHARDS, pa.table(columns))
    stored = {"file": SHARDS, "checksum": files.checksum(directory / SHARDS)}
    files.write_json(directory / "manifest.json", asdict(replace(manifest, shards=[])) | {"shards": stored})


def read_manifest(directory: Path) -> Manifest:
    """Raises FileNotFoundError, and DamagedRecord where it or the table of the shards is not as it was written."""

    def whole(value: dict[str, Any]) -> Manifest:
        return Manifest.from_json(value, _read_shards(directory, value["shards"]))

    return files.read_record(directory / "manifest.json", whole)


def _read_shards(directory: Path, stored: Any) -> list[ShardRecord]:
    if isinstance(stored, list):  # as it was until November 2026
        return [ShardRecord.from_json(shard) for shard in stored]
    path = directory / stored["file"]
    try:
        rows = files.read_table(files.checked(path, stored["checksum"])).to_pylist()
    except FileNotFoundError:
        raise DamagedRecord(f"{path} is missing") from None
    except files.Damaged:
        raise DamagedRecord(f"{path} differs from what was written (checksum)") from None
    return [ShardRecord.from_json({**row, "notes": dict(row["notes"])}) for row in rows]


def known_manifest(directory: Path) -> Manifest | None:
    """The manifest, None where it is missing or damaged; parsed once per process while its file is the same."""
    with suppress(FileNotFoundError, DamagedRecord):
        return _manifest(directory, files.status(directory / "manifest.json"))
    return None


def known_record(marker: Path) -> ShardRecord | None:
    """A done-marker, None where it is missing or damaged; parsed once per process while its file is the same."""
    with suppress(FileNotFoundError, DamagedRecord):
        if files.is_in_bucket(marker):  # to look whether it is the same is as dear as to read it
            return files.read_record(marker, ShardRecord.from_json)
        return _record(marker, files.status(marker))
    return None


@lru_cache(256)
def _manifest(directory: Path, now: Status) -> Manifest:
    return read_manifest(directory)


@lru_cache(1 << 15)
def _record(marker: Path, now: Status) -> ShardRecord:
    return files.read_record(marker, ShardRecord.from_json)
