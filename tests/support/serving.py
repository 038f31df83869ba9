"""A server of answers in this process, on a port of its own, and ways to hold what it computes."""

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from tests.support.evaluating import searchable
from vitalfew.flows.pipelines.answering import Answering, configured
from vitalfew.flows.serving.batching import Bounds
from vitalfew.flows.serving.configurations import Served
from vitalfew.flows.serving.running import known_origins, listen

EXPERIMENT = """
about: two methods
choose: null
questions: {dataset: "synthetic:passages=120,questions=45,seed=3"}
methods:
  sentences:
    retrieve: {retriever: core_context, top_k: 8}
    refine: {max_tokens: 60}
    generate: {generator: "tests.support.fakes:FirstWords"}
  passages:
    retrieve: {retriever: passage, top_k: 3}
    generate: {generator: "tests.support.fakes:FirstWords"}
  alone:
    retrieve: null
    generate: {generator: "tests.support.fakes:FirstWords"}
"""
PATIENCE = 900.0
"""Seconds after which something that a test waits for will not come."""


def experiment(folder: Path) -> Path:
    """A file with the methods `sentences`, `passages` and `alone`."""
    file = folder / "trial.yaml"
    file.write_text(EXPERIMENT)
    return file


def served(
    file: Path, method: str, store: Path | None = None, bounds: Bounds | None = None, name: str | None = None
) -> Served:
    store = store or searchable()
    return Served(name or method, Answering(store, configured(store, f"{file}:{method}", "test")), bounds)


def row(number: int, **more: Any) -> dict[str, Any]:
    """A row of `requests`."""
    return {
        "request_id": f"{number:08}",
        "received": datetime(2026, 11, 26, tzinfo=UTC),
        "path": "/answer",
        "hits": [],
        "seconds": 0.5,
        "steps": {"retrieve": 0.25},
        "status": 200,
        "error": "",
        **more,
    }


class Held:
    """Stands before a task of a line: notes its batches, and holds them until it is released."""

    def __init__(self, each: Served, task: str = "answer") -> None:
        self.batches: list[list[Any]] = []
        self.begun, self.free = threading.Semaphore(0), threading.Event()
        self._compute = each.line.tasks[task]
        each.line.tasks = {**each.line.tasks, task: self}

    def __call__(self, items: Sequence[Any]) -> Sequence[Any]:
        self.batches.append(list(items))
        self.begun.release()
        assert self.free.wait(PATIENCE)
        return self._compute(items)

    def wait(self) -> None:
        """Return when another batch has begun."""
        assert self.begun.acquire(timeout=PATIENCE)


class Running:
    """The server of an application, which ends with the block as SIGTERM ends it."""

    def __init__(self, make: Any) -> None:
        """`make(hosts)`: returns the application."""
        self.listening = listen("127.0.0.1", 0)
        port = self.listening.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        self.app: FastAPI = make(known_origins("127.0.0.1", port))
        config = uvicorn.Config(self.app, log_config=None, access_log=False, timeout_graceful_shutdown=30)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listening]}, daemon=True)

    def __enter__(self) -> "Running":
        self.thread.start()
        until(lambda: self.server.started)
        return self

    def __exit__(self, *error: object) -> None:
        self.end()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()

    def end(self) -> None:
        self.server.should_exit = True

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.address, timeout=PATIENCE, **options)

    def ready(self) -> "Running":
        until(lambda: not self.app.state.service.unready)
        return self


def until(condition: Any) -> None:
    """Return when this is true. Raises AssertionError if it does not become so."""
    done = threading.Event()
    for _ in range(int(PATIENCE / 0.01)):
        if condition():
            return
        done.wait(0.01)
    raise AssertionError("it did not come")
