"""`vitalfew ui`: Prefect's server and the runner of the deployments, as two processes that end with this one. Imports
no Prefect."""

import json
import os
import socket
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from secrets import token_urlsafe

from vitalfew.configs.loading import ConfigError
from vitalfew.flows.server.access import QUIET, Server, protected, running
from vitalfew.flows.server.api import HOST
from vitalfew.flows.server.home import encryption_key, home
from vitalfew.flows.server.processes import ProcessEnded, Processes
from vitalfew.storage import files

GRACE = {"runner": 40.0, "server": 4.0}
"""Seconds that a process has to end by itself: the runner gives its runs 30, and reports their states to the server."""

CREDENTIALS = "metrics.credentials"
"""The file with the secret as Prometheus reads it (`credentials_file`); it is another one with every start."""


@contextmanager
def service(store: Path, port: int, corpora: Path | None = None) -> Iterator["Service"]:
    """Start both processes, and end both with the block; `prepare` has made the store's home.

    Raises ConfigError if the service runs already or the port is taken, ProcessEnded if it does not start.
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
            processes.start_both()
            yield processes
        finally:
            processes.end()
            processes.forget()


def _check_port(port: int) -> None:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: a port just closed is free
        try:
            trial.bind((HOST, port))
        except OSError as error:
            raise ConfigError(f"port {port}: {error.strerror}; use another port: --port {port + 1}") from None


class Service(Processes):
    """Prefect's server and the runner."""

    def __init__(self, store: Path, folder: Path, port: int, corpora: Path | None) -> None:
        super().__init__(folder)
        self.server = Server(f"http://{HOST}:{port}", token_urlsafe(32), os.getpid())
        self.ready = folder / "ready"
        place, own = str(store.absolute()), [str(corpora.absolute())] if corpora else []
        self.commands = {
            "server": ["vitalfew.pages", "--store", place, *(["--corpora", *own] if own else [])],
            "runner": ["vitalfew.flows.deployments", place, str(self.ready), *own],
        }

    def start_both(self) -> None:
        """Raises ProcessEnded if a process ends, or after five minutes."""
        files.remove(self.ready)
        files.write_private(self.folder / "ui.json", json.dumps(asdict(self.server)))
        files.write_private(self.folder / CREDENTIALS, b64encode((self.server.secret or "").encode()).decode())
        files.write_private(self.exports, "".join(f"export {name}={value}\n" for name, value in self._client().items()))
        common = {
            **QUIET,
            "PREFECT_HOME": str(self.folder),
            "PREFECT_LOGGING_LEVEL": "INFO",
            "PREFECT_RUNNER_POLL_FREQUENCY": "2",
        }
        settings = {"server": self._server(), "runner": self._client()}
        for name, command in self.commands.items():
            self.start(name, [sys.executable, "-m", *command], {**os.environ, **common, **settings[name]})
        try:
            self.until("Prefect's server", lambda: files.exists(self.ready))
        except TimeoutError as error:
            raise ProcessEnded(f"{error}; see {self.log('server')}") from None

    def ended(self, name: str) -> ProcessEnded:
        return ProcessEnded(
            f"the {name} ended (status {self.processes[name].returncode}): {self.last_words(name, 1) or 'no output'}\n"
            f"Log: {self.log(name)}. Finished shards are kept: start `vitalfew ui` and the run again"
        )

    def ask_to_end(self, process: "subprocess.Popen[bytes]") -> None:
        process.terminate()

    def grace(self, name: str) -> float:
        """Without a server the runner would wait for it without end, and cancel nothing."""
        return GRACE[name] if self.processes["server"].poll() is None else 0.0

    def forget(self) -> None:
        """Remove the files that name the server."""
        for place in (self.folder / "ui.json", self.folder / CREDENTIALS, self.exports):
            files.remove(place)

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
        }
