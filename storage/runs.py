"""The records of runs and of named indexes."""

import os
import re
import socket
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, Literal

from vitalfew.storage import files, version
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.files import DamagedRecord
from vitalfew.storage.names import (
    ArtifactName,
    IndexName,
    Moment,
    Number,
    Process,
    RunId,
    Strict,
    Table,
    Word,
    read_named,
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
UNREADABLE: Final = "unreadable"
INDEXING: Final = "index_corpus"
"""The flow whose runs make indexes; their `name` is the index's."""
WRITING: Final = "write_questions"
"""The flow whose runs write questions from a corpus; their `name` is the set's."""
State = Literal["running", "completed", "failed", "cancelled", "interrupted", "unreadable"]

_MAKE = "make one with `vitalfew start FOLDER` or `vitalfew index DATASET --name NAME`"


@dataclass
class Run(Strict):
    """One execution of a flow, with the artifacts it makes or uses (all of them known before it begins).

    `methods`: of an evaluation, by name and table the artifact that holds the method's rows.
    `host`: the name of its machine, for people; `process`: the name of its process, which says whether it has ended.
    `state`: running, completed, failed, cancelled, interrupted (killed), or unreadable where its record is damaged.
    """

    run_id: RunId
    flow: Word
    name: str
    config: dict[str, Any]
    started: Moment
    state: State = "running"
    ended: Moment | None = None
    fingerprints: list[ArtifactName] = field(default_factory=list)
    methods: dict[str, dict[Table, ArtifactName]] = field(default_factory=dict)
    error: str = ""
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    process: Process = field(default_factory=files.this_process)


@dataclass(frozen=True)
class NamedIndex(Strict):
    """The record behind `--index NAME`: the artifacts of an index and the settings they were made with.

    `generation`: its number, 0 of one that has none yet; `before`: those that were current before it and were not
    rolled back, the latest last; `reached`: the highest number that ever was current.
    """

    name: IndexName
    run_id: RunId
    artifacts: dict[Word, ArtifactName]
    config: dict[str, Any]
    generation: Number = 0
    before: tuple[Number, ...] = ()
    reached: Number = 0

    def located(self, store: Path) -> dict[str, Artifact]:
        """Its artifacts by role: passages, sentences, vectors, faiss, terms, bm25."""
        return {role: Artifact(store, *name.split("/")) for role, name in self.artifacts.items()}


class IndexNotFound(LookupError):
    """There is no index of this name: the message lists the existing ones."""


@contextmanager
def recorded_run(
    store: Path,
    flow: str,
    name: str,
    config: dict[str, Any],
    artifacts: Sequence[str],
    methods: dict[str, dict[str, str]] | None = None,
) -> Iterator[Run]:
    """Keep `runs/<run_id>.json` true while the enclosed block works; a run that is killed stays 'running' there. Raises
    OtherVersion."""
    version.check(store)
    started = datetime.now(UTC)
    identity = f"{started:%Y%m%d-%H%M%S}-{token_hex(3)}"
    run = Run(identity, flow, name, config, started.isoformat(), fingerprints=[*artifacts], methods=methods or {})
    _write_run(store, run)
    try:
        yield run
    except BaseException as error:
        # What is no Exception (Ctrl-C, Prefect's cancellation) is somebody's wish.
        state: State = "failed" if isinstance(error, Exception) else "cancelled"
        with suppress(OSError):  # the disk may be full, and it is the first error that tells
            _end(store, run, state, f"{type(error).__name__}: {error}")
        raise
    _end(store, run, "completed")


def read_runs(store: Path, since: datetime | None = None, without: Collection[str] = (), latest: int = 0) -> list[Run]:
    """All runs, or the `latest` so many, or those that began since a time, oldest first. One that says 'running' while
    its process is known to have ended was interrupted. `without`: ids of runs whose records are not read. Raises
    OtherVersion."""
    version.check(store)
    found = [path for path in files.find(store / "runs", "*.json") if path.stem not in without]
    if since:  # a record is named by the start of its run
        found = [path for path in found if path.stem >= since.astimezone(UTC).strftime("%Y%m%d-%H%M%S")]
    found = sorted(found)[-latest:]
    return sorted(filter(None, files.at_once(store, _read_run, found)), key=lambda run: run.started)


def import_run(store: Path, run: Run) -> None:
    """Copy the record of a run of another store, unless there is one."""
    if not files.exists(_run_path(store, run.run_id)):
        _write_run(store, run)


def is_running(store: Path, run_id: str) -> bool:
    """Return true if a run is at work, as far as this machine can say."""
    run = _read_run(_run_path(store, run_id))
    return run is not None and run.state == "running"


def _read_run(path: Path) -> Run | None:
    """Read a run's record; None for one that was removed meanwhile."""

    try:
        run = read_named(path, Run, lambda run: run.run_id)
    except FileNotFoundError:
        return None
    except DamagedRecord as error:
        modified = datetime.fromtimestamp(files.status(path).modified_ns / 1e9, UTC).isoformat()
        return Run(path.stem, "", "", {}, modified, UNREADABLE, error=str(error), host="", pid=0, process="")
    if run.state == "running" and files.has_ended(run.process):
        run.state = "interrupted"
    return run


def cancel_own_runs(store: Path) -> None:
    """Record that the user ends this process, which has no time to unwind."""
    for run in read_runs(store):
        if run.state == "running" and run.process == files.this_process():
            _end(store, run, "cancelled")


def interrupt(store: Path, process: str) -> None:
    """Record that a process ended without a message: for those that cannot see it. Raises OtherVersion."""
    for run in read_runs(store):
        if run.process == process and run.state in ("running", "interrupted") and not run.ended:
            _end(store, run, "interrupted")


def _end(store: Path, run: Run, state: State, error: str = "") -> None:
    run.state, run.error, run.ended = state, error, datetime.now(UTC).isoformat()
    _write_run(store, run)


def _write_run(store: Path, run: Run) -> None:
    files.write_json(_run_path(store, run.run_id), asdict(run))


def _run_path(store: Path, run_id: str) -> Path:
    return store / "runs" / f"{run_id}.json"


def index_names(store: Path) -> list[str]:
    """Raises OtherVersion."""
    version.check(store)
    found = files.find(store / "indexes", "*.json")
    return sorted(path.stem for path in found if _NAME.fullmatch(path.stem))


def only_index(store: Path) -> str:
    """The name of the index of a store that has one. Raises IndexNotFound, with their names, where there are several,
    and OtherVersion."""
    names = index_names(store)
    if len(names) == 1:
        return names[0]
    if names:
        raise IndexNotFound(f"{store} has several indexes; name one by --index: {', '.join(names)}")
    raise IndexNotFound(f"{store} has no index; {_MAKE}")


def find_index(store: Path, name: str) -> NamedIndex:
    """Raises IndexNotFound, OtherVersion, and DamagedRecord where its record is not as it was written."""
    version.check(store)
    try:
        return read_named(index_path(store, name), NamedIndex, lambda index: index.name)
    except DamagedRecord as error:
        raise DamagedRecord(f"{error}; run the same `vitalfew index` again to rewrite it") from error


def index_path(store: Path, name: str) -> Path:
    """The record of a name. Raises IndexNotFound."""
    path = store / "indexes" / f"{name}.json"
    if not _NAME.fullmatch(name) or not files.exists(path):
        known = index_names(store)
        remedy = f"there are: {', '.join(known)}" if known else _MAKE
        raise IndexNotFound(f"no index {name!r} in {store}; {remedy}")
    return path
