"""What tests of `vitalfew ui` share: the command as a process of its own, and its REST interface."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil

from vitalfew.flows.server.access import Server, link

ROOT = Path(__file__).parents[2]
PATIENCE = 900
"""Seconds after which something that a test waits for will not come."""
FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


def asked(request: Request) -> Any:
    """The answer of a Prefect server, which is asked again while SQLite is busy. Raises HTTPError."""
    for attempt in range(5):
        try:
            with urlopen(request, timeout=PATIENCE) as answer:
                return json.loads(answer.read() or "null")
        except HTTPError as error:
            if error.code != 503 or attempt == 4:
                raise
            time.sleep(1)


def free_port() -> int:
    """Below those that the kernel gives to connections, one of which could take it before it is used."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as trial, suppress(OSError):
            trial.bind(("127.0.0.1", port))
            return port


class Ui:
    """`vitalfew ui` of a store."""

    def __init__(self, store: Path, port: int | None = None, **environment: str) -> None:
        self.store = store
        self.port = port or free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.state_home = store.parent / "state"
        own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "XDG_STATE_HOME": str(self.state_home)}
        self.environment = {**os.environ, **own, **environment}
        for name in ("PREFECT_HOME", "PREFECT_API_URL", "PREFECT_API_AUTH_STRING"):
            self.environment.pop(name, None)

    def command(self) -> list[str]:
        words = ["ui", "--port", str(self.port), "--store", str(self.store)]
        return [sys.executable, "-u", "-m", "vitalfew.flows.cli", *words]

    def start(self) -> None:
        """Return when it is ready."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(
            self.command(), cwd=ROOT, env=self.environment, text=True, start_new_session=True, **pipes
        )
        assert self.process.stdout
        line = self.process.stdout.readline()
        if "Ready" not in line:
            raise AssertionError(self.process.communicate()[1])
        self.secret: str = json.loads((self.home / "ui.json").read_text())["secret"]

    def works(self) -> bool:
        """Whether it was started and has not ended."""
        return hasattr(self, "process") and self.process.poll() is None

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def log(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text()

    @property
    def home(self) -> Path:
        """Of Prefect, in the user's state directory."""
        (folder,) = (self.state_home / "vitalfew").glob(f"{self.store.name}-*")
        return folder

    def link(self) -> str:
        """Opens the interface in one browser, once."""
        return link(Server(self.address, self.secret))

    @property
    def authorization(self) -> str:
        return f"Basic {b64encode(self.secret.encode()).decode()}"

    def answer(self, method: str, path: str, body: Any = None, **headers: str) -> int:
        """The status of a request that may be a stranger's: it has no headers but these, and those that HTTP needs."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with closing(connection):
            content = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), content | headers)
            return connection.getresponse().status

    def end(self, number: int = signal.SIGINT) -> tuple[str, list[psutil.Process]]:
        """What it says, and the processes that are left of it."""
        family = self.family()
        self.process.send_signal(number)
        told = self.process.communicate(timeout=PATIENCE)[1]
        return told, psutil.wait_procs(family, timeout=PATIENCE)[1]

    def kill(self) -> None:
        """End it and all that it started, whatever they are at."""
        family = [*self.family(), psutil.Process(self.process.pid)]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.communicate(timeout=PATIENCE)
        psutil.wait_procs(family, timeout=PATIENCE)

    def settle(self) -> None:
        """Cancel what is at work, and wait until nothing is: neither a run nor a process of one.

        What cannot be cancelled is killed with all the rest, for the next test to start anew; raises AssertionError.
        """
        runner = next(process for process in self.family() if "vitalfew.flows.deployments" in process.cmdline())

        def settled() -> bool:
            self.drop_waiting()
            left = self.unfinished()
            for run in left:
                if run["state_type"] == "RUNNING":
                    self.cancel(run["id"])
            return not left and not runner.children()

        try:
            wait(settled, lambda: f"{self.unfinished()} {runner.children()} {self.log('runner')}")
        except BaseException:
            self.kill()
            raise

    def call(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """The answer of the REST interface. Raises HTTPError."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Authorization": self.authorization}
        return asked(Request(f"{self.address}/api{path}", content, headers, method=method))

    def refused(self, flow: str, **parameters: Any) -> tuple[int, str]:
        """Status and message of a run that the server refuses to make."""
        try:
            self.run(flow, **parameters)
        except HTTPError as error:
            return error.code, json.load(error)["detail"]
        raise AssertionError("it was not refused")

    def deployment(self, flow: str) -> Any:
        return self.call(f"/deployments/name/{flow}/{flow}")

    def run(self, flow: str, **parameters: Any) -> str:
        """Start a run; its id."""
        given = {"parameters": {"parameters": {"store": str(self.store), **parameters}}}
        identifier: str = self.call(f"/deployments/{self.deployment(flow)['id']}/create_flow_run", given)["id"]
        return identifier

    def runs(self, flow: str) -> list[Any]:
        found: list[Any] = self.call("/flow_runs/filter", {"flows": {"name": {"any_": [flow]}}})
        return found

    def unfinished(self) -> list[Any]:
        """Every run that is not at its end."""
        asked = {"flow_runs": {"state": {"type": {"not_any_": list(FINAL)}}}}
        found: list[Any] = self.call("/flow_runs/filter", asked)
        return found

    def drop_waiting(self) -> None:
        """Delete the runs that wait for their time or for room."""
        for run in self.unfinished():
            if run["state_name"] in ("Scheduled", "Late"):
                self.call(f"/flow_runs/{run['id']}", method="DELETE")

    def cancel(self, run: str) -> None:
        self.call(f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}})

    def state(self, run: str) -> Any:
        return self.call(f"/flow_runs/{run}")["state"]

    def ended(self, run: str) -> Any:
        """A run's last state, when it has come to it."""
        wait(lambda: self.state(run)["type"] in FINAL, lambda: f"{self.state(run)} {self.log('runner')}")
        return self.state(run)

    def begun(self, run: str) -> None:
        """Wait until a run is at work."""
        wait(lambda: self.state(run)["type"] == "RUNNING", lambda: f"{self.state(run)} {self.log('runner')}")

    def logged(self, run: str, line: str) -> None:
        """Wait for a line of a run's log: Prefect sends them a while after they were written."""
        wait(lambda: line in self.logs(run), lambda: self.logs(run))

    def artifacts(self, run: str) -> list[Any]:
        found: list[Any] = self.call("/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run]}}})
        return found

    def logs(self, run: str) -> str:
        asked = {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_ASC"}
        return "\n".join(line["message"] for line in self.call("/logs/filter", asked))


def wait(condition: Callable[[], Any], told: Callable[[], str] = str) -> Any:
    """Until the condition holds. Raises AssertionError with what is `told` when `PATIENCE` is over."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            if found := condition():
                return found
        except (OSError, HTTPException):  # not yet there, or busy
            continue
        finally:
            time.sleep(0.2)
    raise AssertionError(f"waited {PATIENCE} s in vain: {told()}")
