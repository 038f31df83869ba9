"""The HTTP client of the engine `openai`: every answer is bounded in time and in bytes.

Timeouts of an HTTP library hold for a connection and for single reads: it waits without end for a server that sends a
byte now and then, be it of the headers, and a body may fill the memory. So an attempt is a task of an event loop, which
is cancelled at its deadline whatever it waits for, and a body has one limit, which holds for it decompressed.
"""

import asyncio
import os
import threading
from functools import cache
from typing import Any

import httpx2
import openai

from vitalfew.tasks.models.causal.engines.budget import payment_now
from vitalfew.tasks.models.causal.engines.keys import restrict

MOST_BYTES = 32 << 20
"""The longest answer: 4,096 tokens with 20 alternatives a token, as indented JSON, take some 28 MiB."""
MOST_VALUES = 1 << 20
"""The most values in an answer, by its commas: `{},` takes 27 times its bytes once it is read. Those tokens have 0.7
million."""


class OutOfBounds(httpx2.TransportError):
    """An answer that takes too long or is too long; the message is for the user, and names the remedy."""


class TooSlow(OutOfBounds, httpx2.TimeoutException):
    """An answer that is not complete by its deadline."""


class TooLong(OutOfBounds):
    """An answer that has too many bytes."""


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """The event loop of this process's requests, in a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="openai", daemon=True).start()
    return loop


os.register_at_fork(after_in_child=_loop.cache_clear)  # the thread stays with the parent


class BoundedClient(openai.DefaultHttpxClient):
    """A client that reads answers as a whole, within `seconds` and MOST_BYTES, and follows no redirect. A request
    carries the key of its server, and no other (keys.py). `section`: of the settings, for messages."""

    def __init__(self, seconds: float, section: str) -> None:
        # gzip alone: a chunk of it holds at most a thousand times its bytes, some 64 MiB.
        super().__init__(timeout=seconds, headers={"Accept-Encoding": "gzip"})
        self._seconds, self._section = seconds, section
        self._connections = openai.DefaultAsyncHttpxClient(timeout=seconds, follow_redirects=False)

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request and read the whole answer. Raises OutOfBounds, httpx2.RequestError, and CapReached before it
        is sent."""
        restrict(request)
        payment, sent = payment_now(), threading.Event()
        if payment:
            payment.sent()

        async def note(event: str, about: Any) -> None:
            if event.endswith("send_request_headers.started"):
                sent.set()

        request.extensions = {**request.extensions, "trace": note}
        try:
            response = asyncio.run_coroutine_threadsafe(self._attempt(request), _loop()).result()
        except (TimeoutError, httpx2.TimeoutException):
            lacking = "whole answer" if sent.is_set() else "connection"
            raise TooSlow(
                f"timed out: no {lacking} within {self._seconds:g} seconds; raise {self._section}.timeout if the "
                "server needs longer"
            ) from None
        finally:
            if payment and not sent.is_set():
                payment.free()
        if payment and not response.is_success:
            payment.free()
        return response

    async def _attempt(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response with all of its content. Raises TimeoutError at the deadline, and RequestError."""
        content = bytearray()
        async with asyncio.timeout(self._seconds):
            response = await self._connections.send(request, stream=True)
            try:
                encoding = response.headers.get("Content-Encoding", "gzip").lower()
                if encoding not in ("gzip", "identity"):
                    raise httpx2.DecodingError(f"the server answered in {encoding[:40]!r}; only gzip is read")
                async for chunk in response.aiter_bytes():
                    content += chunk
                    self._bound(len(content), MOST_BYTES, "is longer than", "bytes")
            finally:
                await response.aclose()
        self._bound(content.count(b","), MOST_VALUES, "has more than", "values")
        of_body = ("content-encoding", "content-length", "transfer-encoding")
        headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in of_body]
        whole = httpx2.Response(response.status_code, headers=headers, content=bytes(content), request=request)
        whole.elapsed = response.elapsed
        return whole

    def _bound(self, count: int, most: int, how: str, what: str) -> None:
        if count > most:
            remedy = f"check the server, or lower {self._section}.max_tokens"
            raise TooLong(f"the answer {how} {most:,} {what}: {remedy}")
