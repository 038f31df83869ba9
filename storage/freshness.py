"""How fresh the indexes of a store are, for whoever watches them: a few small records, read now and then."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from vitalfew.storage import generations, runs
from vitalfew.storage.files import DamagedRecord
from vitalfew.storage.generations import Generation
from vitalfew.storage.runs import IndexNotFound, Run

EVERY = 10.0
"""Seconds in which records are read at most once, however often somebody asks."""
WAITING = ("held", "in doubt")
"""Verdicts that leave it to a person whether a generation is promoted."""
ENDED_WELL = ("running", "completed", "cancelled")


@dataclass(frozen=True)
class Freshness:
    """An index as searches find it. `generation`: its number, 0 where its records are damaged, and then `error` says
    how; `made`: when that was built; `indexed`: when a run that indexes the corpus last completed, None where no such
    run was looked at; `passages`: None where they were removed; `held`: newer generations that wait for a person;
    `failed`: runs that failed or were killed since the last one that completed."""

    name: str
    generation: int = 0
    made: datetime | None = None
    indexed: datetime | None = None
    passages: int | None = None
    held: int = 0
    failed: int = 0
    error: str = ""


def freshness(store: Path, name: str, looked_at: Iterable[Run]) -> Freshness | None:
    """Return how fresh an index is, by its records and the runs that were looked at; None where it was removed."""
    try:
        index, known = runs.find_index(store, name), generations.history(store, name)
    except IndexNotFound:
        return None
    except DamagedRecord as error:
        return Freshness(name, error=str(error))
    served = next((each for each in known if each.number == index.generation), known[-1])
    own = [run for run in looked_at if run.flow == runs.INDEXING and run.name == name]
    completed = max((run.ended or "" for run in own if run.state == "completed"), default="")
    manifest = index.located(store)["passages"].recorded_manifest() if "passages" in index.artifacts else None
    return Freshness(
        name,
        served.number,
        moment(served.made),
        moment(completed) if completed else None,
        manifest.rows.get("passages") if manifest else None,
        held=sum(_waits(each) for each in known if each.number > served.number),
        failed=sum(run.state not in ENDED_WELL and run.started > completed for run in own),
    )


class FreshnessReader:
    """Reads the freshness of a store's indexes, for several threads. The record of an ended run is read once."""

    def __init__(self, store: Path, every: float = EVERY, clock: Callable[[], float] = time.monotonic) -> None:
        """`every`: seconds for which what was read is given again; `clock`: seconds."""
        self.store, self.every, self.clock = store, every, clock
        self._ended: dict[str, Run] = {}
        self._found: list[Freshness] = []
        self._read_at: float | None = None
        self._lock = Lock()

    def read(self) -> list[Freshness]:
        """A row per index, but for those whose record is damaged. Raises OtherVersion, OSError, BucketError."""
        with self._lock:
            if self._read_at is None or self.clock() - self._read_at >= self.every:
                self._learn_runs()
                names = runs.index_names(self.store)
                found = (freshness(self.store, name, self._ended.values()) for name in names)
                # of damage `doctor` and `store verify` tell
                self._found = [each for each in found if each and not each.error]
                self._read_at = self.clock()
            return self._found

    def _learn_runs(self) -> None:
        for run in runs.read_runs(self.store, without=self._ended.keys()):
            if run.state != "running":
                run.config, run.fingerprints, run.methods = {}, [], {}  # which are long, and say nothing here
                self._ended[run.run_id] = run


def _waits(generation: Generation) -> bool:
    approval = generation.gate.approval if generation.gate else None
    return generation.verdict in WAITING and not (approval and approval.decision)


def moment(text: str) -> datetime:
    """A time of a record, in UTC."""
    return datetime.fromisoformat(text).astimezone(UTC)
