"""The engine `openai` against servers that never come to an end: time and memory of an answer are bounded."""

import gzip
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

import pytest

from tests.support.fakes import completion
from vitalfew.tasks.models.causal.engines import bounded
from vitalfew.tasks.models.causal.engines.base import EngineUnavailable
from vitalfew.tasks.models.causal.engines.openai import OpenAI
from vitalfew.tasks.models.causal.engines.remote import Unanswered

SECONDS = 0.8
PATIENCE = 60.0
"""Seconds after which a server of these tests gives up, so that a client without a bound fails its test."""

Wire = Callable[["Stream"], None]
LIST = b'{"object": "list", "data": []}'
GOOD = json.dumps(completion("yes").body).encode()


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.02)


class Stream(StreamRequestHandler):
    """A connection that a client opened."""

    server: "WireServer"
    timeout = PATIENCE

    def handle(self) -> None:
        with suppress(OSError):
            while request := self.rfile.readline():
                length = 0
                while header := self.rfile.readline().decode().strip().lower():
                    if header.startswith("content-length:"):
                        length = int(header.partition(":")[2])
                self.rfile.read(length)
                if b"/chat/completions" in request:
                    self.server.attempts += 1
                    self.server.chat(self)
                else:
                    self.server.other(self)

    def send(self, content: bytes) -> None:
        self.wfile.write(content)


def head(*headers: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", "Content-Type: application/json", *headers, "", ""]).encode()


def whole(content: bytes, *headers: str) -> Wire:
    return lambda stream: stream.send(head(f"Content-Length: {len(content)}", *headers) + content)


def dripping(before: bytes, drop: bytes) -> Wire:
    """Send a little every 10 ms, until the client leaves or the test has no patience left."""

    def wire(stream: Stream) -> None:
        end = time.monotonic() + PATIENCE
        stream.send(before)
        while time.monotonic() < end and not stream.server.ended.wait(0.01):
            stream.send(drop)

    return wire


class WireServer(ThreadingTCPServer):
    """A server that answers byte by byte as `chat` says; other requests get the reply of `other`."""

    daemon_threads = True

    def __init__(self, chat: Wire, other: Wire | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Stream)
        self.chat, self.other = chat, other or whole(LIST)
        self.attempts = 0
        self.ended = threading.Event()

    def __enter__(self) -> "WireServer":
        threading.Thread(target=self.serve_forever, args=(0.01,)).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.shutdown()
        self.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


def engine_at(url: str, **settings: Any) -> OpenAI:
    given = {"model": "tiny", "base_url": url, "retries": 0, "timeout": SECONDS, **settings}
    return OpenAI(OpenAI.Options(**given), "critique")


def failure(engine: OpenAI) -> str:
    with pytest.raises(Unanswered) as raised:
        engine.complete(["a"])
    return next(iter(raised.value.reasons))


SLOW: dict[str, Wire] = {
    "body": dripping(head("Connection: close"), b" "),
    "inside of a chunk": dripping(head("Transfer-Encoding: chunked") + b"f;ext=", b"x"),
    "headers": dripping(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    "announcements": dripping(b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    "silence": dripping(b"", b""),
}


@pytest.mark.parametrize("kind", SLOW)
def test_an_answer_that_drips_for_ever_is_no_answer(kind: str) -> None:
    with WireServer(SLOW[kind]) as server:
        reason = failure(engine_at(server.url))
    assert reason.startswith("timed out: no whole answer within 0.8 seconds; raise critique.timeout")


def test_an_answer_that_comes_in_time_is_taken_however_it_comes() -> None:
    def slowly(stream: Stream) -> None:
        for byte in head(f"Content-Length: {len(GOOD)}") + GOOD:
            stream.send(bytes([byte]))

    for wire in (slowly, whole(gzip.compress(GOOD), "Content-Encoding: gzip")):
        with WireServer(wire) as server:
            first, second = engine_at(server.url, timeout=PATIENCE, concurrency=1).complete(["a", "b"])
        assert (first.text, second.text, first.error) == ("yes", "yes", "")


LONG = whole(b" " * (2 << 20))
BOMB = whole(gzip.compress(bytes(32 << 20)), "Content-Encoding: gzip")


@pytest.mark.parametrize("long", [LONG, BOMB], ids=["plain", "compressed"])
def test_an_answer_that_is_too_long_is_no_answer(long: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "MOST_BYTES", 1 << 20)
    with WireServer(long) as server:
        reason = failure(engine_at(server.url, timeout=PATIENCE, retries=1))
        attempts = server.attempts
    assert reason.startswith("the answer is longer than 1,048,576 bytes: check the server, or lower critique.max_tok")
    assert attempts == 2


def test_a_list_of_models_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "MOST_BYTES", 1 << 20)
    for answer, seconds, message in (
        (
            SLOW["headers"],
            SECONDS,
            "no server answers at .* no whole answer within 0.8 seconds; raise critique.timeout",
        ),
        (LONG, PATIENCE, "does not list its models: the answer is longer than 1,048,576 bytes"),
    ):
        with WireServer(whole(GOOD), answer) as server, pytest.raises(EngineUnavailable, match=message):
            engine_at(server.url, timeout=seconds).complete(["a"])
