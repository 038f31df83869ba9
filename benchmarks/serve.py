"""The server of answers beside its goals: `make bench-serve`.

    python -m benchmarks.serve [--store DIRECTORY]

It indexes the 2,067 passages of SQuAD's dev set, starts `vitalfew serve quickstart:ParetoRAG` with the bundled models,
and asks it the questions of SQuAD by Locust (benchmarks/serve_load.py), which takes its share of the same cores. Every
question is another one, and a client asks its next question when it has the answer to the last.

*The server's own part* is the difference between a client's median and that of the same call in this process. The two
take turns, as the loads of one and of 32 clients do. *8 clients, 0.1 s*: each pauses before its next question, a tenth
of a second on average. Memory, and an exchange of the index under load: `git show 23cb3959:benchmarks/serve.py`.
"""

import json
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import REAL, VITALFEW, in_turns, machine, options, show
from vitalfew.flows.pipelines.answering import Answering, configured
from vitalfew.flows.serving import configurations

METHOD, NAME, TOKENS = "quickstart:ParetoRAG", "squad", 300
ROUNDS, BLOCK = 3, 150
"""Turns of what is compared, and questions of a turn."""


@dataclass(frozen=True)
class Replies:
    """The requests of a load: when they were sent (seconds since the epoch), milliseconds, and how many failed."""

    sent: np.ndarray
    milliseconds: np.ndarray
    failed: int

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]]) -> "Replies":
        table = np.array(rows, float).reshape(-1, 3)
        return cls(table[:, 0], table[:, 1], int((table[:, 2] == 0).sum()))

    def quantile(self, share: float) -> float:
        return float(np.quantile(self.milliseconds, share))

    @property
    def per_second(self) -> float:
        ended = self.sent + self.milliseconds / 1e3
        return len(self.sent) / float(ended.max() - self.sent.min())


class Load:
    """Loads on a server, with questions that were not asked before."""

    def __init__(self, address: str, questions: Sequence[str]) -> None:
        self.address, self._left = address, iter(questions)

    def take(self, count: int) -> list[str]:
        return [question for question, _ in zip(self._left, range(count), strict=False)]

    def run(self, path: str, clients: int, questions: Sequence[str], *more: str) -> Replies:
        command = [sys.executable, "-m", "benchmarks.serve_load", self.address, path, "--clients", str(clients), *more]
        asked = json.dumps(questions)
        done = subprocess.run(command, input=asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return Replies.of(json.loads(done.stdout))


@contextmanager
def serving(store: Path) -> Iterator[tuple[str, float]]:
    """The address of a server, and the seconds until it was ready."""
    command = [*VITALFEW, "serve", METHOD, "--index", NAME, "--port", "0", "--store", str(store)]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = ""
        for line in process.stdout:
            found = re.search(r"Address: (http://\S+)", line)
            address = found[1] if found else address
            if line.startswith("Ready"):
                break
        try:
            yield address, time.monotonic() - began
        finally:
            process.terminate()


def timed(call: Any, questions: Sequence[str]) -> list[float]:
    """Milliseconds of a call with each question."""
    found = []
    for question in questions:
        began = time.perf_counter()
        call(question)
        found.append(1e3 * (time.perf_counter() - began))
    return found


Row = tuple[str, str, str, str]


def row(about: str, measured: str, goal: str, is_met: bool) -> Row:
    return about, measured, goal, "reached" if is_met else "MISSED"


def own_part(load: Load, answering: Answering) -> Iterator[Row]:
    """One client against the same calls in this process."""

    def search(question: str) -> Any:
        return configurations.search(answering, [question])

    def answer(question: str) -> Any:
        return answering.answer([question])

    def medians(path: str, call: Any, block: int) -> tuple[float, float]:
        works = (
            lambda: timed(call, load.take(block)),
            lambda: load.run(path, 1, load.take(block)).milliseconds.tolist(),
        )
        here, there = (float(np.median(turns)) for turns in in_turns(ROUNDS, *works, warm_up=1))
        return here, there

    here, there = medians("/search", search, BLOCK)
    part = f"{there - here:+.1f} ms ({there:.1f} against {here:.1f} directly)"
    yield row("search, 1 client: the server's own part, p50", part, "≤ 3 ms", there - here <= 3)
    here, there = medians("/answer", answer, BLOCK // 4)
    about = f"answer, 1 client, {TOKENS} tokens: p50"
    yield row(about, f"{there:.0f} ms ({here:.0f} directly)", "≤ 120 ms", there <= 120)


def clients(load: Load) -> Iterator[Row]:
    for about, more in (("8 clients", ()), ("8 clients, 0.1 s", ("--pause", "0.1"))):
        replies = load.run("/search", 8, load.take(8 * BLOCK), *more)
        for share, goal in ((0.5, 15), (0.99, 50)):
            found = replies.quantile(share)
            measured = f"{found:.1f} ms ({replies.per_second:.0f} a second, {replies.failed} failed)"
            yield row(f"search, {about}: p{100 * share:g}", measured, f"≤ {goal} ms", found <= goal)
    works = (
        lambda: load.run("/search", 1, load.take(BLOCK)).per_second,
        lambda: load.run("/search", 32, load.take(4 * BLOCK)).per_second,
    )
    one, many = map(statistics.median, in_turns(ROUNDS, *works))
    measured = f"{many / one:.2f} × ({many:.0f} against {one:.0f} a second)"
    yield row("search, 32 clients: throughput against 1", measured, "≥ 3 ×", many >= 3 * one)


def main() -> None:
    given = options(__doc__, Path("build/bench/serve")).parse_args()
    squad = json.loads(REAL["squad"].read_text(encoding="utf-8"))
    asked = {each["question"] for one in squad["data"] for text in one["paragraphs"] for each in text["qas"]}
    every = sorted(asked)
    random.Random(0).shuffle(every)
    print(f"{METHOD} on {REAL['squad'].name}; {machine()}", flush=True)
    indexed = [*VITALFEW, "index", f"squad:{REAL['squad']}", "--name", NAME, "--store", str(given.store)]
    subprocess.run(indexed, check=True, stdout=subprocess.DEVNULL)
    answering = Answering(given.store, configured(given.store, METHOD, NAME))
    answering.warm()
    with serving(given.store) as (address, seconds):
        load = Load(address, every)

        def rows() -> Iterator[Row]:
            yield row("ready", f"{seconds:.1f} s", "≤ 8 s", seconds <= 8)
            yield from own_part(load, answering)
            yield from clients(load)

        show(("", "measured", "goal", ""), rows())


if __name__ == "__main__":
    main()
