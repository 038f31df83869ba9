"""Compare every byte of a store with its records."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from vitalfew.storage import files, generations, journals, runs
from vitalfew.storage.artifacts import Artifact, File, Manifest
from vitalfew.storage.files import DamagedRecord
from vitalfew.storage.manifests import read_description, read_manifest, read_marker
from vitalfew.storage.upkeep import inventory
from vitalfew.storage.upkeep.removal import leftovers, unneeded

_SHARD = re.compile(r"\d{5}\.")
"""How the name of a shard's file begins."""


@dataclass(frozen=True)
class StoreFault:
    """A fault, in words, and its remedy: in words, or else to write `artifact` again, once `remove` is removed."""

    what: str
    artifact: str = ""
    remedy: str = ""
    remove: Path | None = None


def bytes_to_read(artifacts: Sequence[Artifact]) -> int:
    return sum(file.bytes for artifact in artifacts for file in _files(artifact))


def select(store: Path, names: Sequence[str], indexes: Sequence[str]) -> list[Artifact]:
    """The artifacts that are named (TABLE/FINGERPRINT, or how it begins) or that an index uses; all where none is.

    Raises ValueError and IndexNotFound.
    """
    artifacts = inventory.artifacts(store)
    if not names and not indexes:
        return artifacts
    wanted = {name for index in indexes for name in runs.find_index(store, index).artifacts.values()}
    for name in names:
        matching = {own.name for own in artifacts if own.name.startswith(name) or own.fingerprint.startswith(name)}
        if not matching:
            raise ValueError(f"no artifact {name!r} in {store}; `vitalfew store ls` lists them")
        wanted |= matching
    return [Artifact(store, *name.split("/")) for name in sorted(wanted)]


def verify(artifacts: Sequence[Artifact], progress: Callable[[int], Any]) -> Iterator[StoreFault]:
    """The faults of these artifacts, reading every byte; `progress` is called with how many more are read."""
    places = inventory.located(artifacts[0].store) if artifacts else {}
    for artifact in artifacts:
        yield from _damaged_records(artifact)
        for path in journals.paths(artifact):  # a line that a kill tore does not count: its answer had not been used
            if damaged := files.read_lines(path).damaged:
                what = f"{path}: {damaged} answers differ from what was written (checksum)"
                yield StoreFault(what, artifact.name, "run the same command again; it asks and pays for them again")
        for file in _files(artifact):
            if fault := file.fault(artifact.store, "always", progress=progress):
                # Where this machine cannot remember what it has just read, a run believes the file's size and date.
                unseen = file.fault(artifact.store) is None
                yield StoreFault(fault, artifact.name, remove=artifact.store / file.path if unseen else None)
        if manifest := artifact.recorded_manifest():
            yield from _faults_of_complete(artifact, manifest, places[artifact])


def _files(artifact: Artifact) -> Iterator[File]:
    """The files in the manifest, or in the done-markers as long as there is none."""
    manifest = artifact.recorded_manifest()
    yield from manifest.files() if manifest else (file for record in artifact.records() for file in record.files)


def _damaged_records(artifact: Artifact) -> Iterator[StoreFault]:
    home = artifact.directory
    if damage := _damage(lambda: read_manifest(home)):
        yield StoreFault(damage, artifact.name)
    elsewhere = artifact.recorded_manifest() is not None
    checks: list[tuple[Path, Callable[[], Any]]] = [(home / "stage.json", partial(read_description, home))]
    checks += [(path, partial(read_marker, path)) for path in files.find(home / "done", "*.json")]
    for path, check in checks:
        if damage := _damage(check):
            remedy = f"rm {quote(str(path))}; the manifest has the same information" if elsewhere else ""
            yield StoreFault(damage, artifact.name, remedy)
    if not files.is_folder(home):
        yield StoreFault(f"{artifact.name} is missing", artifact.name)


def _damage(read: Callable[[], Any]) -> str | None:
    """Say in words how a record is damaged; None where it is whole, or where there is none."""
    try:
        with suppress(FileNotFoundError):
            read()
    except files.Damaged as error:
        return str(error)
    return None


def _faults_of_complete(artifact: Artifact, manifest: Manifest, places: list[Path]) -> Iterator[StoreFault]:
    try:
        files.read_table(artifact.ledger)
    except FileNotFoundError:
        yield StoreFault(f"{artifact.ledger.relative_to(artifact.store)} is missing", artifact.name)
    except files.Damaged as error:
        yield StoreFault(str(error), artifact.name, remove=artifact.ledger)
    recorded = {artifact.store / file.path for file in manifest.files()}
    for part in places:
        if part.parent.name == "quotes":  # written before the artifact, by the plan
            continue
        for path in files.find(part):
            if _SHARD.match(path.name) and path not in recorded:
                remedy = f"look at it, then rm {quote(str(path))}"
                yield StoreFault(f"{path} belongs to no shard in the manifest", artifact.name, remedy)


def verify_records(store: Path) -> Iterator[StoreFault]:
    """Faults outside of artifacts: runs, indexes, what was left behind."""
    for run in runs.read_runs(store):
        if run.state == runs.UNREADABLE:
            record = quote(str(store / "runs" / f"{run.run_id}.json"))
            remedy = f"rm {record}, unless the run is still working; its costs stay in the ledger"
            yield StoreFault(run.error, remedy=remedy)
    for name in runs.index_names(store):
        try:
            index = runs.find_index(store, name)
        except DamagedRecord as error:
            yield StoreFault(str(error), remedy=f"run the same `vitalfew index` again, or `vitalfew store rm {name}`")
            continue
        for artifact in index.artifacts.values():
            if not files.exists(store / artifact / "manifest.json"):
                yield StoreFault(f"index {name}: {artifact} is missing or not complete", artifact)
        for damaged in generations.damage(store, name):
            yield StoreFault(str(damaged), remedy="remove that file to give this generation up; its run is recorded")
    for removal in [*unneeded(store), *leftovers(store)]:
        if removal.kind == "directory" and removal.name.startswith("quotes/"):  # of a plan that was not run
            continue
        yield StoreFault(f"{removal.name}: {removal.why}", remedy="`vitalfew store gc --delete` removes it")
