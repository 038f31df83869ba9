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

from vitalfew.storage import files, generations, runs, version
from vitalfew.storage.artifacts import Artifact, Manifest, ShardRecord, complete_artifacts, fingerprint
from vitalfew.storage.catalog import database as catalog
from vitalfew.storage.costs import read_ledger, write_ledger
from vitalfew.storage.manifests import File, read_manifest, write_manifest
from vitalfew.storage.names import copied_path, is_attempt, plain_path
from vitalfew.storage.reviews import add_reviews, read_reviews
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
    """Raises CannotCopy where one store is in the other, and OtherVersion where one of them is of another version."""
    one, other = files.absolute(source), files.absolute(target)
    if type(one) is type(other) and (one.is_relative_to(other) or other.is_relative_to(one)):
        raise CannotCopy(f"{source} and {target}: one is inside the other; give a separate place")
    for store in (source, target):
        version.check(store)


def select(source: Path, indexes: Sequence[str]) -> list[tuple[Artifact, Manifest]]:
    """Choose what to copy, inputs first: all that is complete, or the artifacts of these indexes.

    Raises IndexNotFound, and DamagedRecord where a manifest is not as it was written.
    """
    whole = {artifact.name: (artifact, manifest) for artifact, manifest in complete_artifacts(source)}
    for path in files.find(source, "*/*/manifest.json"):
        if f"{path.parent.parent.name}/{path.parent.name}" not in whole:
            with suppress(FileNotFoundError):  # it was removed meanwhile
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
    source, target, every = artifact.store, other.store, [*manifest.files()]
    content = fingerprint(files=sorted((file.path, file.checksum) for file in every))

    def copied(file: File) -> File:
        """Copy a file unless it is there, whole."""
        path = plain_path(file.path)
        if files.is_in_bucket(target):
            path = file.path if is_attempt(file.path) else copied_path(path, content)
        copy = replace(file, path=path)
        if copy.fault(target, "never" if is_attempt(path) else "always"):
            files.copy(source / file.path, target / path, file.checksum)
        progress(file.bytes)
        return replace(copy, modified_ns=files.status(target / path).modified_ns)

    def record(shard: ShardRecord) -> ShardRecord:
        mapped = replace(shard, files=[known[file.path] for file in shard.files])
        files.write_json(other.marker(shard.shard), asdict(mapped))
        return mapped

    bucket = source if files.is_in_bucket(source) else target
    known = dict(zip((file.path for file in every), files.at_once(bucket, copied, every), strict=True))
    preparation = manifest.preparation and record(manifest.preparation)
    shards = [record(shard) for shard in manifest.shards]
    files.confirm_lock(other.lock)
    whole = [known[file.path] for file in manifest.whole]
    write_manifest(other.directory, replace(manifest, shards=shards, preparation=preparation, whole=whole))


def copy_records(source: Path, target: Path, indexes: Sequence[str]) -> list[str]:
    """Copy the records that the target lacks: runs that have ended, quotes, named indexes, reviews, reports; then
    write its catalog. Returns what was not copied and why, in words. `indexes`: these alone, and no other record."""
    kept = [why for name in indexes or runs.index_names(source) if (why := _copy_index(source, target, name))]
    if not indexes:
        for run in runs.read_runs(source):
            if run.state not in ("running", runs.UNREADABLE):
                runs.import_run(target, run)
        kept += _copy_missing(source, target, "quotes/*/*.parquet")
        kept += _copy_reviews(source, target)
        kept += _copy_missing(source, target, "reports/*/*")
    catalog.refresh(target)
    return kept


def _copy_index(source: Path, target: Path, name: str) -> str | None:
    index = runs.find_index(source, name)
    try:
        there = runs.find_index(target, name)
    except IndexNotFound:
        generations.copy(source, target, name)
        return None
    if there.artifacts == index.artifacts:
        return None
    return f"{target}: index {name} refers to other artifacts there; run `vitalfew store rm {name}` first"


def _copy_reviews(source: Path, target: Path) -> list[str]:
    """Add the reviews that the target lacks; a reviewer's other verdict there stays. Returns where, in words."""
    kept = []
    for path in files.find(source, "reviews/*/*.parquet"):
        run_id = path.parent.name
        if not files.is_inside(source, path):
            kept.append(_link(path))
            continue
        reviews, there = read_reviews(source, run_id), {own.subject: own for own in read_reviews(target, run_id)}
        add_reviews(target, run_id, [own for own in reviews if own.subject not in there])
        if other := sum(own.subject in there and there[own.subject].said != own.said for own in reviews):
            kept.append(f"{target}: {other:,} reviews of run {run_id} say something else there, and stay")
    return kept


def _copy_missing(source: Path, target: Path, pattern: str) -> list[str]:
    """Copy files that match. Returns which were not copied and why, in words."""
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
