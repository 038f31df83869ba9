"""The records of an artifact: its files with their checksums, its shards' done-markers, its manifest."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from vitalfew.storage import files
from vitalfew.storage.costs import Cost
from vitalfew.storage.files import DamagedRecord, Status
from vitalfew.storage.names import ArtifactName, FilePath, Moment, RunId, Strict, Table, Word, plain_path, validated
from vitalfew.storage.schemas import INTEGER, LONG, TEXT

PREPARATION = -1
"""The shard number of what a stage does once, before its shards."""
PREPARED = "preparation"
"""The `table` of a file of the preparation; the catalog has no such table."""


@dataclass(frozen=True)
class File(Strict):
    """A file of a shard: its table, its path below the store, its rows, bytes and checksum (BLAKE2b-128).

    `modified_ns` is the date it was given when it was written: while that and the size hold, it is not read again to be
    checked (`vitalfew store verify` reads it all the same).
    """

    table: Table
    path: FilePath
    rows: int
    bytes: int
    checksum: str
    modified_ns: int = 0

    def fault(
        self,
        store: Path,
        read: Literal["never", "if changed", "always"] = "if changed",
        seen: Mapping[Path, Status] | None = None,
        progress: Callable[[int], Any] = lambda read: None,
    ) -> str | None:
        """Say in words how the file differs from what was written; None if it is as it was.

        `read`: its bytes are compared with the checksum never, always, or where its date is another than it was given
        (in a directory: in a bucket files are written once) or this machine has read other bytes. `seen`: the statuses
        of files that were looked at together; `progress` is called with how many more bytes are read.
        """
        path = store / self.path
        try:
            now = (seen or {}).get(path) or files.status(path)
        except FileNotFoundError:
            return f"{self.path} is missing"
        if now.size != self.bytes:
            return f"{self.path} has {now.size:,} bytes and was written with {self.bytes:,}"
        as_given = files.is_in_bucket(path) or now.modified_ns == self.modified_ns
        if read == "always":
            whole = files.checksum_now(path, progress) == self.checksum
        elif read == "never" or (as_given and not files.seen_otherwise(path, now, self.checksum)):
            whole = True
        else:
            whole = files.has_checksum(path, self.checksum)
        return None if whole else f"{self.path} differs from what was written (checksum)"

    def checked(self, store: Path) -> Path:
        """The file's path on this machine, for what maps or opens it by itself and does not see damage (FAISS, NumPy,
        DuckDB). Its checksum is compared as storage/files/checksums.py says. Raises FileNotFoundError, Damaged."""
        return files.checked(store / self.path, self.checksum)


def seen_together(store: Path, written: Iterable[File]) -> dict[Path, Status]:
    """Look at the folders of these files, where that is cheaper than to look at every file."""
    folders = sorted({(store / file.path).parent for file in written}) if files.is_in_bucket(store) else []
    return {path: status for folder in folders for path, status in files.statuses(folder).items()}


def first_fault(
    store: Path, written: Sequence[File], read: Literal["never", "if changed"] = "if changed"
) -> str | None:
    """The first fault of these files, as `File.fault`."""
    seen = seen_together(store, written)
    return next(filter(None, (file.fault(store, read, seen) for file in written)), None)


@dataclass(frozen=True)
class ShardRecord(Strict):
    """A done-marker. `rows_in`: rows the shard was made from; `notes`: counts that the stage adds.

    `others`: what `cost` has of other attempts at the shard, by their names. An attempt that was given up too
    early records only the cost that is not counted yet. Done-markers have it; manifests do not.
    """

    shard: int
    run_id: RunId
    files: list[File]
    rows_in: int
    cost: Cost
    notes: dict[str, int] = field(default_factory=dict)
    others: dict[str, Cost] = field(default_factory=dict)

    def rows(self, table: str) -> int:
        return sum(file.rows for file in self.files if file.table == table)


@dataclass(frozen=True)
class Manifest(Strict):
    """Says that an artifact is complete, what it holds and what it was made from. `whole`: files about all shards;
    `model`: what did the work, as the prices list it; none of a stage without one."""

    stage: Word
    version: str
    artifact: ArtifactName
    inputs: dict[Word, ArtifactName]
    config: dict[str, Any]
    method: dict[str, Any]
    code_version: str
    completed: Moment
    rows_in: int
    rows: dict[Table, int]
    shards: list[ShardRecord]
    preparation: ShardRecord | None = None
    model: str | None = None
    whole: list[File] = field(default_factory=list)

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
        return {plain_path(file.path): file.path for file in self.files()}

    def note(self, name: str) -> int:
        """The sum of a note over all shards."""
        return sum(shard.notes.get(name, 0) for shard in self.shards)


SHARDS = "done/shards.parquet"
"""The done-markers of a complete artifact as a table, which is read at once: 10⁸ passages have some 25,000 of them."""
_FILE = pa.struct({"table": TEXT, "path": TEXT, "rows": LONG, "bytes": LONG, "checksum": TEXT, "modified_ns": LONG})


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """First the table of the shards, then manifest.json, which has the checksum of it. Raises NotWritten."""
    shards = manifest.shards
    columns = {
        "shard": pa.array([shard.shard for shard in shards], INTEGER),
        "run_id": pa.array([shard.run_id for shard in shards], TEXT),
        "rows_in": pa.array([shard.rows_in for shard in shards], LONG),
        "files": pa.array([[vars(file) for file in shard.files] for shard in shards], pa.list_(_FILE)),
        "cost": pa.array([vars(shard.cost) for shard in shards]),
        "notes": pa.array([[*shard.notes.items()] for shard in shards], pa.map_(TEXT, LONG)),
    }
    files.write_table(directory / SHARDS, pa.table(columns))
    stored = {"file": SHARDS, "checksum": files.checksum(directory / SHARDS)}
    files.write_json(directory / "manifest.json", asdict(replace(manifest, shards=[])) | {"shards": stored})


def read_manifest(directory: Path) -> Manifest:
    """Raises FileNotFoundError, and DamagedRecord where it or the table of the shards is not as it was written, or
    names files of another artifact."""

    def whole(value: dict[str, Any]) -> Manifest:
        shards = _read_shards(directory, value["shards"])
        manifest: Manifest = validated(Manifest, {**value, "shards": shards})
        _check_own(directory, manifest.artifact, manifest.files())
        return manifest

    return files.read_record(directory / "manifest.json", whole)


def _read_shards(directory: Path, stored: Any) -> list[ShardRecord]:
    path = directory / SHARDS
    try:
        rows = files.read_table(files.checked(path, stored["checksum"])).to_pylist()
    except FileNotFoundError:
        raise DamagedRecord(f"{path} is missing") from None
    except files.Damaged:
        raise DamagedRecord(f"{path} differs from what was written (checksum)") from None
    return validated(list[ShardRecord], [{**row, "notes": dict(row["notes"])} for row in rows])


def read_description(directory: Path) -> dict[str, Any]:
    """Read `stage.json`: the part of a manifest that is known before the work begins (`stage`, `inputs`, `config`,
    `method`, `model`), and the number of `shards` once it is known. Raises as `read_manifest` does."""
    return files.read_record(
        directory / "stage.json",
        lambda value: {
            **value,
            "stage": validated(Word, value["stage"]),
            "inputs": validated(dict[Word, ArtifactName], value["inputs"]),
        },
    )


def read_marker(marker: Path) -> ShardRecord:
    """A shard's done-marker. Raises as `read_manifest` does."""

    def whole(value: dict[str, Any]) -> ShardRecord:
        record: ShardRecord = validated(ShardRecord, value)
        home = marker.parent.parent
        _check_own(home, f"{home.parent.name}/{home.name}", record.files)
        return record

    return files.read_record(marker, whole)


def _check_own(home: Path, artifact: str, written: Iterable[File]) -> None:
    """Raises ValueError where a record is of another artifact than the one in this directory, or has files of it."""
    if artifact != f"{home.parent.name}/{home.name}":
        raise ValueError(f"it is the record of {artifact}")
    for file in written:
        table, fingerprint, *_ = file.path.split("/")
        if fingerprint != home.name or table not in (file.table, home.parent.name):
            raise ValueError(f"{file.path} does not belong to {artifact}")


def known_manifest(directory: Path) -> Manifest | None:
    """The manifest, None where it is missing or damaged; parsed once per process while its file is the same."""
    with suppress(FileNotFoundError, DamagedRecord):
        return _manifest(directory, files.status(directory / "manifest.json"))
    return None


def known_record(marker: Path) -> ShardRecord | None:
    """A done-marker, None where it is missing or damaged; parsed once per process while its file is the same."""
    with suppress(FileNotFoundError, DamagedRecord):
        if files.is_in_bucket(marker):  # to look whether it is the same is as dear as to read it
            return read_marker(marker)
        return _record(marker, files.status(marker))
    return None


@lru_cache(256)
def _manifest(directory: Path, now: Status) -> Manifest:
    return read_manifest(directory)


@lru_cache(1 << 15)
def _record(marker: Path, now: Status) -> ShardRecord:
    return read_marker(marker)
