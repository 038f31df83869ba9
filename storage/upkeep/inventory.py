"""The artifacts of a store, and the references to them.

An artifact is *referred to*, and kept by `store gc`, when

- an index's name points at it; of such a name, `generations` says how many of the latest keep theirs, and how many of
  those that were current last;
- of the completed runs of such a name, it is among those of the latest `keep_runs`;
- of the completed evaluations of an experiment, or trainings by a recipe, it is among the latest `keep_runs`;
- a run that is running makes or uses it, or a process holds its lock. Whether a run of another machine, container or
  boot still works cannot be seen: it is believed until nothing of it has been written for SILENCE;
- a run that did not complete would go on from it: one that no completed run of its name has followed, for
  `unfinished_days` after it ended;
- an artifact that is referred to was computed from it.

Old runs refer to nothing: their records and what they cost are history and stay, their artifacts do not.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from vitalfew.storage import files, generations, journals, runs, version
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.files import DamagedRecord
from vitalfew.storage.manifests import first_fault
from vitalfew.storage.runs import Run

SILENCE = timedelta(days=7)
HOMES = ("manifest.json", "stage.json", "done", "lock")
"""Names in the directory of an artifact's first table, which the directories of its other tables lack."""
_OTHERS = {
    *("costs", "decisions", "generations", "indexes", "published"),
    *("remembered", "reports", "requests", "reviews", "runs"),
}
_KEPT_FLOWS = ("evaluate", "train", runs.WRITING)
"""Flows whose latest completed runs refer to their artifacts; those of an index do through its name."""
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class RetentionPolicy:
    """How much `gc` keeps: completed runs per name, days to continue an unfinished run, and generations per index."""

    keep_runs: int = 1
    unfinished_days: float = 30
    generations: int = 3

    def latest(self, completed: list[Run]) -> list[Run]:
        return completed[max(0, len(completed) - self.keep_runs) :]


@dataclass
class StoredArtifact:
    """A stored artifact. `bytes`: of all its files; `modified`: POSIX seconds; `usd`: the cost of its shards and of
    the answers that were paid for shards that are not done."""

    artifact: Artifact
    stage: str
    state: str
    fault: str
    shards_done: int
    shards: int | None
    rows: int
    bytes: int
    modified: float
    usd: float
    made_by: list[str]
    used_by: list[str] = field(default_factory=list)
    indexes: list[str] = field(default_factory=list)


class UnknownReferences(ValueError):
    """The references are not known: the message names the record that cannot be read, and the remedy."""


def check_store(store: Path) -> None:
    """Raises FileNotFoundError where there is none, and OtherVersion."""
    if not files.is_folder(store):
        raise FileNotFoundError(
            f"no store at {store}; `vitalfew index DATASET --name NAME` makes one, or give --store DIR"
        )
    version.check(store)


def tables(store: Path) -> list[Path]:
    """The directories that hold artifacts, without the ledger."""
    return [path for path in files.folders(store) if path.name not in _OTHERS and not path.name.startswith(".")]


def directories(store: Path) -> Iterator[Path]:
    """Every `<table>/<fingerprint>`."""
    for table in tables(store):
        yield from filter(is_fingerprinted, files.folders(table))


def is_fingerprinted(directory: Path) -> bool:
    return _FINGERPRINT.fullmatch(directory.name) is not None


def is_home(directory: Path) -> bool:
    """Return true if an artifact's records lie here."""
    return any(files.exists(directory / name) for name in HOMES)


def located(store: Path) -> dict[Artifact, list[Path]]:
    """Every artifact with its directories: that of its records first, then those of its other tables."""
    homes, others = list[Path](), defaultdict[str, list[Path]](list)
    for path in directories(store):
        (homes if is_home(path) else others[path.name]).append(path)
    return {Artifact(store, home.parent.name, home.name): [home, *others[home.name]] for home in homes}


def artifacts(store: Path) -> list[Artifact]:
    return [*located(store)]


def parts(artifact: Artifact) -> list[Path]:
    """As `located`, of one artifact."""
    named = (path for path in directories(artifact.store) if path.name == artifact.fingerprint)
    return [artifact.directory, *(path for path in named if path != artifact.directory and not is_home(path))]


def survey(store: Path) -> list[StoredArtifact]:
    """Every artifact, from records and sizes alone: no table is read."""
    entries = [_entry(*each) for each in located(store).items()]
    by_name = {entry.artifact.name: entry for entry in entries}
    for run in runs.read_runs(store):
        for name in run.fingerprints:
            if name in by_name:
                by_name[name].used_by.append(run.run_id)
    for name in runs.index_names(store):
        with suppress(DamagedRecord):
            for artifact in runs.find_index(store, name).artifacts.values():
                if artifact in by_name:
                    by_name[artifact].indexes.append(name)
    return entries


def _entry(artifact: Artifact, parts: list[Path]) -> StoredArtifact:
    manifest = artifact.recorded_manifest()
    records = [*filter(None, [manifest.preparation]), *manifest.shards] if manifest else list(artifact.records())
    done = [record for record in records if record.shard >= 0]
    description = artifact.description() or {}
    every = [*manifest.files()] if manifest else [file for record in records for file in record.files]
    fault = first_fault(artifact.store, every, read="never") or ""
    if not manifest and files.exists(artifact.file("manifest.json")):
        fault = "manifest.json is damaged"
    return StoredArtifact(
        artifact=artifact,
        stage=manifest.stage if manifest else description.get("stage", "?"),
        state="damaged" if fault else "complete" if manifest else "unfinished",
        fault=fault,
        shards_done=len(done),
        shards=len(done) if manifest else description.get("shards"),
        rows=sum(record.rows(artifact.table) for record in done),
        bytes=sum(map(files.tree_bytes, parts)),
        modified=last_sign(artifact),
        usd=sum(record.cost.usd for record in [*records, *journals.unfinished(artifact, description.get("model"))]),
        made_by=sorted({record.run_id for record in records}),
    )


def last_sign(artifact: Artifact) -> float:
    """When something was last written for an artifact (POSIX seconds)."""
    return max((status.modified_ns for _, status in files.walk(artifact.directory)), default=0) / 1e9


def references(store: Path, policy: RetentionPolicy) -> dict[str, str]:
    """The artifacts that are referred to, with why, in words. Raises UnknownReferences."""
    reasons: dict[str, str] = {}
    recorded = runs.read_runs(store)
    if unreadable := [run for run in recorded if run.state == runs.UNREADABLE]:
        raise UnknownReferences(
            f"{unreadable[0].error}; it may belong to a run that is still working. If none is, remove that file"
        )
    for run in recorded:
        if reason := _run_reason(store, run, recorded, policy):
            for name in run.fingerprints:
                reasons.setdefault(name, reason)
    for name in runs.index_names(store):
        _refer_to_index(store, name, recorded, policy, reasons)
    _refer_to_inputs(store, reasons)
    return reasons


def _run_reason(store: Path, run: Run, recorded: list[Run], policy: RetentionPolicy) -> str | None:
    alike = [other for other in recorded if (other.flow, other.name) == (run.flow, run.name)]
    completed = [other for other in alike if other.state == "completed"]
    if run.state == "completed":
        kept = run.flow in _KEPT_FLOWS and run in policy.latest(completed)
        return f"run {run.run_id} is among the last {policy.keep_runs} of {run.name}" if kept else None
    now, in_sight = datetime.now(UTC), files.is_in_sight(run.process)
    if run.state == "running" and (in_sight or now - _last_of(store, run) <= SILENCE):
        return f"run {run.run_id} is running on {run.host}"
    followed = any(other.started > run.started for other in completed)
    ended = _last_of(store, run) if run.ended is None else datetime.fromisoformat(run.ended)
    if followed or now - ended >= timedelta(days=policy.unfinished_days):
        return None
    return f"run {run.run_id} ({run.state}) can continue from it"


def _last_of(store: Path, run: Run) -> datetime:
    """The last sign of life of a run whose end nobody recorded."""
    signs = [last_sign(Artifact(store, *name.split("/"))) for name in run.fingerprints]
    began = datetime.fromisoformat(run.started)
    return max([began, *(datetime.fromtimestamp(sign, UTC) for sign in signs)])


def _refer_to_index(
    store: Path, name: str, recorded: list[Run], policy: RetentionPolicy, reasons: dict[str, str]
) -> None:
    try:
        index = runs.find_index(store, name)
    except DamagedRecord as error:
        raise UnknownReferences(f"{error}, or remove it with `vitalfew store rm {name}`") from error
    try:
        kept = generations.kept(store, name, policy.generations)
    except DamagedRecord as error:
        raise UnknownReferences(f"{error}; remove that file to give this generation up") from error
    completed = [
        run for run in recorded if run.flow not in _KEPT_FLOWS and run.name == name and run.state == "completed"
    ]
    for run in policy.latest(completed):
        for artifact in run.fingerprints:
            reasons.setdefault(artifact, f"run {run.run_id} is among the last {policy.keep_runs} of {name}")
    for generation in kept:
        for artifact in generation.artifacts.values():
            reasons.setdefault(artifact, f"generation {generation.number} of {name}")
    for artifact in index.artifacts.values():
        reasons[artifact] = f"index {name}"


def _refer_to_inputs(store: Path, reasons: dict[str, str]) -> None:
    waiting = list(reasons)
    while waiting:
        name = waiting.pop()
        try:
            inputs = Artifact(store, *name.split("/")).inputs()
        except DamagedRecord as error:
            raise UnknownReferences(f"{error}: its inputs are unknown; see `vitalfew store verify`") from error
        for other in inputs:
            if other not in reasons:
                reasons[other] = f"input of {name}"
                waiting.append(other)
