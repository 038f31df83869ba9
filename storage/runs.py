"""Runs and named indexes: who did what, and what a name stands for."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from storage.parquet import process_exists, write_json


@dataclass
class Run:
    """One execution of a flow. `state`: running, completed, failed, cancelled, interrupted (killed)."""

    run_id: str
    flow: str
    name: str
    config: dict[str, Any]
    started: str
    state: str = "running"
    ended: str | None = None
    fingerprints: list[str] = field(default_factory=list)
    error: str = ""
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)


@dataclass(frozen=True)
class NamedIndex:
    """What `--index NAME` stands for: the artifacts of an index and the settings they were made with."""

    name: str
    run_id: str
    artifacts: dict[str, str]
    config: dict[str, Any]


class IndexNotFound(LookupError):
    """No index of that name: the message lists those that there are."""


@contextmanager
def recorded_run(store: Path, flow: str, name: str, config: dict[str, Any]) -> Iterator[Run]:
    """Keep `runs/<run_id>.json` true while the enclosed block works; a run that is killed stays 'running' there."""
    started = datetime.now(UTC)
    run = Run(f"{started:%Y%m%d-%H%M%S}-{token_hex(3)}", flow, name, config, started.isoformat())
    _write_run(store, run)
    try:
        yield run
    except BaseException as error:
        run.state = "cancelled" if isinstance(error, KeyboardInterrupt) else "failed"
        run.error = f"{type(error).__name__}: {error}"
        raise
    else:
        run.state = "completed"
    finally:
        run.ended = datetime.now(UTC).isoformat()
        _write_run(store, run)


def read_runs(store: Path) -> list[Run]:
    """All runs, oldest first. One that says 'running' while its process is gone was interrupted."""
    runs = []
    for path in (store / "runs").glob("*.json"):
        run = Run(**json.loads(path.read_text(encoding="utf-8")))
        if run.state == "running" and run.host == socket.gethostname() and not process_exists(run.pid):
            run.state = "interrupted"
        runs.append(run)
    return sorted(runs, key=lambda run: run.started)


def cancel_own_runs(store: Path) -> None:
    """Record that this process ends on its user's wish: for where it has no time to unwind."""
    for run in read_runs(store):
        if run.state == "running" and run.pid == os.getpid() and run.host == socket.gethostname():
            run.state, run.ended = "cancelled", datetime.now(UTC).isoformat()
            _write_run(store, run)


def _write_run(store: Path, run: Run) -> None:
    write_json(store / "runs" / f"{run.run_id}.json", asdict(run))


def save_index(store: Path, index: NamedIndex) -> None:
    write_json(store / "indexes" / f"{index.name}.json", asdict(index))


def find_index(store: Path, name: str) -> NamedIndex:
    """Raises IndexNotFound."""
    path = store / "indexes" / f"{name}.json"
    if not path.exists():
        known = sorted(other.stem for other in path.parent.glob("*.json"))
        remedy = f"there are: {', '.join(known)}" if known else "make one with `vitalfew index DATASET --name NAME`"
        raise IndexNotFound(f"no index {name!r} in {store}; {remedy}")
    return NamedIndex(**json.loads(path.read_text(encoding="utf-8")))
