"""Attempts at one shard that know nothing of each other, as when a lease is lost: the ledger has what all of them paid,
every answer as often as it was paid for."""

from pathlib import Path
from threading import Semaphore, Thread
from typing import Any

import pytest

from vitalfew.configs.section import Config
from vitalfew.storage.costs import read_ledger
from vitalfew.storage.schemas import PASSAGES
from vitalfew.tasks.models.causal.engines import memory as memory_of_answers
from vitalfew.tasks.stage import Progress, ShardResult, Stage

TOKENS = (1, 10, 100, 1000)
"""Of the answers."""


class Paying(Stage):
    """Pays for an answer at every turn that it is given, and comes to its end with one more."""

    name, table, section = "paying", "passages", ""

    def __init__(self, store: Path, run_id: str) -> None:
        super().__init__(store, {}, Config())
        self.paid = 0
        self._turn, self._done = Semaphore(0), Semaphore(0)
        self._thread = Thread(target=self._run, args=[run_id])

    def method_identity(self) -> dict[str, Any]:
        return {}

    def shards(self) -> list[int]:
        return [0]

    def total_rows(self) -> int:
        return 0

    def work(self, shard: int, progress: Progress) -> ShardResult:
        memory = memory_of_answers.current()
        assert memory
        for tokens in TOKENS:
            self._turn.acquire()
            if not memory.find(str(tokens)):
                self.paid += tokens
                memory.keep([(str(tokens), {}, tokens)])
            memory.give(tokens)
            self._done.release()
        self._turn.acquire()
        return ShardResult(0, {"passages": PASSAGES.empty_table()}, tokens=sum(TOKENS))

    def _run(self, run_id: str) -> None:
        self.run_shard(0, run_id, lambda rows, tokens: None)
        self._done.release()

    def go_on(self) -> None:
        if self._thread.ident is None:
            self._thread.start()
        self._turn.release()
        assert self._done.acquire(timeout=900)


@pytest.mark.parametrize(
    ("turns", "runs"),
    [
        ("aabbbbbfaaa", "ab"),  # a falls silent, and goes on after b has completed the artifact
        ("aabaabbafbb", "ab"),  # a is overtaken, and is first all the same
        ("aabaabbbacccccbf", "abc"),
        ("aabbbaaabbf", "aa"),  # a worker that its own run has given up
    ],
)
def test_the_ledger_has_what_every_attempt_paid(store: Path, turns: str, runs: str) -> None:
    attempts = {name: Paying(store, run) for name, run in zip("abc", runs, strict=False)}
    for turn in turns:
        if turn == "f":
            attempts["a"].finish()
        else:
            attempts[turn].go_on()
    rows = read_ledger(attempts["a"].artifact.ledger)
    assert sum(row["tokens"] for row in rows) == sum(attempt.paid for attempt in attempts.values())
    assert all(row["cpu_seconds"] >= 0 for row in rows)
