"""A store copied to another place, between directories and buckets: what is complete, its records and its costs.

Files come before the records that name them, and an artifact's inputs before the artifact, so that the copy can be used
at any moment as far as it is. Every byte is compared with its checksum on the way; what is there already, whole, is not
copied again, so that a copy that was cut off goes on. What a directory calls `00007.parquet` gets a name by its content
in a bucket, where a name is written once; the other way it loses it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from vitalfew.storage import files, runs
from vitalfew.storage.artifacts import Artifact, Manifest, ShardRecord, complete_artifacts, fingerprint
from vitalfew.storage.catalog import database as catalog
from vitalfew.storage.costs import read_ledger, write_ledger
from vitalfew.storage.manifests import File, read_manifest, write_manifest
from vitalfew.storage.names import copied_path, is_attempt, plain_path
from vitalfew.storage.runs import IndexNotFound


@dataclass(frozen=True)
class Copied:
    """An artifact that is in the target now; `bytes` that were copied for it, 0 where it was there."""

    name: str
    bytes: int
    was_there: bool


class CannotCopy(ValueError):
    """The two places do not go together, or a file must not be copied: the message says why."""


def check_places(source: Path, target: Path) -> None:
    """Raises CannotCopy where one store lies in the other."""
    one, other = files.absolute(source), files.absolute(target)
    if type(one) is type(other) and (one.is_relative_to(other) or other.is_relative_to(one)):
        raise CannotCopy(f"{source} and {target}: one is inside the other; give a separate place")


def select(source: Path, indexes: Sequence[str]) -> list[tuple[Artifact, Manifest]]:
    """What is to be copied, inputs first: all that is complete, or what these indexes were made of.

    Raises IndexNotFound, and DamagedRecord where a manifest is not as it was written.
    """
    whole = {artifact.name: (artifact, manifest) for artifact, manifest in complete_artifacts(source)}
    for path in files.find(source, "*/*/manifest.json"):
        if f"{path.parent.parent.name}/{path.parent.name}" not in whole:
            with suppress(FileNotFoundError):  # a kill kept it from being written
                read_manifest(path.parent)
    wanted = [name for index in indexes for name in runs.find_index(source, index).artifacts.values()] or [*whole]
    ordered: dict[str, tuple[Artifact, Manifest]] = {}

    def add(name: str) -> None:
        if name in whole and name not in ordered:
            for earlier in whole[name][1].inputs.values():
                add(earlier)
            ordered[name] = whole[name]

    for name in wanted:
        add(name)
    return [*ordered.values()]


def copy(chosen: Sequence[tuple[Artifact, Manifest]], target: Path, progress: Callable[[int], Any]) -> Iterator[Copied]:
    """Copy artifacts with what they cost; `progress` is called with how many more bytes are there.

    Raises Damaged where a file of the source is not as it was written, FileNotFoundError where it was removed, and
    CannotCopy where it is a symbolic link: what that leads to may be no part of the store.
    """
    for artifact, manifest in chosen:
        _check_links(artifact, manifest)
        other = replace(artifact, store=target)
        size = sum(file.bytes for file in manifest.files())
        there = other.manifest() is not None
        if there:
            progress(size)
        else:
            with other.locked():
                _copy_artifact(artifact, manifest, other, progress)
        write_ledger(other.ledger, read_ledger(artifact.ledger))
        yield Copied(artifact.name, 0 if there else size, there)


def _check_links(artifact: Artifact, manifest: Manifest) -> None:
    records = [artifact.directory / name for name in ("manifest.json", "stage.json", "done")]
    for path in [*records, artifact.ledger, *(artifact.store / file.path for file in manifest.files())]:
        if not files.is_inside(artifact.store, path):
            raise CannotCopy(f"{_link(path)}: put what the link leads to in its place, then run the same command again")


def _link(path: Path) -> str:
    return f"{path} is a symbolic link, or behind one, and links are not copied"


def _copy_artifact(artifact: Artifact, manifest: Manifest, other: Artifact, progress: Callable[[int], Any]) -> None:
    other.begin({**(artifact.description() or {}), "shards": len(manifest.shards)})

    every = [*manifest.files()]
    content = fingerprint(files=sorted((file.path, file.checksum) for file in every))

    def copied(file: File) -> File:
        copy = replace(file, path=_named(file.path, other.store, content))
        return _copy_file(artifact.store, other.store, file, copy, progress)

    def record(shard: ShardRecord) -> ShardRecord:
        return replace(shard, files=[known[file.path] for file in shard.files])

    bucket = artifact.store if files.is_in_bucket(artifact.store) else other.store
    known = dict(zip((file.path for file in every), files.at_once(bucket, copied, every), strict=True))
    preparation = manifest.preparation and record(manifest.preparation)
    shards = [record(shard) for shard in manifest.shards]
    for each in [*([preparation] if preparation else []), *shards]:
        files.write_json(other.marker(each.shard), asdict(each))
    files.confirm_lock(other.lock)
    whole = [known[file.path] for file in manifest.whole]
    write_manifest(other.directory, replace(manifest, shards=shards, preparation=preparation, whole=whole))


def _named(path: str, target: Path, content: str) -> str:
    """What a file is called in the target."""
    plain = plain_path(path)
    if not files.is_in_bucket(target):
        return plain
    return path if is_attempt(path) else copied_path(plain, content)


def _copy_file(source: Path, target: Path, file: File, copy: File, progress: Callable[[int], Any]) -> File:
    """Copy a file unless it is there, whole. Raises Damaged, FileNotFoundError."""
    written_once = is_attempt(copy.path)
    if copy.misfit(target) if written_once else copy.corruption(target):
        files.copy(source / file.path, target / copy.path, file.checksum)
    progress(file.bytes)
    return replace(copy, modified_ns=files.status(target / copy.path).modified_ns)


def copy_records(source: Path, target: Path, indexes: Sequence[str]) -> list[str]:
    """Copy the records that the target lacks: runs that have ended, quotes, named indexes, reports; then its catalog is
    written. Returns what was not copied and why, in words. `indexes`: these alone, and no other record."""
    kept = [told for name in indexes or runs.index_names(source) if (told := _copy_index(source, target, name))]
    if not indexes:
        ended = [run for run in runs.read_runs(source) if run.state not in ("running", runs.UNREADABLE)]
        for run in ended:
            runs.import_run(target, run)
        kept += _copy_missing(source, target, "quotes/*/*.parquet")
        kept += _copy_missing(source, target, "reports/*/*")
    catalog.refresh(target)
    return kept


def _copy_index(source: Path, target: Path, name: str) -> str | None:
    index = runs.find_index(source, name)
    try:
        there = runs.find_index(target, name)
    except IndexNotFound:
        runs.save_index(target, index)
        return None
    same = there.artifacts == index.artifacts
    return (
        None
        if same
        else f"{target}: index {name} refers to other artifacts there; run `vitalfew store rm {name}` first"
    )


def _copy_missing(source: Path, target: Path, pattern: str) -> list[str]:
    """Copy files that match; returns which were not copied, and why, in words."""
    kept = []
    for path in files.find(source, pattern):
        place = target / path.relative_to(source)
        if files.is_folder(path) or files.exists(place):
            continue
        if files.is_inside(source, path):
            files.write_bytes(place, files.read_bytes(path))
        else:
            kept.append(_link(path))
    return kept
