"""Remove what nothing refers to any more; storage/upkeep/inventory.py says what that means.

An artifact is removed under its lock, and after another look at what refers to it: first its manifest and done-markers,
so that a kill in the middle leaves an unfinished artifact and never one that looks complete, then its files. Nothing is
removed through a symbolic link.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from vitalfew.storage import files, journals
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.catalog import database as catalog
from vitalfew.storage.files import Status
from vitalfew.storage.indexes.remembered import FOLDER, encoding_of
from vitalfew.storage.upkeep import inventory
from vitalfew.storage.upkeep.inventory import SILENCE, RetentionPolicy, parts, references


@dataclass(frozen=True)
class Removal:
    """A removal that `gc` proposes: a path below the store, why, and how many bytes that frees."""

    kind: Literal["artifact", "directory", "staging", "remembered", "file"]
    name: str
    why: str
    bytes: int


@dataclass(frozen=True)
class RemovalPlan:
    """The proposed removals, and by artifact name why the others are kept."""

    removals: list[Removal]
    kept: dict[str, str]


def plan(store: Path, policy: RetentionPolicy) -> RemovalPlan:
    """List what would be removed, and remove nothing. Raises UnknownReferences."""
    referred = references(store, policy)
    removals, kept = [], {}
    for artifact, places in inventory.located(store).items():
        if reason := referred.get(artifact.name) or _untouchable(artifact, places):
            kept[artifact.name] = reason
        else:
            size = sum(map(files.tree_bytes, places))
            removals.append(Removal("artifact", artifact.name, "nothing refers to it", size))
    going = {removal.name for removal in removals}
    removals += unused_vectors(store, going)
    for removal in [*unneeded(store), *leftovers(store)]:
        if removal.kind != "staging" or str(Path(removal.name).parent) not in going:
            removals.append(removal)
    return RemovalPlan(removals, kept)


def _untouchable(artifact: Artifact, places: list[Path], ours: bool = False) -> str | None:
    """Say why an artifact in these directories, that nothing refers to, is left alone; `ours`: its lock is held by this
    process."""
    if not ours and files.is_locked(artifact.lock):
        return "a process is working on it"
    for part in places:
        if not files.is_inside(artifact.store, part):
            return f"{part.relative_to(artifact.store)} is behind a symbolic link: remove it by hand"
    return None


def unneeded(store: Path) -> Iterator[Removal]:
    """Directories whose artifact is gone, and the staging of complete artifacts."""
    artifacts = inventory.artifacts(store)
    homes = {artifact.fingerprint for artifact in artifacts}
    for path in inventory.directories(store):
        if path.name not in homes and files.is_inside(store, path):
            name = str(path.relative_to(store))
            yield Removal("directory", name, "it belongs to no artifact", files.tree_bytes(path))
    for artifact in artifacts:
        staging = artifact.directory / "staging"
        if files.is_folder(staging) and artifact.recorded_manifest() and files.is_inside(store, staging):
            name = str(staging.relative_to(store))
            yield Removal("staging", name, "its artifact is complete", files.tree_bytes(staging))


def unused_vectors(store: Path, going: Collection[str] = ()) -> Iterator[Removal]:
    """The vectors that searches had made by an encoder that no index has; `going`: artifacts that are removed too."""
    vectors = [each for each in inventory.artifacts(store) if each.table == "vectors" and each.name not in going]
    used = {encoding_of(description) for each in vectors if (description := each.description())}
    for path in files.folders(store / FOLDER):
        if path.name not in used and files.is_inside(store, path):
            yield Removal("remembered", f"{FOLDER}/{path.name}", "no index has its encoder", files.tree_bytes(path))


def leftovers(store: Path) -> Iterator[Removal]:
    """Temporary files of processes that are known to have ended, and of others after SILENCE."""
    silent = time.time_ns() - SILENCE.total_seconds() * 1e9
    for path, status in files.walk(store):
        if files.is_leftover(path) or (files.is_temporary(path) and status.modified_ns < silent):
            name = str(path.relative_to(store))
            yield Removal("file", name, "left behind by a process that was killed", status.size)
    if not files.is_in_bucket(store):
        return
    for artifact in inventory.artifacts(store):
        for path in artifact.superseded(manifest) if (manifest := artifact.recorded_manifest()) else ():
            yield Removal("file", str(path.relative_to(store)), "left by an attempt that did not count", 0)


def remove(store: Path, removals: Sequence[Removal], policy: RetentionPolicy) -> Iterator[tuple[Removal, str | None]]:
    """Remove one after the other; yields each with why it was kept after all, or None. Ends with a new catalog."""
    referred = _latest_references(store, policy)
    try:
        for removal in removals:
            yield removal, _remove(store, removal, referred)
    finally:
        catalog.refresh(store)


def _latest_references(store: Path, policy: RetentionPolicy) -> Callable[[], dict[str, str]]:
    """A look-up of the references, which looks again only where a run or an index was recorded since the last call."""
    known = lru_cache(1)(lambda now: references(store, policy))

    def seen(record: Path) -> Status | None:
        with suppress(FileNotFoundError):  # it was removed meanwhile
            return files.status(record)
        return None

    def latest() -> dict[str, str]:
        patterns = ("runs/*.json", "indexes/*.json", "generations/*.json")
        records = [path for pattern in patterns for path in files.find(store, pattern)]
        return known(frozenset((path, seen(path)) for path in records))

    return latest


def _remove(store: Path, removal: Removal, referred: Callable[[], dict[str, str]]) -> str | None:
    path = store / removal.name
    if not files.is_inside(store, path.parent):
        return "it is now behind a symbolic link"
    if removal.kind == "file":
        return _remove_file(store, path)
    if removal.kind == "directory":
        if any(artifact.fingerprint == path.name for artifact in inventory.artifacts(store)):
            return "it now belongs to an artifact"
        files.remove_tree(path)
    elif removal.kind == "remembered":
        if removal.name not in {each.name for each in unused_vectors(store)}:
            return "an index has its encoder now"
        files.remove_tree(path)
    else:
        artifact = Artifact(store, *path.relative_to(store).parts[:2])
        with files.locked(artifact.lock, wait=False) as held:
            if not held:
                return "a process is working on it or has removed it"
            if removal.kind == "staging":
                files.remove_tree(path)
            elif reason := referred().get(artifact.name) or _untouchable(artifact, parts(artifact), ours=True):
                return reason
            else:
                _remove_artifact(artifact)
    return None


def _remove_file(store: Path, path: Path) -> str | None:
    """A file below an artifact's directory is removed under the artifact's lock, another at once."""
    owners = [each for each in inventory.artifacts(store) if each.fingerprint in path.relative_to(store).parts[1:2]]
    with ExitStack() as locks:
        if not all(locks.enter_context(files.locked(owner.lock, wait=False)) for owner in owners):
            return "a process is working on its artifact"
        files.remove(path)
    return None


def _remove_artifact(artifact: Artifact) -> None:
    """Needs the artifact's lock, which goes last."""
    description = artifact.description() or {}
    model = description.get("model")
    # What was paid for shards of an artifact that was never completed, and for answers of those that were never done.
    if records := [*artifact.records(), *journals.unfinished(artifact, model)]:
        artifact.add_costs(description.get("stage", artifact.table), model, records)
    home, *others = parts(artifact)
    files.remove(home / "manifest.json")
    files.remove_tree(home / "done")
    files.flush(home)
    for part in [*others, home]:
        files.remove_tree(part)
