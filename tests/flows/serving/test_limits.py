"""Clients that ask too much, or go away in the middle."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.serving import Running, experiment, served, until
from vitalfew.flows.serving import chat
from vitalfew.flows.serving.application import application

QUESTION = "Who founded the town of Velmar?"
CONNECTIONS = 10_000
FILES = 500
"""Files that a process has open besides its connections, at most."""
HOLDING = """
import resource, socket, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
held = [socket.create_connection((host, port), timeout=60) for _ in range(count)]
for each in held[::2]:
    each.sendall(b"POST /answer HTTP/1.1\\r\\nHost: ")
print("open", flush=True)
sys.stdin.read()
"""
"""A client that opens connections, begins a request on every second one, and holds them until its stdin ends."""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    file = experiment(tmp_path)
    with Running(lambda hosts: application([served(file, "sentences")], hosts=hosts)) as server:
        yield server.ready()


def ask(client: httpx.Client) -> int:
    return client.post("/answer", json={"question": QUESTION}).status_code


@pytest.mark.slow
def test_ten_thousand_connections_keep_nobody_out(running: Running) -> None:
    connections = running.server.server_state.connections
    host, port = running.listening.getsockname()
    command = [sys.executable, "-c", HOLDING, host, str(port), str(CONNECTIONS)]
    pipe = subprocess.PIPE
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < CONNECTIONS + FILES:
        pytest.skip(f"a process may open {most} files here, and {CONNECTIONS + FILES} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (CONNECTIONS + FILES, most))
    with running.client() as client:
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as holding:
            assert holding.stdout is not None
            assert holding.stdout.readline() == "open\n"
            until(lambda: len(connections) >= CONNECTIONS)
            assert [ask(client) for _ in range(5)] == [200] * 5
            with running.client() as other:  # a new connection
                assert ask(other) == 200
            holding.communicate()
        until(lambda: len(connections) <= 1)
        assert ask(client) == 200


def test_a_stream_that_is_cut_ends(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*answer: Any) -> Iterator[str]:
        while True:
            yield "data: {}\n\n"

    monkeypatch.setattr(chat, "chunks", endless)
    at_work = running.server.server_state.tasks
    body = {"model": "sentences", "messages": [{"role": "user", "content": QUESTION}], "stream": True}
    with running.client() as client:
        with client.stream("POST", "/v1/chat/completions", json=body) as response:
            lines = response.iter_lines()  # held: one that is let go closes the connection
            assert next(lines) == "data: {}"
            assert ask(client) == 200  # others are answered meanwhile
            until(lambda: len(at_work) == 1)  # the stream goes on
        until(lambda: not at_work)
        assert ask(client) == 200
    assert running.app.state.service.served["sentences"].line.waiting == 0
