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
from tests.support.tiny_models import bert
from vitalfew.flows.server.access import QUIET
from vitalfew.storage.runs import index_names

pytestmark = pytest.mark.slow

HASH = ["encode.encoder=tests.support.fakes:HashEncoder"]
EVALUATION = {"index": "mine", "experiment": "own", "sample": 2, "workers": 1}


class Elsewhere:
    """A server, a project whose flows are deployed, and a worker that works in an empty directory."""

    def __init__(self, folder: Path) -> None:
        self.project, self.empty, self.folder = folder / "project", folder / "empty", folder
        self.hold = folder / "hold"
        port = free_port()
        self.api = f"http://127.0.0.1:{port}/api"
        prefect = {
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_API_URL": self.api,
            "PREFECT_SERVER_API_PORT": f"{port}",
        }
        fast = {"PREFECT_WORKER_QUERY_SECONDS": "1", "PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "1"}
        own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "VITALFEW_TEST_HOLD": str(self.hold)}
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PREFECT_", "RAY_", "VITALFEW_STORE"))
        }
        self.environment = {**kept, **QUIET, **prefect, **fast, **own}
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

    def deploy(self) -> str:
        return self.run(sys.executable, "-m", "vitalfew.flows.cli", "deploy", "--env", "VITALFEW_RETRY_SECONDS=1")

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
        self.hold.unlink(missing_ok=True)
        for process in reversed(self.processes):
            family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.send_signal(signal.SIGINT)
            for one in psutil.wait_procs(family, timeout=60)[1]:
                one.kill()
            process.wait(60)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    made = Elsewhere(tmp_path_factory.mktemp("elsewhere"))
    write_own_files(made.project)
    for folder, name, *lines in (
        ("corpora", "notes", "datasets: ['jsonl:notes.jsonl?text=body&title=headline']", "cron: '0 3 * * *'"),
        ("corpora", "held", "datasets: ['synthetic:passages=200,questions=20']", "load: {shard_passages: 20}"),
        ("experiments", "own", "generate: {generator: 'tests.support.fakes:FirstWords'}", "methods: {naive: {}}"),
    ):
        (made.project / folder).mkdir(exist_ok=True)
        fake = f"{{encoder: 'tests.support.fakes:{'HeldEncoder' if name == 'held' else 'HashEncoder'}'}}"
        own = ["workers: 1", f"encode: {fake}"] if folder == "corpora" else []
        (made.project / folder / f"{name}.yaml").write_text("\n".join([*lines, *own]))
    try:
        made.start("server", "server", "start")
        wait(lambda: made.call("health"), 240, made.log("server").read_text)
        told = made.deploy()
        assert "re-encode/notes" in told
        made.start("worker", "worker", "start", "--pool", "vitalfew")
        yield made
    finally:
        made.end()


def test_every_deployment_runs_without_a_checkout(elsewhere: Elsewhere) -> None:
    """By Prefect's command and by REST, with paths and names of the project, and without naming the store."""
    run = [sys.executable, "-m", "prefect", "deployment", "run"]
    elsewhere.run(*run, "re-encode/notes", "--watch", folder=elsewhere.empty)
    source = {"format": "squad", "path": "mine.json"}
    indexed = elsewhere.begin("index-corpus/index-corpus", name="mine", sources=[source], workers=1, more=HASH)
    assert elsewhere.ended(indexed)["type"] == "COMPLETED"
    assert index_names(elsewhere.project / "store") == ["mine", "notes"]
    assert elsewhere.ended(elsewhere.begin("evaluate/evaluate", **EVALUATION))["type"] == "COMPLETED"
    base = bert(elsewhere.folder / "base", 256)
    more = [f"base={base}", "rank=4", "epochs=1", "held_out=1", "choosing=1", "precision=fp32", "threads=1"]
    trained = elsewhere.begin("train/train", recipe="reader", datasets=[source], out="reader", workers=1, more=more)
    assert elsewhere.ended(trained)["type"] == "COMPLETED"
    assert (elsewhere.project / "reader" / "README.md").exists()
    assert [*elsewhere.empty.iterdir()] == []


def test_a_second_run_of_a_corpus_is_cancelled_and_one_that_fails_is_tried_again(elsewhere: Elsewhere) -> None:
    elsewhere.hold.touch()
    first = elsewhere.begin("re-encode/held")
    wait(lambda: elsewhere.hold.read_text() == "held", 240, elsewhere.log("worker").read_text)
    second = elsewhere.ended(elsewhere.begin("re-encode/held"))
    assert (second["type"], second["message"]) == ("CANCELLED", "Deployment concurrency limit reached.")
    elsewhere.hold.unlink()
    assert elsewhere.ended(first)["type"] == "COMPLETED"
    failed = elsewhere.begin("re-encode/notes", corpus="nowhere")
    assert elsewhere.ended(failed)["type"] == "FAILED"
    assert elsewhere.call(f"flow_runs/{failed}")["run_count"] == 2
    logged = {"logs": {"flow_run_id": {"any_": [failed]}}}
    wait(lambda: "This try failed" in json.dumps(elsewhere.call("logs/filter", logged)), 60)
    assert elsewhere.ended(elsewhere.begin("re-encode/notes"))["type"] == "COMPLETED"  # the place is free again
