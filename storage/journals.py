"""Journals: the answers of language models to a shard that is not done yet, a line each, in the artifact's directory.

A run that is killed and started again takes the answers from there: it asks for none of them twice, and computes no
batch twice that was finished on this machine. Once the shard carries its done-marker, which has the costs of all
attempts, the journal goes. An attempt that another has overtaken enters by itself in the ledger what the done-marker
does not have.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact, shard_name
from vitalfew.storage.costs import Cost, charge
from vitalfew.storage.manifests import PREPARATION, ShardRecord


class JournalEntry(NamedTuple):
    """A line: an answer (plain JSON) by the key of its request, with the tokens that were counted for it.

    `run_id` and `started` say which attempt at the shard paid, the seconds how long that had been at work by then.
    """

    key: str
    answer: dict[str, Any]
    tokens: int
    run_id: str
    started: str
    wall_seconds: float
    cpu_seconds: float
    gpu_seconds: float = 0.0


_PAID = ("tokens", "wall_seconds", "cpu_seconds", "gpu_seconds", "usd")
"""The figures of a cost that are added up over attempts at the same shard."""


class Journal:
    """The journal of an attempt at a shard; several threads may write to it."""

    def __init__(self, artifact: Artifact, shard: int, run_id: str, num_gpus: float = 0.0) -> None:
        """`num_gpus`: the share of a GPU that the attempt takes."""
        self.path = artifact.directory / "journal" / f"{shard_name(shard)}.jsonl"
        self._num_gpus = num_gpus
        self.run_id = run_id
        self.paid = 0
        """Tokens of the answers that this attempt paid for."""
        self._given = 0
        self._is_empty = False
        self._lock = Lock()
        self.started = datetime.now(UTC).isoformat()
        self._name = f"{run_id} {self.started}"
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    @cached_property
    def earlier(self) -> list[JournalEntry]:
        """The answers that earlier attempts paid for."""
        return entries(self.path)

    @cached_property
    def _answers(self) -> dict[str, dict[str, Any]]:
        return {entry.key: entry.answer for entry in self.earlier}

    def find(self, key: str) -> dict[str, Any] | None:
        """Return the answer to a request if it was paid for already."""
        return self._answers.get(key)

    def keep(self, answers: Sequence[tuple[str, dict[str, Any], int]]) -> None:
        """Write answers down, with the keys of their requests and their tokens; they are on the disk when this returns.
        Raises NotWritten."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        with self._lock:
            self.paid += sum(tokens for _, _, tokens in answers)
            self._answers.update({key: answer for key, answer, _ in answers})
        gpu = wall * self._num_gpus
        written = [JournalEntry(*answer, self.run_id, self.started, wall, cpu, gpu) for answer in answers]
        files.append_lines(self.path, [entry._asdict() for entry in written])

    def give(self, tokens: int) -> None:
        """Note that a method got an answer with this number of tokens and counts them: also an answer of an earlier
        attempt, and one that it asked for several times."""
        self._given += tokens

    def tokens(self, counted: int) -> int:
        """The tokens that this attempt computed and paid for, if its method counted `counted` tokens of all its
        models."""
        return max(0, counted - self._given) + self.paid

    def counted(self, record: ShardRecord, model: str | None) -> ShardRecord:
        """The record of this attempt with what all others have paid so far: those before it, and one that goes on
        although its lease was lost."""
        paid = entries(self.path)
        self._is_empty = not paid
        attempts = _attempts(record.shard, paid, model)
        others = {f"{attempt.run_id} {attempt.cost.started}": attempt.cost for attempt in attempts}
        others.pop(self._name, None)
        every = [record.cost, *others.values()]
        sums = {name: sum(getattr(cost, name) for cost in every) for name in _PAID}
        total = replace(record.cost, started=min(cost.started for cost in every), **sums)
        return replace(record, cost=total, others=others)

    def uncounted(self, record: ShardRecord, marker: ShardRecord) -> ShardRecord:
        """The part of this attempt's cost that the done-marker of another attempt has not counted."""
        cost = record.cost
        if seen := marker.others.get(self._name):
            rest = {name: max(0, getattr(cost, name) - getattr(seen, name)) for name in _PAID}
            cost = replace(cost, **rest)
        return ShardRecord(record.shard, record.run_id, [], 0, cost)

    def remove(self) -> None:
        """Remove the journal. The shard must have its done-marker."""
        if not self._is_empty:
            files.remove_tree(self.path)


def remove_all(artifact: Artifact) -> None:
    """Remove what a kill has left between a shard's done-marker and the end of its journal. All shards must be done."""
    files.remove_tree(artifact.directory / "journal")


def paths(artifact: Artifact) -> list[Path]:
    return files.find(artifact.directory / "journal", "*.jsonl")


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
    attempts: dict[tuple[str, str], list[JournalEntry]] = defaultdict(list)
    for entry in paid:
        attempts[entry.started, entry.run_id].append(entry)
    for (started, run_id), own in sorted(attempts.items()):
        cost = Cost(
            started=started,
            tokens=sum(entry.tokens for entry in own),
            wall_seconds=max(entry.wall_seconds for entry in own),
            cpu_seconds=max(entry.cpu_seconds for entry in own),
            gpu_seconds=max(entry.gpu_seconds for entry in own),
        )
        cost.usd = charge(
            cost.cpu_seconds, cost.gpu_seconds, cost.tokens, model, datetime.fromisoformat(started).date()
        )
        yield ShardRecord(shard, run_id, [], 0, cost)
