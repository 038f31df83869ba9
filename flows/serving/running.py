"""A server from its start to its end: what it serves, where it listens, and how it ends."""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import Field

from vitalfew.configs.loading import ConfigError, build, read_yaml
from vitalfew.configs.section import Config
from vitalfew.flows.pipelines.answering import Answering, configured
from vitalfew.flows.server.guard import origins
from vitalfew.flows.serving.configurations import Served
from vitalfew.flows.serving.entrance import KEYS, parse_keys
from vitalfew.tasks.models.causal.engines.budget import Budget

LOCAL = "127.0.0.1"
DRAIN = 60
"""Seconds in which requests are finished when the server ends."""


class Entry(Config):
    """A configuration of serve.yaml. `set`: settings that take precedence over the method's."""

    method: str
    index: str | None = None
    set: dict[str, Any] = Field({})


class ServeFile(Config):
    """A file serve.yaml: configurations by the name of their model, and the index of those that name none."""

    index: str | None = None
    configurations: dict[str, dict[str, Any]]


def read_entries(
    given: Iterable[str], index: str | None = None, settings: Mapping[str, Any] | None = None
) -> dict[str, Entry]:
    """Configurations by model, given as RUN:METHOD or as files with `configurations`. Raises ConfigError."""
    entries: dict[str, Entry] = {}
    for name in given:
        for model, entry in _entries(name, index, dict(settings or {})).items():
            if model in entries:
                raise ConfigError(f"the model {model} is named twice")
            entries[model] = entry
    if not entries:
        raise ConfigError("name a method to serve: RUN:METHOD, or a file with `configurations`")
    return entries


def _entries(name: str, index: str | None, settings: dict[str, Any]) -> dict[str, Entry]:
    if not (name.endswith((".yaml", ".yml")) and "configurations" in (content := read_yaml(Path(name)))):
        return {name: Entry(method=name, index=index, set=settings)}
    if settings:
        raise ConfigError(f"{name}: write the settings into the file, as `set` of a configuration, instead of --set")
    file = build(ServeFile, content)
    common = {"index": index or file.index}
    return {
        model: build(Entry, common, given, path=f"configurations.{model}")
        for model, given in file.configurations.items()
    }


def opened(store: Path, entries: Mapping[str, Entry], budget: Budget | None = None) -> list[Served]:
    """Plan every configuration; models are loaded later. `budget`: pays for the requests of all of them to servers.

    Raises UnknownName, ConfigError, IndexNotFound, IndexMismatch, NoPrice."""
    made = []
    for model, entry in entries.items():
        chosen = configured(store, entry.method, entry.index, entry.set)
        # A method that is named without its name, because it is the only one, is still called by it.
        name = model if model != entry.method or ":" in model else f"{model}:{chosen.method.name}"
        made.append(Served(name, Answering(store, chosen, budget)))
    return made


def checked_keys(host: str) -> dict[str, str]:
    """The keys of the environment, by name. Raises ConfigError if other machines could connect and there is none."""
    keys = parse_keys(os.environ.get(KEYS, ""))
    if host not in (LOCAL, "localhost") and not keys:
        raise ConfigError(
            f"--host {host} lets other machines connect, so that keys are needed: "
            f"export {KEYS}=NAME:KEY (a key: openssl rand -hex 24)"
        )
    return keys


def known_origins(host: str, port: int, further: Iterable[str] = ()) -> set[str]:
    """Origins by which clients reach the server: this machine's, `--host`, its name, and further ones."""
    names = set() if host == LOCAL else {host, socket.gethostname()}
    return origins(port).union(
        {f"http://{name}:{port}".lower() for name in names}, *(origins(port, each) for each in further)
    )


class Announcing(uvicorn.Server):
    """Calls `ready` once, when every model was warmed."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.app, self.ready = app, ready
        self._waiting: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._waiting = asyncio.create_task(self._announce())

    async def _announce(self) -> None:
        while self.app.state.service.unready:
            await asyncio.sleep(0.05)
        # The libraries' objects, which live as long as the server, are not looked through while requests wait.
        gc.collect()
        gc.freeze()
        self.ready()


def listen(host: str, port: int) -> socket.socket:
    """A socket of this address. Raises ConfigError if the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, asyncio sends small packets at once; else every answer may wait 40 ms for a receipt.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise ConfigError(f"{host}, port {port}: {error.strerror}; use another port: --port {port + 1}") from None
    return listening


def run(app: FastAPI, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; then accept nothing more, and finish what was accepted within DRAIN seconds.
    `ready` is called once every model was warmed."""
    config = uvicorn.Config(
        app,
        loop="asyncio",  # uvloop and httptools come with NiceGUI, and nothing here was measured with them
        http="h11",
        log_config=None,
        log_level="warning",
        access_log=False,  # an address may hold what was asked
        server_header=False,
        timeout_graceful_shutdown=DRAIN,
        h11_max_incomplete_event_size=2**16,
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn handles both while it serves, and raises them again when it has ended: they have had their effect.
        signal.signal(number, lambda number, frame: None)
    Announcing(config, app, ready).run(sockets=[listening])
