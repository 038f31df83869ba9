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

SECONDS = 0.3
PATIENCE = 20.0
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
    """A connection that a client opened, and how many bytes were sent to it."""

    server: "WireServer"
    timeout = PATIENCE
    sent = 0

    def handle(self) -> None:
        with suppress(OSError):
            while request := self.rfile.readline():
                length = 0
                while header := self.rfile.readline().decode().strip().lower():
                    if header.startswith("content-length:"):
                        length = int(header.partition(":")[2])
                self.rfile.read(length)
                if b"/chat/completions" in request:
                    self.server.attempts.append(self)
                    self.server.chat(self)
                else:
                    self.server.other(self)

    def send(self, content: bytes) -> None:
        self.wfile.write(content)
        self.sent += len(content)

    def drip(self, content: Callable[[int], bytes]) -> None:
        """Send a little every 10 ms, until the client leaves or the test has no patience left."""
        end = time.monotonic() + PATIENCE
        number = 0
        while time.monotonic() < end and not self.server.ended.wait(0.01):
            self.send(content(number))
            number += 1


class WireServer(ThreadingTCPServer):
    """A server that answers byte by byte as `chat` says; other requests get the reply of `other`."""

    daemon_threads = True

    def __init__(self, chat: Wire, other: Wire | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Stream)
        self.chat, self.other = chat, other or whole(LIST)
        self.attempts: list[Stream] = []
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


def head(*headers: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", "Content-Type: application/json", *headers, "", ""]).encode()


def whole(content: bytes, *headers: str) -> Wire:
    return lambda stream: stream.send(head(f"Content-Length: {len(content)}", *headers) + content)


def dripping(before: bytes, content: Callable[[int], bytes]) -> Wire:
    def wire(stream: Stream) -> None:
        stream.send(before)
        stream.drip(content)

    return wire


SLOW: dict[str, Wire] = {
    "body": dripping(head("Content-Length: 1000000"), lambda number: b" "),
    "body without end": dripping(head("Connection: close"), lambda number: b" "),
    "chunks": dripping(head("Transfer-Encoding: chunked"), lambda number: b"1\r\n \r\n"),
    "inside of a chunk": dripping(head("Transfer-Encoding: chunked"), lambda number: b"f;ext=" if not number else b"x"),
    "compressed to nothing": dripping(
        head("Connection: close", "Content-Encoding: gzip"), lambda number: b"x" if number else gzip.compress(b"")
    ),
    "status line": dripping(b"HTTP/1.1 200 ", lambda number: b"O"),
    "headers": dripping(b"HTTP/1.1 200 OK\r\n", lambda number: b"X-%d: y\r\n" % number),
    "announcements": dripping(b"", lambda number: b"HTTP/1.1 102 Processing\r\n\r\n"),
    "silence": dripping(b"", lambda number: b""),
    "error": dripping(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 100000\r\n\r\n", lambda number: b" "),
}


def engine_at(url: str, **settings: Any) -> OpenAI:
    given = {"model": "tiny", "base_url": url, "retries": 0, "timeout": SECONDS, **settings}
    return OpenAI(OpenAI.Options(**given), "critique")


def failure(engine: OpenAI) -> str:
    with pytest.raises(Unanswered) as raised:
        engine.complete(["a"])
    return next(iter(raised.value.reasons))


@pytest.mark.parametrize("kind", SLOW)
def test_an_answer_that_drips_for_ever_is_no_answer(kind: str) -> None:
    with WireServer(SLOW[kind]) as server:
        start = time.monotonic()
        reason = failure(engine_at(server.url, retries=1))
        took = time.monotonic() - start
        assert len(server.attempts) == 2
    assert reason.startswith("timed out: no whole answer within 0.3 seconds; raise critique.timeout")
    assert took < PATIENCE / 2


def test_an_answer_that_comes_in_time_is_taken_however_it_comes() -> None:
    def slowly(stream: Stream) -> None:
        stream.send(head(f"Content-Length: {len(GOOD)}"))
        for place in range(len(GOOD)):
            stream.send(GOOD[place : place + 1])

    packed = gzip.compress(GOOD)
    ways = {
        "slowly": slowly,
        "gzip": whole(packed, "Content-Encoding: gzip"),
        "chunks": lambda stream: stream.send(
            head("Transfer-Encoding: chunked") + b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)
        ),
    }
    for name, wire in ways.items():
        with WireServer(wire) as server:
            first, second = engine_at(server.url, timeout=PATIENCE, concurrency=1).complete(["a", "b"])
        assert (first.text, second.text, first.error) == ("yes", "yes", ""), name
        assert 0 < first.seconds < PATIENCE, name


def endless(stream: Stream) -> None:
    """Send as fast as the client reads, until it leaves."""
    stream.send(head("Connection: close"))
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and stream.sent < 64 * bounded.MOST_BYTES:
        stream.send(b" " * 65536)


BOMB = gzip.compress(bytes(32 << 20))
LONG: dict[str, Wire] = {
    "without end": endless,
    "announced": whole(b" " * (2 << 20)),
    "a bomb": whole(BOMB, "Content-Encoding: gzip"),
}


@pytest.mark.parametrize("kind", LONG)
def test_an_answer_that_is_too_long_is_no_answer(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "MOST_BYTES", 1 << 20)
    with WireServer(LONG[kind]) as server:
        reason = failure(engine_at(server.url, timeout=PATIENCE, retries=1))
        streams = server.attempts
    assert reason.startswith(
        "the answer is longer than 1,048,576 bytes: check the server, or lower critique.max_tokens"
    )
    assert len(streams) == 2
    assert all(stream.sent < 16 << 20 for stream in streams)


@pytest.mark.parametrize("encoding", ["br", "gzip"])
def test_an_answer_in_another_encoding_is_no_answer(encoding: str) -> None:
    with WireServer(whole(GOOD, f"Content-Encoding: {encoding}")) as server:
        reason = failure(engine_at(server.url, timeout=PATIENCE))
    assert "Content-Encoding" in reason


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (SLOW["headers"], "no server answers at .* no whole answer within 0.3 seconds; raise critique.timeout"),
        (LONG["announced"], "does not list its models: the answer is longer than 1,048,576 bytes"),
    ],
    ids=["headers", "long"],
)
def test_a_list_of_models_is_bounded_too(answer: Wire, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "MOST_BYTES", 1 << 20)
    with WireServer(whole(GOOD), answer) as server, pytest.raises(EngineUnavailable, match=message):
        engine_at(server.url).complete(["a"])
