"""How fresh the indexes of a store are, for whoever watches them: a few small records, read now and then."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
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


@dataclass(frozen=True)
class Freshness:
    """An index's name. `generation`: the number of the one that searches find; `made`: when that was built; `indexed`:
    when a run that indexes the corpus last completed, None where the store has none; `held`: newer generations that
    wait for a person; `failed`: runs that failed or were killed since the last one that completed."""

    name: str
    generation: int
    made: datetime
    indexed: datetime | None
    held: int
    failed: int


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
                self._found = [*filter(None, map(self._of, runs.index_names(self.store)))]
                self._read_at = self.clock()
            return self._found

    def _learn_runs(self) -> None:
        for run in runs.read_runs(self.store, without=self._ended.keys()):
            if run.state != "running":
                run.config, run.fingerprints, run.methods = {}, [], {}  # which are long, and say nothing here
                self._ended[run.run_id] = run

    def _of(self, name: str) -> Freshness | None:
        try:
            current = runs.find_index(self.store, name).generation
            known = generations.history(self.store, name)
        except (IndexNotFound, DamagedRecord):  # removed meanwhile; of damage `doctor` and `store verify` tell
            return None
        served = next(each for each in known if current in (0, each.number))
        own = [run for run in self._ended.values() if run.flow == runs.INDEXING and run.name == name]
        completed = max((run.ended or "" for run in own if run.state == "completed"), default="")
        failed = [run for run in own if run.state not in ("completed", "cancelled") and run.started > completed]
        held = sum(_waits(each) for each in known if each.number > served.number)
        indexed = datetime.fromisoformat(completed) if completed else None
        return Freshness(name, served.number, datetime.fromisoformat(served.made), indexed, held, len(failed))


def _waits(generation: Generation) -> bool:
    approval = generation.gate.approval if generation.gate else None
    return generation.verdict in WAITING and not (approval and approval.decision)
