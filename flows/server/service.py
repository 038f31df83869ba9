"""`vitalfew ui`: Prefect's server and the runner of the deployments, as two processes that end with this one. Imports
no Prefect."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO

import psutil

from vitalfew.configs.loading import ConfigError
from vitalfew.flows.server.access import PATIENCE, Server, new_secret, protected, running
from vitalfew.flows.server.api import HOST
from vitalfew.flows.server.home import encryption_key, home
from vitalfew.storage import files

GRACE = {"runner": 40.0, "server": 4.0}
"""Seconds that a process has to end by itself: the runner gives its runs 30, and reports their states to the server."""


class ServiceEnded(RuntimeError):
    """A process of the service has ended; the message says which, and where its log is."""


@contextmanager
def service(store: Path, port: int, corpora: Path | None = None) -> Iterator["Service"]:
    """Start both processes, and end both with the block; `prepare` has made the store's home.

    Raises ConfigError if the service runs already or the port is taken, ServiceEnded if it does not start.
    """
    folder = home(store)
    with files.locked(folder / "ui.lock", wait=False) as free:
        if not free:
            other = running(store)
            where = f" at {other.address} (process {other.pid})" if other else ""
            raise ConfigError(
                f"`vitalfew ui` of {store} is already running{where}; stop it with Ctrl-C in its terminal"
            )
        _check_port(port)
        processes = Service(store, folder, port, corpora)
        try:
            processes.start()
            yield processes
        finally:
            processes.stop()


def _check_port(port: int) -> None:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: a port just closed is free
        try:
            trial.bind((HOST, port))
        except OSError as error:
            raise ConfigError(f"port {port}: {error.strerror}; use another port: --port {port + 1}") from None


class Service:
    """The processes, by name."""

    def __init__(self, store: Path, folder: Path, port: int, corpora: Path | None) -> None:
        self.server = Server(f"http://{HOST}:{port}", new_secret(), os.getpid())
        self.folder = folder
        self.ready = folder / "ready"
        place, own = str(store.absolute()), [str(corpora.absolute())] if corpora else []
        self.commands = {
            "server": ["vitalfew.flows.server.api", "--store", place, *(["--corpora", *own] if own else [])],
            "runner": ["vitalfew.flows.serve", place, str(self.ready), *own],
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: list[IO[bytes]] = []

    def start(self) -> None:
        """Raises ServiceEnded if a process ends, or after five minutes."""
        files.remove(self.ready)
        files.write_private(self.folder / "ui.json", json.dumps(asdict(self.server)))
        files.write_private(self.exports, "".join(f"export {name}={value}\n" for name, value in self._client().items()))
        settings = {"server": self._server(), "runner": self._client()}
        for name, command in self.commands.items():
            self._logs.append(files.open_private(self.log(name)))
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdin=subprocess.PIPE,  # closes when this process ends
                stdout=self._logs[-1],
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._common(), **settings[name]},
                start_new_session=True,  # Ctrl-C reaches only this process, which then ends them in order
            )
        deadline = time.monotonic() + PATIENCE
        while not files.exists(self.ready):
            self.check()
            if time.monotonic() > deadline:
                raise ServiceEnded(f"Prefect's server was not ready in {PATIENCE:.0f} s; see {self.log('server')}")
            time.sleep(0.1)

    def check(self) -> None:
        """Raises ServiceEnded if a process has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                last = self.log(name).read_text(errors="replace").strip().splitlines()[-1:]
                raise ServiceEnded(
                    f"the {name} ended (status {process.returncode}): {''.join(last) or 'no output'}\n"
                    f"Log: {self.log(name)}. Finished shards are kept: start `vitalfew ui` and the run again"
                )

    def stop(self) -> None:
        """End the runner first, which cancels its runs. A process that takes longer than GRACE is killed with its
        children."""
        family = [child for process in self.processes.values() for child in _family(process.pid)]
        for name in ("runner", "server"):
            if process := self.processes.get(name):
                # Without a server the runner would wait for it in vain, and cancel nothing.
                patience = GRACE[name] if self.processes["server"].poll() is None else 0.0
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(patience)
        for process in self.processes.values():
            family += [child for child in _family(process.pid) if child not in family]
        for child in family:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(family, timeout=2)
        for process in self.processes.values():
            process.kill()  # has no effect if it has ended
            process.wait()
        for log in self._logs:
            log.close()
        files.remove(self.folder / "ui.json")
        files.remove(self.exports)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    @property
    def exports(self) -> Path:
        """A file for a shell, with what a client needs."""
        return self.folder / "client.env"

    def _client(self) -> dict[str, str]:
        return {"PREFECT_API_URL": f"{self.server.address}/api", "PREFECT_API_AUTH_STRING": self.server.secret or ""}

    def _server(self) -> dict[str, str]:
        key = encryption_key(self.folder)
        return {
            **protected(self.server),
            **({"PREFECT_SERVER_ENCRYPTION_KEY": key} if key else {}),
            "PREFECT_API_URL": f"{self.server.address}/api",
            "PREFECT_SERVER_API_PORT": self.server.address.rpartition(":")[2],
            "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        }

    def _common(self) -> dict[str, str]:
        """Prefect's settings for both. The log of a run includes the messages of this project."""
        return {
            "PREFECT_HOME": str(self.folder),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_LOGGING_LEVEL": "INFO",
            "PREFECT_LOGGING_EXTRA_LOGGERS": "vitalfew",
            "PREFECT_RUNNER_POLL_FREQUENCY": "2",
            "PREFECT_CLI_COLORS": "false",
        }


def _family(pid: int) -> list[psutil.Process]:
    """All descendants of a process."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []
