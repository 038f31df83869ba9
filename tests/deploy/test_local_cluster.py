"""`make cluster` (slow): all parts answer, a command works on them with a store in the bucket, and nothing is left."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import obstore
import psutil
import pytest
from obstore.exceptions import PermissionDeniedError
from obstore.store import S3Store

from tests.support.own_files import write_own_files
from tests.support.ray_nodes import wait_for
from vitalfew.flows.server.access import PATIENCE, Server

ROOT = Path(__file__).parents[2]
NODES = "import ray; ray.init(log_to_driver=False); print(len([node for node in ray.nodes() if node['Alive']]))"

pytestmark = pytest.mark.slow


class Running:
    """The command of `make cluster`; `folder` takes what it writes, and is empty when it has ended."""

    def __init__(self, folder: Path, exports: Path) -> None:
        self.folder, self.exports = folder, exports
        self.mark = uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-m", "deploy.local_cluster", "--exports", str(exports)],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder), "VITALFEW_TEST_MARK": self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        wait_for(lambda: exports.exists() or self.process.poll() is not None, 3 * PATIENCE)
        assert self.process.poll() is None, self.process.communicate()[0]

    def processes(self) -> list[psutil.Process]:
        """All that it started, by the mark in their environment."""
        started = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("VITALFEW_TEST_MARK") == self.mark:
                    started.append(process)
        return started

    def environment(self) -> dict[str, str]:
        """Of a shell that has read the file of exports."""
        dump = f"{sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
        command = ["bash", "-c", f"set -eu; . '{self.exports}'; {dump}"]
        said = subprocess.run(command, capture_output=True, check=True).stdout
        return {**json.loads(said), "OMP_NUM_THREADS": "1"}

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Its status and what it printed."""
        self.process.send_signal(number)
        said, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with TemporaryDirectory(prefix="c-", dir="/tmp") as folder:  # the names of Ray's sockets leave little room
        cluster = Running(Path(folder), tmp_path / "cluster.env")
        try:
            yield cluster
        finally:
            for process in [*cluster.processes(), cluster.process]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            cluster.process.wait()


def test_all_parts_work_and_end(running: Running, tmp_path: Path) -> None:
    assert running.exports.stat().st_mode & 0o777 == 0o600
    environment = running.environment()
    _answer(environment)
    _index(environment, tmp_path)
    _listen_on_this_machine_alone(running)
    status, said = running.end()
    assert (status, "Traceback" in said) == (0, False), said
    assert not [environment[name] for name in environment if "KEY" in name and environment[name] in said]
    assert running.processes() == []
    assert [*running.folder.iterdir()] == []
    assert not running.exports.exists()


def _bucket(environment: dict[str, str], **other: Any) -> S3Store:
    keys: dict[str, Any] = {
        "access_key_id": environment["AWS_ACCESS_KEY_ID"],
        "secret_access_key": environment["AWS_SECRET_ACCESS_KEY"],
    }
    options: Any = {"client_options": {"allow_http": True}, "retry_config": {"max_retries": 0}}
    address: Any = {"endpoint": environment["AWS_ENDPOINT_URL"], "region": environment["AWS_REGION"]}
    return S3Store("vitalfew", **address, **options, **{**keys, **other})


def _answer(environment: dict[str, str]) -> None:
    """Those who have the keys, and nobody else."""
    assert obstore.list(_bucket(environment)).collect() == []
    for stranger in ({"secret_access_key": "guessed"}, {"access_key_id": "guessed"}, {"skip_signature": True}):
        with pytest.raises(PermissionDeniedError):
            obstore.put(_bucket(environment, **stranger), "new", b"")
    server = Server(environment["PREFECT_API_URL"].removesuffix("/api"), environment["PREFECT_API_AUTH_STRING"])
    assert (server.status("/api/version"), Server(server.address).status("/api/version")) == (200, 401)
    with urlopen(server.request("/api/deployments/filter", b"{}"), timeout=PATIENCE) as answer:
        stores = {deployment["job_variables"]["env"]["VITALFEW_STORE"] for deployment in json.load(answer)}
    assert stores == {environment["VITALFEW_STORE"]} == {"s3://vitalfew/store"}


def _listen_on_this_machine_alone(running: Running) -> None:
    hosts = set()
    for process in running.processes():
        with suppress(psutil.Error):
            listening = [one for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN]
            hosts |= {one.laddr.ip.removeprefix("::ffff:") for one in listening}
    assert hosts == {"127.0.0.1"}


def _index(environment: dict[str, str], folder: Path) -> None:
    """By a flow of the worker, on three nodes, with a store in the bucket."""
    write_own_files(folder)
    own = {**environment, "PREFECT_HOME": str(folder / "prefect"), "PYTHONPATH": str(ROOT)}
    source = {"format": "jsonl", "path": f"{folder / 'notes.jsonl'}?text=body&title=headline"}
    form = json.dumps({"sources": [source], "name": "notes"})
    words = ["deployment", "run", "index-corpus/index-corpus", "--param", f"parameters={form}", "--watch"]
    search = ["search", "Who wrote the novel?", "--index", "notes", "--store", environment["VITALFEW_STORE"]]
    for module, given in (("prefect", words), ("vitalfew.flows.cli", search)):
        command = [sys.executable, "-m", module, *given]
        done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "The Silent Bridge" in done.stdout
    nodes = subprocess.run([sys.executable, "-c", NODES], env=environment, capture_output=True, text=True, check=True)
    assert nodes.stdout.split()[-1] == "3"
