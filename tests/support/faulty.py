"""A proxy before an S3 server that does what object storage and networks do at their worst, when told to.

Every fault is set by a method of FaultyProxy and holds until `clear()`, or until its `with` block ends if it is used
as one; the proxy's own end clears them too. What a fault strikes is counted, never drawn: it takes each `every`-th of
the requests of its `kinds` (all if None) whose path has `within` in it, at most `times` of them. Kinds are GET, HEAD,
PUT, POST, DELETE, and LIST, which is GET of a bucket. A client signs for the proxy's address, which moto does not mind.
"""

import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, TypedDict, Unpack

from tests.support.object_store import HOST, Answer, Asked, ObjectServer, refusal

CONDITIONS = ("if-match", "if-none-match")
WRITES = ("PUT", "POST", "DELETE")
MOST_SKEW = timedelta(minutes=15)  # S3 refuses a request whose date is further from its own clock


Forward = Callable[[Asked], Answer]
Effect = Callable[[Asked, Forward], Answer]  # answers, asking the server or not


class Which(TypedDict, total=False):
    """The requests that a fault strikes; the module says how."""

    every: int
    kinds: Collection[str] | None
    within: str
    times: int | None


class Fault:
    """An effect on some of the requests; as a `with` block, only inside it."""

    def __init__(self, proxy: "FaultyProxy", effect: Effect, **which: Unpack[Which]) -> None:
        self.proxy, self.effect = proxy, effect
        self.every, self.times, self.within = which.get("every", 1), which.get("times"), which.get("within", "")
        self.kinds = which.get("kinds")
        self.seen = self.struck = 0

    def strikes(self, asked: Asked) -> bool:
        """Counts the request; called under the proxy's lock."""
        if (self.kinds is not None and asked.kind not in self.kinds) or self.within not in asked.path:
            return False
        self.seen += 1
        due = self.seen % self.every == 0 and (self.times is None or self.struck < self.times)
        self.struck += due
        return due

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.lift(self)


class FaultyProxy:
    """Where clients go instead of to the server; `faulty` starts one.

    `count` and `log` hold every request that came: how many of a kind, and (method, path with its query), in order.
    """

    def __init__(self, server: ObjectServer, port: int) -> None:
        self.server, self.port = server, port
        self.url = f"http://{HOST}:{port}"
        self.environment = {**server.environment, "AWS_ENDPOINT_URL": self.url}
        self.count: Counter[str] = Counter()
        self.log: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._hook: Callable[[str, str], object] | None = None
        self._over = threading.Event()  # set: nothing waits any longer

    def fault(self, effect: Effect, **which: Unpack[Which]) -> Fault:
        """One of a test's own; those set first are the closest to the client."""
        set_now = Fault(self, effect, **which)
        with self._lock:
            self._faults.append(set_now)
        return set_now

    def lift(self, fault: Fault) -> None:
        with self._lock:
            self._faults = [other for other in self._faults if other is not fault]

    def clear(self) -> None:
        """No fault and no hook any longer, and what waits goes on; `count` and `log` stay."""
        with self._lock:
            self._faults, self._hook = [], None
            over, self._over = self._over, threading.Event()
        over.set()

    def before(self, callback: Callable[[str, str], object] | None) -> None:
        """Calls back with the method and the path of each request before anything is done with it, and waits for it.

        A ConnectionError from it closes the connection with the request undone.
        """
        with self._lock:
            self._hook = callback

    def fail(self, status: int = 500, **which: Unpack[Which]) -> Fault:
        """An error of S3's instead of the request done."""
        return self.fault(lambda asked, forward: refusal(status), **which)

    def cut(self, **which: Unpack[Which]) -> Fault:
        """The request is done and the connection closed without an answer, so that its client cannot know."""
        return self.fault(lambda asked, forward: replace(forward(asked), sent=0.0), **which)

    def cut_bodies(self, **which: Unpack[Which]) -> Fault:
        """The connection closes in the middle of what a GET gives."""
        only_gets: Which = {"kinds": ("GET",), **which}
        return self.fault(lambda asked, forward: replace(forward(asked), sent=0.5), **only_gets)

    def slow(self, seconds: float, **which: Unpack[Which]) -> Fault:
        """The request is done, and its answer comes so much later, or at once when the faults are cleared."""

        def later(asked: Asked, forward: Forward) -> Answer:
            over = self._over
            answer = forward(asked)
            over.wait(seconds)
            return answer

        return self.fault(later, **which)

    def forbid_writes(self) -> Fault:
        return self.fault(lambda asked, forward: refusal(403), kinds=WRITES)

    def forbid_all(self) -> Fault:
        return self.fault(lambda asked, forward: refusal(403))

    def ignore_conditions(self) -> Fault:
        """A bucket that writes whatever the condition, and says nothing of it."""

        def unconditional(asked: Asked, forward: Forward) -> Answer:
            headers = {name: value for name, value in asked.headers.items() if name not in CONDITIONS}
            return forward(replace(asked, headers=headers))

        return self.fault(unconditional, kinds=WRITES)

    def refuse_conditions(self) -> Fault:
        """A bucket that writes on no condition, and says so: 501."""

        def unless_conditional(asked: Asked, forward: Forward) -> Answer:
            return refusal(501) if any(name in asked.headers for name in CONDITIONS) else forward(asked)

        return self.fault(unless_conditional, kinds=WRITES)

    def skew(self) -> Fault:
        """The server's clock is an hour ahead of the clients'; a quarter of an hour is let pass, as by S3."""

        def by_date(asked: Asked, forward: Forward) -> Answer:
            now = datetime.now(UTC) + timedelta(hours=1)
            signed = asked.headers.get("x-amz-date")
            date = now if signed is None else datetime.strptime(signed, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            answer = refusal(403, "RequestTimeTooSkewed") if abs(now - date) > MOST_SKEW else forward(asked)
            return replace(answer, headers={**answer.headers, "date": format_datetime(now, usegmt=True)})

        return self.fault(by_date)

    def answer(self, asked: Asked, forward: Forward) -> Answer:
        """What the faults make of a request; ConnectionError if the hook drops it."""
        with self._lock:
            self.count[asked.kind] += 1
            self.log.append((asked.method, asked.target))
            hook = self._hook
        if hook is not None:
            hook(asked.method, asked.target)
        with self._lock:
            due = [fault.effect for fault in self._faults if fault.strikes(asked)]
        for effect in reversed(due):
            forward = _around(effect, forward)
        return forward(asked)


def _around(effect: Effect, forward: Forward) -> Forward:
    return lambda asked: effect(asked, forward)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    proxy: FaultyProxy

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Connection)
        self.connected: set[socket.socket] = set()

    def hang_up(self) -> None:
        for connection in list(self.connected):
            with suppress(OSError):  # the client was quicker
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # which clients that are killed leave behind
            super().handle_error(request, client_address)


class _Connection(BaseHTTPRequestHandler):
    """One client's, with one of its own to the server behind it; both last for many requests."""

    server: _Listener
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for the client's acknowledgement of its headers

    def setup(self) -> None:
        super().setup()
        self.server.connected.add(self.connection)
        self.behind = HTTPConnection(HOST, self.server.proxy.server.port)

    def finish(self) -> None:
        self.server.connected.discard(self.connection)
        self.behind.close()
        super().finish()

    def log_message(self, *_: Any) -> None:
        pass

    def work(self) -> None:
        if "transfer-encoding" in self.headers:
            return self.send_error(411)  # no S3 client here sends a body without its size
        try:
            self.give(self.server.proxy.answer(self.asked(), self.forward))
        except (ConnectionError, HTTPException):  # the hook's, or a server's or client's that is gone
            self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = work

    def asked(self) -> Asked:
        own = ("host", "connection", "expect", "content-length")
        headers = {name.lower(): value for name, value in self.headers.items() if name.lower() not in own}
        return Asked(self.command, self.path, headers, self.rfile.read(int(self.headers.get("content-length", 0))))

    def forward(self, asked: Asked) -> Answer:
        body = asked.body if asked.method in WRITES else None
        try:
            self.behind.request(asked.method, asked.target, body, asked.headers)
            answer = self.behind.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        except (ConnectionError, HTTPException):
            self.behind.close()  # opened again by the next request
            raise

    def give(self, answer: Answer) -> None:
        self.close_connection = self.close_connection or answer.sent < 1
        if answer.sent == 0:
            return
        headers = {
            name: value for name, value in answer.headers.items() if name not in ("connection", "transfer-encoding")
        }
        if self.command != "HEAD" and answer.status not in (204, 304):
            headers["content-length"] = str(len(answer.body))
        self.send_response_only(answer.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body[: int(len(answer.body) * answer.sent)])


@contextmanager
def faulty(server: ObjectServer) -> Iterator[FaultyProxy]:
    """A proxy in threads of this process, without faults yet; its connections end with the block."""
    listener = _Listener()
    listener.proxy = FaultyProxy(server, listener.server_address[1])
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield listener.proxy
    finally:
        listener.proxy.clear()
        listener.shutdown()
        listener.server_close()
        listener.hang_up()
        thread.join()
