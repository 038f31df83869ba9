"""Prefect's server and the runner of the deployments, as two processes that end with this one. Imports no Prefect."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.error import URLError
from urllib.request import urlopen

import psutil

from configs.loading import ConfigError
from storage import files

HOST = "127.0.0.1"
PATIENCE = 120.0
GRACE = {"runner": 40.0, "server": 4.0}
"""Seconds that a process has to end by itself: the runner gives its runs 30, and reports their states to the server."""


class ServiceEnded(RuntimeError):
    """A process of the service has ended; the message says which, and where its log is."""


@dataclass(frozen=True)
class Running:
    """A running `vitalfew ui`: its address, and the process that started it."""

    address: str
    pid: int


def home(store: Path) -> Path:
    """The directory of Prefect's database and of the logs: $PREFECT_HOME, or `.prefect` in the store."""
    return Path(os.environ.get("PREFECT_HOME") or files.local(store / ".prefect")).expanduser().absolute()


def running(store: Path) -> Running | None:
    """The service of this store, if there is one."""
    folder = home(store)
    with files.locked(folder / "ui.lock", wait=False) as free:
        if free or not files.is_folder(folder):
            return None
    with suppress(OSError, ValueError, TypeError):
        return Running(**files.read_json(folder / "ui.json"))
    return None


def answers(address: str) -> bool:
    """Whether Prefect's server at this address answers within two seconds."""
    try:
        with urlopen(f"{address}/api/health", timeout=2) as answer:
            return answer.status == 200
    except (URLError, OSError):
        return False


def check_server() -> None:
    """Raises ConfigError if PREFECT_API_URL names a server that does not answer."""
    address = os.environ.get("PREFECT_API_URL", "").rstrip("/").removesuffix("/api")
    if address and not answers(address):
        raise ConfigError(f"Prefect's server at {address} (PREFECT_API_URL) does not answer; start it, or unset that")


@contextmanager
def service(store: Path, port: int, corpora: Path | None = None) -> Iterator["Service"]:
    """Start both processes, and end both with the block.

    Raises ConfigError if the service runs already or the port is taken, ServiceEnded if it does not start.
    """
    folder = home(store)
    files.make_folder(folder)
    with files.locked(folder / "ui.lock", wait=False) as free:
        if not free:
            other = running(store)
            where = f" at {other.address} (process {other.pid})" if other else ""
            raise ConfigError(f"`vitalfew ui` of {store} runs already{where}; stop it there with Ctrl-C")
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
            raise ConfigError(f"port {port}: {error.strerror}; take another, --port {port + 1}") from None


class Service:
    """The processes, by name."""

    def __init__(self, store: Path, folder: Path, port: int, corpora: Path | None) -> None:
        self.address = f"http://{HOST}:{port}"
        self.folder = folder
        self.ready = folder / "ready"
        own = [str(corpora.absolute())] if corpora else []
        self.commands = {"server": ["server"], "runner": ["runner", str(store.absolute()), str(self.ready), *own]}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: list[IO[bytes]] = []

    def start(self) -> None:
        """Raises ServiceEnded if a process ends, or after two minutes."""
        files.remove(self.ready)
        files.write_json(self.folder / "ui.json", {"address": self.address, "pid": os.getpid()})
        for name, arguments in self.commands.items():
            self._logs.append(self.log(name).open("wb"))
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "flows.serve", *arguments],
                stdin=subprocess.PIPE,  # closes when this process ends
                stdout=self._logs[-1],
                stderr=subprocess.STDOUT,
                env=self._environment(),
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
                    f"the {name} ended (status {process.returncode}): {''.join(last) or 'it said nothing'}\n"
                    f"Its log: {self.log(name)}. Finished shards are kept: start `vitalfew ui` and the run again"
                )

    def stop(self) -> None:
        """End the runner first, which cancels its runs. After that time a process is killed with its children."""
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

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _environment(self) -> dict[str, str]:
        """Prefect's settings: everything stays on this machine, and a run's log has this project's messages."""
        return {
            **os.environ,
            "PREFECT_HOME": str(self.folder),
            "PREFECT_API_URL": f"{self.address}/api",
            "PREFECT_SERVER_API_HOST": HOST,
            "PREFECT_SERVER_API_PORT": self.address.rpartition(":")[2],
            # Pages of other sites in the same browser must not start runs here.
            "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"{self.address},{self.address.replace(HOST, 'localhost')}",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
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
