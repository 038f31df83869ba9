"""The server of answers beside its goals: `make bench-serve`.

    python -m benchmarks.serve [--requests N] [--exchange SECONDS] [--store DIRECTORY]

It indexes the 2,067 passages of SQuAD's dev set, starts `vitalfew serve quickstart:ParetoRAG` with the bundled models,
and asks it the questions of SQuAD by Locust (benchmarks/serve_load.py), which takes its share of the same cores. Every
question is another one, and a client asks its next question when it has the answer to the last.

*The server's own part* is the difference between a client's median and that of the same call in this process. The two
take turns, as the loads of one and of 32 clients do. *8 clients, 0.1 s*: each pauses before its next question, a tenth
of a second on average. *Memory* is the server's resident memory after N requests against that after the first tenth of
them; one of ten is an answer. *Exchange*: a corpus with one passage more was indexed beside the other one; while 32
clients ask, `vitalfew index` gives it the served name. The ten seconds around the moment at which the server shows the
new index are compared with those before.
"""

import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from benchmarks.common import REAL, VITALFEW, in_turns, machine, options, show
from vitalfew.flows.pipelines.answering import Answering, configured
from vitalfew.flows.serving import searching

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

    def between(self, first: float, last: float) -> "Replies":
        here = (self.sent >= first) & (self.sent < last)
        return Replies(self.sent[here], self.milliseconds[here], self.failed)


class Load:
    """Loads on a server, with questions that were not asked before."""

    def __init__(self, address: str, questions: Sequence[str]) -> None:
        self.address, self._left = address, iter(questions)

    def take(self, count: int) -> list[str]:
        return [question for question, _ in zip(self._left, range(count), strict=False)]

    def start(self, path: str, clients: int, questions: Sequence[str], *more: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "benchmarks.serve_load", self.address, path, "--clients", str(clients), *more]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        assert process.stdin is not None
        process.stdin.write(json.dumps(questions))
        process.stdin.close()
        process.stdin = None  # for `communicate`
        return process

    def run(self, path: str, clients: int, questions: Sequence[str], *more: str) -> Replies:
        with self.start(path, clients, questions, *more) as process:
            return ended(process)


def ended(process: "subprocess.Popen[str]") -> Replies:
    return Replies.of(json.loads(process.communicate()[0]))


@contextmanager
def serving(store: Path) -> Iterator[tuple[str, float, psutil.Process]]:
    """The address of a server, the seconds until it was ready, and its process."""
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
            yield address, time.monotonic() - began, psutil.Process(process.pid)
        finally:
            process.terminate()


def index(corpus: Path, name: str, store: Path) -> None:
    command = [*VITALFEW, "index", f"squad:{corpus}", "--name", name, "--store", str(store)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def with_one_more(squad: dict[str, Any], folder: Path) -> Path:
    """A corpus that has another passage."""
    extra = {"context": "The reading room of the archive opens at nine. Bags stay at the door.", "qas": []}
    articles = [*squad["data"], {"title": "Archive", "paragraphs": [extra]}]
    (folder / "more.json").write_text(json.dumps({**squad, "data": articles}), encoding="utf-8")
    return folder / "more.json"


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
        return searching.search(answering, [question])

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


def memory(load: Load, process: psutil.Process, requests: int, every: Sequence[str]) -> Iterator[Row]:
    """Nine of ten requests are searches."""

    def size() -> float:
        return process.memory_info().rss / 2**20

    def block() -> float:
        count = requests // 10
        load.run("/search", 8, random.sample(every, count * 9 // 10))
        load.run("/answer", 8, random.sample(every, count // 10))
        return size()

    before = size()
    sizes = [block() for _ in range(10)]
    growth = sizes[-1] / sizes[0] - 1
    measured = f"{growth:+.1%} ({before:,.0f} MiB, then {', '.join(f'{each:,.0f}' for each in sizes)})"
    yield row(f"memory after {requests:,} requests against {requests // 10:,}", measured, "≤ 5 %", growth <= 0.05)


def exchange(load: Load, move: Any, seconds: float, every: Sequence[str]) -> Iterator[Row]:
    """`move`: gives the served name to the other corpus."""

    def shown() -> str:
        (model,) = httpx.get(f"{load.address}/v1/models", timeout=60).json()["data"]
        return str(model["vitalfew"]["fingerprint"])

    former, began = shown(), time.time()
    with load.start("/search", 32, every, "--seconds", str(seconds + 15)) as process:
        time.sleep(seconds)
        asked = time.time()
        move()
        while shown() == former:
            time.sleep(0.1)
        moved = time.time()
        replies = ended(process)
    usual, around = replies.between(began + 2, asked).quantile(0.99), replies.between(moved - 5, moved + 5)
    failed = f"{replies.failed} of {len(replies.sent):,}, {moved - asked:.1f} s after the command"
    yield row("exchange of the index, 32 clients: failed", failed, "0", not replies.failed)
    ratio = around.quantile(0.99) / usual
    measured = f"{ratio:.2f} × ({around.quantile(0.99):.0f} against {usual:.0f} ms)"
    yield row("p99 in the ten seconds around it, against before", measured, "≤ 2 ×", ratio <= 2)


def main() -> None:
    parser = options(__doc__, Path("build/bench/serve"))
    parser.add_argument("--requests", type=int, default=10_000, help="of the figure on memory; 0: leave it out")
    parser.add_argument("--exchange", type=float, default=20, metavar="SECONDS", help="before the index is exchanged")
    given = parser.parse_args()
    squad = json.loads(REAL["squad"].read_text(encoding="utf-8"))
    asked = {each["question"] for one in squad["data"] for text in one["paragraphs"] for each in text["qas"]}
    every = sorted(asked)
    random.seed(0)
    random.shuffle(every)
    print(f"{METHOD} on {REAL['squad'].name}; {machine()}", flush=True)
    index(REAL["squad"], NAME, given.store)
    answering = Answering(given.store, configured(given.store, METHOD, NAME))
    answering.warm()
    with tempfile.TemporaryDirectory() as folder, serving(given.store) as (address, seconds, process):
        more = with_one_more(squad, Path(folder))
        load = Load(address, every)

        def rows() -> Iterator[Row]:
            yield row("ready", f"{seconds:.1f} s", "≤ 8 s", seconds <= 8)
            yield from own_part(load, answering)
            yield from clients(load)
            if given.requests:
                yield from memory(load, process, given.requests, every)
            index(more, "more", given.store)
            yield from exchange(load, partial(index, more, NAME, given.store), given.exchange, every)

        show(("", "measured", "goal", ""), rows())


if __name__ == "__main__":
    main()
