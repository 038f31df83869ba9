"""The engine `openai` against servers that never come to an end: time and memory of an answer are bounded."""

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from tests.support.fakes import ChatServer, Reply, completion
from vitalfew.tasks.models.causal.engines import bounded
from vitalfew.tasks.models.causal.engines.base import Completion, EngineUnavailable, Probe
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


class Stream:
    """A connection that a client opened, and what it sent."""

    def __init__(self, connection: socket.socket, path: str, ended: threading.Event) -> None:
        self.connection, self.path, self._ended = connection, path, ended
        self.sent = 0

    def send(self, content: bytes) -> None:
        self.connection.sendall(content)
        self.sent += len(content)

    def drip(self, content: Callable[[int], bytes]) -> None:
        """Send a little every 10 ms, until the client leaves or the test has no patience left."""
        end = time.monotonic() + PATIENCE
        number = 0
        while time.monotonic() < end and not self._ended.wait(0.01):
            self.send(content(number))
            number += 1


class WireServer:
    """A server that answers byte by byte as `chat` says; other requests get the reply of `other`."""

    def __init__(self, chat: Wire, other: Wire | None = None) -> None:
        self.chat, self.other = chat, other or whole(LIST)
        self.streams: list[Stream] = []
        self._open: list[socket.socket] = []
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> "WireServer":
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def attempts(self) -> list[Stream]:
        return [stream for stream in self.streams if stream.path.endswith("/chat/completions")]

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        """Answer requests on a connection, as many as come."""
        with connection, suppress(OSError):
            connection.settimeout(PATIENCE)
            with connection.makefile("rb") as reader:
                while line := reader.readline():
                    headers = dict(self._headers(reader))
                    reader.read(int(headers.get("content-length", 0)))
                    stream = Stream(connection, line.decode().split()[1], self._ended)
                    self.streams.append(stream)
                    (self.chat if stream.path.endswith("/chat/completions") else self.other)(stream)

    @staticmethod
    def _headers(reader: Any) -> Iterator[tuple[str, str]]:
        while (line := reader.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            yield name.lower(), value.strip()


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
        assert len(server.attempts()) == 2
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
        "GZip": whole(packed, "Content-Encoding: GZip"),
        "identity": whole(GOOD, "Content-Encoding: identity"),
        "chunks": lambda stream: stream.send(
            head("Transfer-Encoding: chunked") + b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)
        ),
    }
    for name, wire in ways.items():
        with WireServer(wire) as server:
            first, second = engine_at(server.url, timeout=PATIENCE, concurrency=1).complete(["a", "b"])
        assert (first.text, second.text, first.error) == ("yes", "yes", ""), name
        assert 0 < first.seconds < PATIENCE, name


def test_an_attempt_after_a_slow_one_has_the_whole_time() -> None:
    with WireServer(lambda stream: None) as server:
        server.chat = lambda stream: (whole(GOOD) if len(server.attempts()) == 3 else SLOW["body"])(stream)
        [answer] = engine_at(server.url, retries=2).complete(["a"])
    assert answer.text == "yes"


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
    "bombs, one after another": whole(BOMB * 40, "Content-Encoding: gzip"),
}


@pytest.mark.parametrize("kind", LONG)
def test_an_answer_that_is_too_long_is_no_answer(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "MOST_BYTES", 1 << 20)
    with WireServer(LONG[kind]) as server:
        reason = failure(engine_at(server.url, timeout=PATIENCE, retries=1))
        streams = server.attempts()
    assert reason.startswith(
        "the answer is longer than 1,048,576 bytes: check the server, or lower critique.max_tokens"
    )
    assert len(streams) == 2
    assert all(stream.sent < 16 << 20 for stream in streams)


def test_an_answer_of_too_many_values_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "MOST_VALUES", 1000)
    with WireServer(whole(b'{"choices": [' + b"{}," * 1001 + b"{}]}")) as server:
        reason = failure(engine_at(server.url, timeout=PATIENCE))
    assert reason == "the answer has more than 1,000 values: check the server, or lower critique.max_tokens"


def test_an_answer_with_all_that_a_probe_asks_for_is_read() -> None:
    """4,096 tokens, 20 alternatives each, in indented JSON."""
    entry = {"token": " token", "logprob": -0.123456789012, "bytes": [*b" token"]}
    steps = [{**entry, "top_logprobs": [entry] * 20}] * 4096
    content = json.dumps(completion("yes", logprobs={"content": steps}).body, indent=1).encode()
    assert 8 << 20 < len(content) < bounded.MOST_BYTES
    with WireServer(whole(gzip.compress(content, 1), "Content-Encoding: gzip")) as server:
        [answer] = engine_at(server.url, timeout=PATIENCE).complete(["a"])
    assert (answer.text, answer.error) == ("yes", "")


@pytest.mark.parametrize(("encoding", "content"), [("br", GOOD), ("gzip, gzip", GOOD), ("gzip", GOOD)])
def test_an_answer_in_another_encoding_is_no_answer(encoding: str, content: bytes) -> None:
    with WireServer(whole(content, f"Content-Encoding: {encoding}")) as server:
        reason = failure(engine_at(server.url, timeout=PATIENCE))
    assert "Content-Encoding" in reason
    assert encoding in reason


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (SLOW["body"], "no server answers at .* no whole answer within 0.3 seconds; raise critique.timeout"),
        (SLOW["headers"], "no server answers at .* no whole answer within 0.3 seconds; raise critique.timeout"),
        (LONG["announced"], "does not list its models: the answer is longer than 1,048,576 bytes"),
    ],
    ids=["body", "headers", "long"],
)
def test_a_list_of_models_is_bounded_too(answer: Wire, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "MOST_BYTES", 1 << 20)
    with WireServer(whole(GOOD), answer) as server, pytest.raises(EngineUnavailable, match=message):
        engine_at(server.url).complete(["a"])


def test_a_list_of_models_is_not_read() -> None:
    """Reading a million models took 30 seconds and 700 MiB."""
    many = b'{"object": "list", "data": [' + b"{}," * 900_000 + b"{}]}"
    with WireServer(whole(GOOD), whole(many)) as server:
        start = time.monotonic()
        [answer] = engine_at(server.url, timeout=PATIENCE).complete(["a"])
    assert answer.text == "yes"
    assert time.monotonic() - start < PATIENCE / 2


def test_a_timeout_is_a_number_that_a_socket_takes() -> None:
    for wrong in (0, -1, float("inf"), float("nan"), 1e10):
        with pytest.raises(ValueError, match="timeout"):
            OpenAI.Options(model="tiny", timeout=wrong)
    assert OpenAI.Options(model="tiny", timeout=86_400).timeout == 86_400


def test_a_probe_whose_tokens_are_never_named_takes_the_most_probable_ones() -> None:
    step = {"token": "Yes", "logprob": -0.5, "top_logprobs": [{"token": "Yes", "logprob": -0.5}]}
    chat = whole(json.dumps(completion("Yes", logprobs={"content": [step]}).body).encode())

    def other(stream: Stream) -> None:
        (SLOW["body"] if stream.path == "/tokenize" else whole(LIST))(stream)

    with WireServer(chat, other) as server:
        [answer] = engine_at(server.url).complete(["a"], Probe(("Yes",)))
    assert answer.probabilities == {"Yes": pytest.approx(0.6065, abs=1e-4)}


def test_addresses_that_never_answer_take_no_longer_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with twenty addresses: connections to a listener whose queue is full are not answered."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        known = socket.getaddrinfo

        def addresses(host: str, *given: Any, **options: Any) -> list[Any]:
            return known("127.0.0.1", *given, **options) * (20 if host == "models.invalid" else 1)

        monkeypatch.setattr(socket, "getaddrinfo", addresses)
        start = time.monotonic()
        with pytest.raises(EngineUnavailable, match=r"no connection within 0\.3 seconds"):
            engine_at(f"http://models.invalid:{full.getsockname()[1]}/v1").complete(["a"])
    assert time.monotonic() - start < 20 * SECONDS / 2


def test_a_proxy_of_the_environment_is_used_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with WireServer(SLOW["headers"]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        monkeypatch.setenv("NO_PROXY", "")
        start = time.monotonic()
        assert "timed out" in failure(engine_at("http://models.example.invalid/v1"))
        assert [stream.path for stream in proxy.attempts()] == ["http://models.example.invalid/v1/chat/completions"]
    assert time.monotonic() - start < PATIENCE / 2


def test_requests_at_once_have_a_deadline_of_their_own() -> None:
    def chat(stream: Stream) -> None:
        (SLOW["headers"] if len(server.attempts()) == 1 else whole(GOOD))(stream)

    with WireServer(chat) as server:
        answers = engine_at(server.url, concurrency=4, accept_errors=True).complete([*"abcdefgh"])
    assert sorted(answer.text for answer in answers) == ["", *["yes"] * 7]


def test_compression_is_asked_for_that_can_be_bounded() -> None:
    with ChatServer(lambda path, body, attempt: completion("yes") if body else Reply({"data": []})) as server:
        answers: list[Completion] = engine_at(server.url, timeout=PATIENCE).complete(["a"])
        assert {headers["accept-encoding"] for _, _, headers in server.asked} == {"gzip"}
    assert answers[0].text == "yes"
