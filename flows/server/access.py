"""Connect a command to a Prefect server, by its address and its secret, which is in a file that only the user reads."""

import atexit
import os
import socket
import subprocess
import sys
import time
import tomllib
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_urlsafe
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from vitalfew.configs.loading import ConfigError
from vitalfew.flows.server.api import HOST
from vitalfew.flows.server.guard import LINK, START
from vitalfew.flows.server.home import home
from vitalfew.storage import files

PATIENCE = 300.0
"""Seconds that a server has to start: a busy machine is slow, not broken."""
BEATS = {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}
"""Prefect's setting for the processes of runs: seconds between two heartbeats, the fewest that it takes."""
QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "vitalfew",
    "PREFECT_CLI_COLORS": "false",
    **BEATS,
}
"""Prefect's settings for servers and workers. The log of a run includes the messages of this project."""


@dataclass(frozen=True)
class Server:
    """A server's address without `/api`, the secret that it asks for, and the process of a `vitalfew ui`."""

    address: str
    secret: str | None = field(default=None, repr=False)
    pid: int | None = None

    def status(self, path: str) -> int | None:
        """The status of its answer to a GET within two seconds; None without an answer."""
        try:
            with urlopen(self.request(path), timeout=2) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code
        except (URLError, OSError):
            return None

    def answers(self) -> bool:
        return self.status("/api/health") == 200

    def request(self, path: str, body: bytes | None = None) -> Request:
        basic = b64encode((self.secret or "").encode()).decode()
        own = {"Authorization": f"Basic {basic}"} if self.secret else {}
        return Request(f"{self.address}{path}", body, {"Content-Type": "application/json", **own})


def link(server: Server) -> str:
    """An address that opens the server's interface in one browser, once. Raises ConfigError if it does not answer."""
    try:
        with urlopen(server.request(LINK, b""), timeout=10) as answer:
            return f"{server.address}{START}#{answer.read().decode()}"
    except (URLError, OSError) as error:
        raise ConfigError(f"the server at {server.address} gives no link: {error}; try again later") from None


def running(store: Path) -> Server | None:
    """The `vitalfew ui` of this store, if there is one."""
    folder = home(store)
    with files.locked(folder / "ui.lock", wait=False) as free:
        if free or not files.is_folder(folder):
            return None
    with suppress(OSError, ValueError, TypeError):
        return Server(**files.read_json(folder / "ui.json"))
    return None


def named(store: Path, url: str) -> Server:
    """The server of PREFECT_API_URL: with the secret of the store's `vitalfew ui` if that is the server, else with
    PREFECT_API_AUTH_STRING."""
    address = url.rstrip("/").removesuffix("/api")
    own = running(store)
    if own and address in (own.address, own.address.replace(HOST, "localhost")):
        return own
    return Server(address, os.environ.get("PREFECT_API_AUTH_STRING"))


def is_named() -> bool:
    """Return whether Prefect's settings name a server, or may do so. Prefect is not asked: its import takes seconds."""
    if "PREFECT_API_URL" in os.environ:
        return bool(os.environ["PREFECT_API_URL"])
    own = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect").expanduser()
    profiles = tomllib.loads(_text(Path(os.environ.get("PREFECT_PROFILES_PATH") or own / "profiles.toml")))
    profile = os.environ.get("PREFECT_PROFILE") or profiles.get("active")
    here = Path.cwd()
    return (
        "PREFECT_API_URL" in profiles.get("profiles", {}).get(profile, {})
        or "PREFECT_API_URL" in _text(here / ".env")
        or "[api" in _text(here / "prefect.toml")
        or "[tool.prefect" in _text(here / "pyproject.toml")
    )


def _text(path: Path) -> str:
    """The text of a file; "" where there is none that can be read."""
    with suppress(OSError, ValueError):
        return files.read_text(path)
    return ""


def connect(store: Path) -> None:
    """Give the flows of this process a server until its end: the one that Prefect's settings name, or a temporary one.

    Raises ConfigError if the named one does not answer or asks for another secret, or if no other starts.
    """
    from prefect.settings import get_current_settings

    settings = get_current_settings()
    if settings.api.url:
        server = named(store, settings.api.url)
        _check(server)
        if server.pid:
            _use(server)
    elif settings.server.ephemeral.enabled:
        _use(_temporary())


def named_for_workers(store: Path) -> Server:
    """The server that Prefect's settings name, for deployments that workers run.

    Raises ConfigError if they name none, or a `vitalfew ui`, or if it does not answer.
    """
    from prefect.settings import get_current_settings

    url = get_current_settings().api.url
    if not url:
        raise ConfigError(
            "no Prefect server is named: start one (`prefect server start`), and set PREFECT_API_URL to its address, "
            "for example http://127.0.0.1:4200/api"
        )
    server = named(store, url)
    _check(server)
    if server.pid:
        raise ConfigError(
            f"{server.address} is the `vitalfew ui` of {store}, which has separate deployments and schedules: set "
            "PREFECT_API_URL to a server of `prefect server start`"
        )
    return server


def _check(server: Server) -> None:
    if not server.answers():
        raise ConfigError(f"Prefect's server at {server.address} does not answer; start it, or unset PREFECT_API_URL")
    if server.status("/api/version") == 401:
        asks = "needs another secret" if server.secret else "needs a secret"
        raise ConfigError(
            f"Prefect's server at {server.address} {asks}: set PREFECT_API_AUTH_STRING. If it is a `vitalfew ui`, that "
            "printed a command that sets it"
        )


def _use(server: Server) -> None:
    """Set Prefect's settings in this process and in those that it starts."""
    from prefect.context import refresh_global_settings_context

    os.environ |= {"PREFECT_API_URL": f"{server.address}/api", "PREFECT_API_AUTH_STRING": server.secret or ""}
    refresh_global_settings_context()


def _temporary() -> Server:
    """Start a server for this process. Prefect's temporary server would need no secret and answer any host's pages."""
    with socket.socket() as bound:
        bound.bind((HOST, 0))
        server = Server(f"http://{HOST}:{bound.getsockname()[1]}", token_urlsafe(32))
        process = subprocess.Popen(
            [sys.executable, "-m", "vitalfew.flows.server.api", "--descriptor", str(bound.fileno()), "--ephemeral"],
            stdin=subprocess.PIPE,  # closes when this process ends
            pass_fds=[bound.fileno()],
            env={**os.environ, **protected(server)},
        )
    atexit.register(_end, process)  # after Prefect's own, which send what is left to it: the last come first
    deadline = time.monotonic() + PATIENCE
    while not server.answers():
        if process.poll() is not None or time.monotonic() > deadline:
            raise ConfigError("Prefect's temporary server did not start; to run without it, use `--runner serial`")
        time.sleep(0.1)
    return server


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def protected(server: Server) -> dict[str, str]:
    """Prefect's settings for a server that needs the secret, and refuses pages of other sites even with it."""
    return {
        "PREFECT_SERVER_API_AUTH_STRING": server.secret or "",
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"{server.address},{server.address.replace(HOST, 'localhost')}",
    }
