"""Journals: what was paid for a shard that is not done yet, a line for every answer, in the artifact's directory.

A run that is killed and started again takes the answers from there and asks for none of them twice. Once the shard
carries its done-marker, which has the costs of all attempts, the journal goes. An attempt that another has overtaken
enters by itself in the ledger what the done-marker does not have.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, reduce
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Any

from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.costs import Cost, charge
from vitalfew.storage.manifests import PREPARATION, ShardRecord


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A line: an answer (plain JSON) by the key of its request, with the tokens that the server counted for it.

    `run_id` and `started` say which attempt at the shard paid, the seconds how long that had been at work by then.
    """

    key: str
    answer: dict[str, Any]
    tokens: int
    run_id: str
    started: str
    wall_seconds: float
    cpu_seconds: float


class Journal:
    """The journal of an attempt at a shard; several threads may write to it."""

    def __init__(self, artifact: Artifact, shard: int, run_id: str) -> None:
        self.path = place(artifact, shard)
        self.run_id = run_id
        self.paid = 0
        """Tokens of this attempt's own answers."""
        self._given = 0
        self._is_empty = False
        self._lock = Lock()
        self._started = datetime.now(UTC).isoformat()
        self._name = f"{run_id} {self._started}"
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    @cached_property
    def earlier(self) -> list[JournalEntry]:
        """What earlier attempts paid for."""
        return entries(self.path)

    @cached_property
    def _answers(self) -> dict[str, dict[str, Any]]:
        return {entry.key: entry.answer for entry in self.earlier}

    def find(self, key: str) -> dict[str, Any] | None:
        """The answer to a request that was paid for already."""
        return self._answers.get(key)

    def keep(self, key: str, answer: dict[str, Any], tokens: int) -> None:
        """Write an answer down; it is on the disk when this returns. Raises NotWritten."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        entry = JournalEntry(key, answer, tokens, self.run_id, self._started, wall, cpu)
        with self._lock:
            self.paid += tokens
            self._answers[key] = answer
        files.append_line(self.path, {name: getattr(entry, name) for name in JournalEntry.__slots__})

    def give(self, tokens: int) -> None:
        """An answer of so many tokens was given to a method, which counts them: an earlier attempt's too, and one that
        it asked for several times."""
        self._given += tokens

    def tokens(self, counted: int) -> int:
        """What this attempt computed and paid for, where its method counted so many tokens of all its models."""
        return max(0, counted - self._given) + self.paid

    def counted(self, record: ShardRecord, model: str | None) -> ShardRecord:
        """The record of this attempt with what all others have paid so far: those before it, and one that goes on
        although its lease was lost."""
        paid = entries(self.path)
        self._is_empty = not paid
        attempts = _attempts(record.shard, paid, model)
        others = {name: attempt.cost for attempt in attempts if (name := _name(attempt)) != self._name}
        return replace(record, cost=reduce(_together, others.values(), record.cost), others=others)

    def uncounted(self, record: ShardRecord, marker: ShardRecord) -> ShardRecord:
        """The part of this attempt's cost that the done-marker of another attempt has not counted."""
        cost = record.cost
        if seen := marker.others.get(self._name):
            cost = replace(
                cost,
                tokens=cost.tokens - seen.tokens,
                wall_seconds=max(0.0, cost.wall_seconds - seen.wall_seconds),
                cpu_seconds=max(0.0, cost.cpu_seconds - seen.cpu_seconds),
                usd=max(0.0, cost.usd - seen.usd),
            )
        return ShardRecord(record.shard, record.run_id, [], 0, cost)

    def remove(self) -> None:
        """Needs the shard's done-marker."""
        if not self._is_empty:
            files.remove_tree(self.path)


def place(artifact: Artifact, shard: int) -> Path:
    return _folder(artifact) / f"{'preparation' if shard == PREPARATION else format(shard, '05d')}.jsonl"


def remove_all(artifact: Artifact) -> None:
    """What a kill between the done-marker of a shard and the end of its journal has left. All shards must be done."""
    files.remove_tree(_folder(artifact))


def paths(artifact: Artifact) -> list[Path]:
    return files.find(_folder(artifact), "*.jsonl")


def entries(path: Path) -> list[JournalEntry]:
    """The answers in a journal, without those that cannot be read."""
    return [JournalEntry(**value) for value in files.read_lines(path).values]


def unfinished(artifact: Artifact, model: str | None) -> Iterator[ShardRecord]:
    """For every attempt at a shard that is not done: a record of what it paid, without files and rows."""
    for path in paths(artifact):
        shard = PREPARATION if path.stem == "preparation" else int(path.stem)
        if not artifact.marked(shard):
            yield from _attempts(shard, entries(path), model)


def _attempts(shard: int, paid: list[JournalEntry], model: str | None) -> Iterator[ShardRecord]:
    """Seconds are those up to an attempt's last answer: what it did afterwards nobody knows."""
    ordered = sorted(paid, key=lambda entry: (entry.started, entry.run_id))
    for (started, run_id), group in groupby(ordered, lambda entry: (entry.started, entry.run_id)):
        own = [*group]
        cost = Cost(
            started=started,
            tokens=sum(entry.tokens for entry in own),
            wall_seconds=max(entry.wall_seconds for entry in own),
            cpu_seconds=max(entry.cpu_seconds for entry in own),
        )
        cost.usd = charge(cost.cpu_seconds, 0.0, cost.tokens, model, datetime.fromisoformat(started).date())
        yield ShardRecord(shard, run_id, [], 0, cost)


def _name(attempt: ShardRecord) -> str:
    return f"{attempt.run_id} {attempt.cost.started}"


def _together(one: Cost, other: Cost) -> Cost:
    """Of attempts at the same shard, one after the other."""
    return replace(
        one,
        started=min(one.started, other.started),
        tokens=one.tokens + other.tokens,
        wall_seconds=one.wall_seconds + other.wall_seconds,
        cpu_seconds=one.cpu_seconds + other.cpu_seconds,
        usd=one.usd + other.usd,
    )


def _folder(artifact: Artifact) -> Path:
    return artifact.directory / "journal"
