"""`vitalfew deploy` as its users meet it: a Prefect server, a worker in an empty directory, and a run of everything."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request

import psutil
import pytest

from tests.support.own_files import write_own_files
from tests.support.prefect_ui import FINAL, ROOT, asked, free_port, wait
from vitalfew.flows.server.access import QUIET
from vitalfew.storage.runs import index_names

pytestmark = pytest.mark.slow


class Elsewhere:
    """A server, a project whose flows are deployed, and a worker that works in an empty directory."""

    def __init__(self, folder: Path) -> None:
        self.project, self.empty, self.folder = folder / "project", folder / "empty", folder
        port = free_port()
        self.api = f"http://127.0.0.1:{port}/api"
        prefect = {
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_API_URL": self.api,
            "PREFECT_SERVER_API_PORT": f"{port}",
        }
        own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PREFECT_WORKER_QUERY_SECONDS": "1"}
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PREFECT_", "RAY_", "VITALFEW_STORE"))
        }
        self.environment = {**kept, **QUIET, **prefect, **own}
        self.processes: list[subprocess.Popen[bytes]] = []
        for place in (self.project, self.empty):
            place.mkdir()

    def start(self, name: str, *words: str) -> None:
        with self.log(name).open("wb") as log:
            command = [sys.executable, "-m", "prefect", *words]
            self.processes.append(
                subprocess.Popen(command, cwd=self.empty, env=self.environment, stdout=log, stderr=log)
            )

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def run(self, *words: str, folder: Path | None = None) -> str:
        """What a command prints. Raises AssertionError if it fails."""
        done = subprocess.run(words, cwd=folder or self.project, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}{self.log('worker').read_text()}"
        return done.stdout

    def call(self, path: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        return asked(Request(f"{self.api}/{path}", content, {"Content-Type": "application/json"}))

    def begin(self, deployment: str, **given: Any) -> str:
        """Start a run by REST; its id."""
        identifier = self.call(f"deployments/name/{deployment}")["id"]
        body = {"parameters": {"parameters": given}} if given else {}
        run: str = self.call(f"deployments/{identifier}/create_flow_run", body)["id"]
        return run

    def state(self, run: str) -> Any:
        return self.call(f"flow_runs/{run}")["state"]

    def ended(self, run: str) -> Any:
        wait(
            lambda: self.state(run)["type"] in FINAL, 240, lambda: f"{self.state(run)}{self.log('worker').read_text()}"
        )
        return self.state(run)

    def end(self) -> None:
        """The worker first, with the runs that it started."""
        for process in reversed(self.processes):
            family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.send_signal(signal.SIGINT)
            for one in psutil.wait_procs(family, timeout=60)[1]:
                one.kill()
            process.wait(60)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Elsewhere]:
    made = Elsewhere(tmp_path)
    write_own_files(made.project)
    notes = ["datasets: ['jsonl:notes.jsonl?text=body&title=headline']", "cron: '0 3 * * *'", "workers: 1"]
    notes.append("encode: {encoder: 'tests.support.fakes:HashEncoder'}")
    trial = ["generate: {generator: 'tests.support.fakes:FirstWords'}", "methods: {naive: {}}"]
    for path, lines in (("corpora/notes.yaml", notes), ("experiments/own.yaml", trial)):
        (made.project / path).parent.mkdir(exist_ok=True)
        (made.project / path).write_text("\n".join(lines))
    try:
        made.start("server", "server", "start")
        wait(lambda: made.call("health"), 240, made.log("server").read_text)
        told = made.run(sys.executable, "-m", "vitalfew.flows.cli", "deploy", "--env", "VITALFEW_RETRY_SECONDS=1")
        assert "re-encode/notes" in told
        made.start("worker", "worker", "start", "--pool", "vitalfew")
        yield made
    finally:
        made.end()


def test_deployments_run_without_a_checkout_and_what_fails_is_tried_again(elsewhere: Elsewhere) -> None:
    """By Prefect's command and by REST, with paths and names of the project, and without naming the store."""
    run = [sys.executable, "-m", "prefect", "deployment", "run"]
    elsewhere.run(*run, "re-encode/notes", "--watch", folder=elsewhere.empty)
    source = {"format": "squad", "path": "mine.json"}
    hashed = ["encode.encoder=tests.support.fakes:HashEncoder"]
    indexed = elsewhere.begin("index-corpus/index-corpus", name="mine", sources=[source], workers=1, more=hashed)
    assert elsewhere.ended(indexed)["type"] == "COMPLETED"
    assert index_names(elsewhere.project / "store") == ["mine", "notes"]
    evaluated = elsewhere.begin("evaluate/evaluate", index="mine", experiment="own", sample=2, workers=1)
    assert elsewhere.ended(evaluated)["type"] == "COMPLETED"
    failed = elsewhere.begin("re-encode/notes", corpus="nowhere")
    assert elsewhere.ended(failed)["type"] == "FAILED"
    assert elsewhere.call(f"flow_runs/{failed}")["run_count"] == 2
    assert [*elsewhere.empty.iterdir()] == []
