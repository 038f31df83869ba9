"""What an operator looks at first: what is served, what waits for a person, what failed, and what the last day cost.

It reads the records of indexes, of their latest generations and of the last week's runs: a store with many runs is as
fast as one with few.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from vitalfew.storage import files, generations, runs
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.costs import read_ledger
from vitalfew.storage.freshness import Freshness, freshness, moment
from vitalfew.storage.generations import Generation
from vitalfew.storage.runs import Run

DAYS = 7
"""Days whose runs are read."""
FAILED = ("failed", "interrupted", "unreadable")


@dataclass(frozen=True)
class Waiting:
    """A generation that searches do not find until a person promotes it. `verdict`: held, in doubt, rejected; empty
    where no gate has judged it yet; `asked_by`: the run of Prefect that has asked and waits, else empty; `said`: the
    verdict in a sentence."""

    index: str
    generation: int
    made: datetime
    verdict: str
    said: str
    asked_by: str = ""


@dataclass(frozen=True)
class Overview:
    """`failed`: runs of the last `DAYS` days that failed or whose process died, the latest first, without
    those that a later run made up for; `runs`: how many began in the last 24 hours, with their `usd` and their
    `seconds` of work."""

    served: Sequence[Freshness]
    waiting: Sequence[Waiting]
    failed: Sequence[Run]
    runs: int
    usd: float
    seconds: float


def overview(store: Path) -> Overview:
    """Raises OtherVersion."""
    now = datetime.now(UTC)
    last = runs.read_runs(store, since=now - timedelta(days=DAYS))
    names = runs.index_names(store)
    served = [*filter(None, (freshness(store, name, last) for name in names))]
    waiting = [_waiting(each) for name in names if (each := generations.waiting(store, name))]
    day = now - timedelta(days=1)
    usd, seconds = _spent(store, last, day)
    begun = sum(moment(run.started) >= day for run in last)
    return Overview(served, waiting, _failed(last), begun, usd, seconds)


def _waiting(each: Generation) -> Waiting:
    approval = each.gate.approval if each.gate else None
    asked_by = approval.asked_by if approval and not approval.decision else ""
    said = each.gate.said if each.gate else ""
    return Waiting(each.name, each.number, moment(each.made), each.verdict, said, asked_by)


def _failed(last: Sequence[Run]) -> list[Run]:
    done = {(run.flow, run.name): run.started for run in last if run.state == "completed"}
    failed = [run for run in last if run.state in FAILED and run.started > done.get((run.flow, run.name), "")]
    return failed[::-1]


def _spent(store: Path, last: Sequence[Run], since: datetime) -> tuple[float, float]:
    """USD and seconds of the work that these runs began after a time."""
    own = [run for run in last if run.ended is None or moment(run.ended) >= since]
    ids = {run.run_id for run in own}
    places = [Artifact(store, *name.split("/")).ledger for name in {name for run in own for name in run.fingerprints}]
    rows = [row for ledger in files.at_once(store, read_ledger, places) for row in ledger]
    paid = [row for row in rows if row["run_id"] in ids and row["started"] >= since]
    return sum(row["usd"] for row in paid), sum(row["wall_seconds"] for row in paid)
