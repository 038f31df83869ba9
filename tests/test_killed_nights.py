"""`kill -9` in the middle of nightly runs of a worker: of a run's process, of the worker, of both, of Prefect's server.
The next night runs, no run stays "Running", and nothing is promoted that its gate did not promote.

It takes minutes a night and runs on request: VITALFEW_TEST_KILLS=1 kills a run and its worker, as a power cut does it,
and 20 kills twenty times, in every way, at random moments. A table is printed.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request

import psutil
import pytest

from tests.support.prefect_ui import FINAL, ROOT, asked, free_port, wait
from vitalfew.storage import generations
from vitalfew.storage.runs import find_index, read_runs

pytestmark = pytest.mark.slow

KINDS = ("both", "server", "run", "worker")
KILLS = int(os.environ.get("VITALFEW_TEST_KILLS", 0))
MOST_SECONDS = 120
"""That a run may seem to work after the next one was due."""
CORPUS = """
datasets: ["synthetic:passages={},questions=30,seed=3"]
workers: 1
encode: {{encoder: "tests.support.fakes:HashEncoder"}}
load: {{shard_passages: 20}}
gate: {{margins: {{passage_recall@10: 0.9}}}}
"""


class Nights:
    """A corpus that changes every night, with a Prefect server and a worker as their guides start them."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder, self.port, self.changes = folder, free_port(), 0
        own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PREFECT_HOME": str(folder / "prefect")}
        own |= {"PREFECT_API_URL": f"http://127.0.0.1:{self.port}/api", "VITALFEW_RETRY_SECONDS": "1"}
        leases = "prefect.server.concurrency.lease_storage.filesystem"
        own |= {"PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": leases, "PREFECT_WORKER_QUERY_SECONDS": "3"}
        # How long the place of a killed run stays taken: 5 minutes by default, which the next night would wait for.
        own |= {"PREFECT_SERVER_CONCURRENCY_INITIAL_DEPLOYMENT_LEASE_DURATION": "90"}
        # Ray's variables of this process, from a test before, name a cluster that has ended.
        outer = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "PREFECT_"))}
        self.environment = {**outer, **own, **environment}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        self._start("server", "server", "start", "--host", "127.0.0.1", "--port", str(self.port))
        wait(lambda: self.call("/health"), lambda: self.log("server"))
        self._change()
        deploy = [sys.executable, "-m", "vitalfew.flows.cli", "deploy", "--store", str(self.store)]
        for _ in range(3):  # a server that has just begun may be too busy to answer
            done = subprocess.run(deploy, cwd=self.folder, env=self.environment, capture_output=True, text=True)
            if done.returncode == 0:
                break
        assert done.returncode == 0, done.stdout + done.stderr
        self._start("worker", "worker", "start", "--pool", "vitalfew")

    def _start(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "prefect", *words], cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )
        self.words = getattr(self, "words", {}) | {name: words}

    def end(self) -> None:
        for process in reversed(self.processes.values()):
            for member in (*psutil.Process(process.pid).children(recursive=True), process):
                with suppress(psutil.NoSuchProcess):
                    member.kill()
            process.wait()

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-3000:]

    def call(self, path: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        address = f"{self.environment['PREFECT_API_URL']}{path}"
        return asked(Request(address, content, {"Content-Type": "application/json"}))

    def _change(self) -> None:
        file = self.folder / "corpora" / "towns.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(CORPUS.format(160 + 20 * self.changes))
        self.changes += 1

    def night(self) -> str:
        """The corpus has changed, and its run is due; the run's id."""
        self._change()
        deployment = wait(lambda: self.call("/deployments/name/re-encode/towns"), lambda: self.log("server"))["id"]
        identifier: str = self.call(f"/deployments/{deployment}/create_flow_run", {})["id"]
        return identifier

    def state(self, run: str) -> Any:
        return self.call(f"/flow_runs/{run}")["state"]

    def begun(self, run: str) -> None:
        wait(lambda: self.state(run)["type"] not in ("SCHEDULED", "PENDING"), lambda: self.told(run))

    def ended(self, run: str) -> Any:
        return wait(lambda: (state := self.state(run))["type"] in FINAL and state, lambda: self.told(run))

    def told(self, run: str) -> str:
        return f"{self.state(run)} {self.log('worker')} {self.log('server')}"

    def kill(self, kind: str) -> None:
        """Kill, and start again what a machine starts again."""
        name = "server" if kind == "server" else "worker"
        process = self.processes[name]
        below = psutil.Process(process.pid).children(recursive=True)
        killed = {"run": below, "worker": [], "both": below, "server": below}[kind]
        for each in (*killed, *([] if kind == "run" else [process])):
            with suppress(psutil.NoSuchProcess):
                each.send_signal(signal.SIGKILL)
        if kind != "run":
            process.wait()
            self._start(name, *self.words[name])

    def working(self) -> list[str]:
        """The runs that Prefect takes for working."""
        types = ["RUNNING", "PENDING", "CANCELLING"]
        return [
            run["id"] for run in self.call("/flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": types}}}})
        ]


@contextmanager
def nights(folder: Path, **environment: str) -> Iterator[Nights]:
    made = Nights(folder, **environment)
    try:
        made.start()
        yield made
    finally:
        made.end()


def check_kill(nights: Nights, kind: str, after: float) -> tuple[str, float, float]:
    """Kill in the middle of a night, so many seconds after it began; the night after it is well.

    Returns the state of the first night's run, and after how many seconds it had it, and the next run its own."""
    first = nights.night()
    nights.begun(first)
    time.sleep(after)  # the moment of the kill, and no condition that is waited for
    nights.kill(kind)
    due = time.monotonic()
    second = nights.night()
    state = nights.ended(first)
    seconds = time.monotonic() - due
    assert seconds < MOST_SECONDS or state["type"] == "COMPLETED", (kind, state, seconds)
    last = nights.ended(second)
    assert (last["type"], last["name"]) == ("COMPLETED", "Completed"), nights.told(second)
    assert nights.working() == []
    index = find_index(nights.store, "towns")
    known = {each.number: each.verdict for each in generations.history(nights.store, "towns")}
    assert index.generation == max(known)
    assert {known[number] for number in (*index.before[1:], index.generation)} <= {"promoted"}
    assert {run.state for run in read_runs(nights.store)} <= {"completed", "interrupted", "cancelled", "failed"}
    return state["name"], seconds, time.monotonic() - due


@pytest.mark.skipif(not KILLS, reason="takes minutes: VITALFEW_TEST_KILLS=1 runs it")
def test_the_night_after_a_kill_is_well(tmp_path: Path) -> None:
    moments = random.Random(KILLS)
    with nights(tmp_path) as made:
        undisturbed = made.night()
        made.begun(undisturbed)
        began = time.monotonic()
        assert made.ended(undisturbed)["type"] == "COMPLETED"
        takes = time.monotonic() - began
        for number, kind in enumerate(islice(cycle(KINDS), KILLS), 1):
            after = moments.uniform(0, 0.6 * takes)
            state, ended, well = check_kill(made, kind, after)
            print(f"| {number} | {kind} | {after:.0f} s | {state}, {ended:.0f} s | {well:.0f} s |", flush=True)


# With PostgreSQL

FOUND = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a database of a server of its own, which refuses to be root."""
    owner: dict[str, Any] = {"user": "postgres"} if os.geteuid() == 0 else {}
    with TemporaryDirectory(dir="/tmp") as folder:
        if owner:
            shutil.chown(folder, "postgres")
        port = free_port()

        def run(program: str, *words: str) -> None:
            command = [str(FOUND[-1] / program), *words]
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, **owner)

        run("initdb", "-D", f"{folder}/data", "-U", "prefect", "-A", "trust")
        settings = f"-p {port} -k {folder} -h 127.0.0.1"
        run("pg_ctl", "-D", f"{folder}/data", "-l", f"{folder}/log", "-o", settings, "-w", "start")
        try:
            run("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "prefect", "runs")
            yield f"postgresql+asyncpg://prefect@127.0.0.1:{port}/runs"
        finally:
            run("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop")


@pytest.mark.skipif(not FOUND, reason="Debian's package `postgresql` is not installed")
def test_one_setting_keeps_the_runs_in_postgresql(tmp_path: Path) -> None:
    with postgres() as url, nights(tmp_path, PREFECT_API_DATABASE_CONNECTION_URL=url) as made:
        assert made.state(made.night())["type"] in ("SCHEDULED", "PENDING", "RUNNING")
        assert not list(made.folder.rglob("*.db"))
