"""The HTTP client of the engine `openai`: every answer is bounded in time and in bytes.

Timeouts of an HTTP library hold for a connection and for single reads: it waits without end for a server that sends a
byte now and then, be it of the headers, and a body may fill the memory. Here an attempt has one deadline, which is
checked whenever bytes are read or written, and a body has one limit, before and after decompression. Only the names of
hosts are looked up by the system, in its time.
"""

import logging
import socket
import time
import zlib
from contextvars import ContextVar
from typing import Any

import httpcore2
import httpx2
import openai

from vitalfew.tasks.models.causal.engines.cap import payment_now

logger = logging.getLogger("vitalfew")

MOST_BYTES = 32 << 20
"""The longest answer: 4,096 tokens with 20 alternatives a token, as indented JSON, take some 28 MiB."""
MOST_VALUES = 1 << 20
"""The most values in an answer, by its commas: `{},` takes 27 times its bytes once it is read. Those tokens have 0.7
million."""
POOL = "_pool"
"""The attribute of httpx2's transports that holds the connections: there is no public name for it."""
KNOWN = "2.16.2"
"""The version of httpx2 that was tested."""
WRITTEN_AT_ONCE = 1 << 14
_deadline: ContextVar[float] = ContextVar("deadline")


class OutOfBounds(httpx2.TransportError):
    """An answer that takes too long or is too long; the message is for the user, and names the remedy."""


class TooSlow(OutOfBounds, httpx2.TimeoutException):
    """An answer that is not complete by its deadline."""


class TooLong(OutOfBounds):
    """An answer that has too many bytes."""


class BoundedClient(openai.DefaultHttpxClient):
    """A client that reads answers as a whole, within `seconds` and MOST_BYTES, and follows no redirect.

    `section`: where the user finds the settings that an error names.
    """

    def __init__(self, seconds: float, section: str, **options: Any) -> None:
        # gzip alone: no other decompression is bounded below.
        headers = {"Accept-Encoding": "gzip"}
        super().__init__(timeout=seconds, headers=headers, follow_redirects=False, **options)
        self._seconds, self._section = seconds, section
        for transport in filter(None, (self._transport, *self._mounts.values())):
            self._bound(transport)

    def _bound(self, transport: Any) -> None:
        """Make the connections of a transport keep the deadline; warn where httpx2 has changed too much for that."""
        try:
            pool = getattr(transport, POOL)
            pool._network_backend = _Network(pool._network_backend)
        except AttributeError:
            logger.warning(
                "httpx2 %s is not known here: requests to a slow server may exceed %s.timeout; "
                "`pip install httpx2==%s` keeps them within it",
                httpx2.__version__,
                self._section,
                KNOWN,
            )

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request and read the whole answer. Raises OutOfBounds, httpx2.RequestError, and CapReached before it
        is sent."""
        payment = payment_now()
        if payment:
            payment.sent()
        token = _deadline.set(time.monotonic() + self._seconds)
        try:
            response = self._whole(super().send(request, **{**options, "stream": True}))
            if payment and not response.is_success:
                payment.free()
            return response
        except (httpx2.ConnectError, httpx2.TimeoutException) as error:
            if payment and isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
                payment.free()  # nothing was sent
            if isinstance(error, httpx2.ConnectError):
                raise
            lacking = "connection" if isinstance(error, httpx2.ConnectTimeout) else "whole answer"
            raise TooSlow(
                f"timed out: no {lacking} within {self._seconds:g} seconds; raise {self._section}.timeout if the "
                "server needs longer"
            ) from None
        finally:
            _deadline.reset(token)

    def _whole(self, response: httpx2.Response) -> httpx2.Response:
        """Return the response with all of its content, decompressed."""
        content = bytearray()
        try:
            for chunk in response.iter_raw():
                content += chunk
                self._check(content)
                _left()
        finally:
            response.close()
        headers = response.headers.copy()
        encoding = headers.pop("Content-Encoding", "identity")
        for name in ("Content-Length", "Transfer-Encoding"):
            headers.pop(name, None)
        decompressed = self._decompressed(bytes(content), encoding)
        if decompressed.count(b",") > MOST_VALUES:
            raise self._too_long(f"has more than {MOST_VALUES:,} values")
        whole = httpx2.Response(
            response.status_code,
            headers=headers,
            content=decompressed,
            request=response.request,
            extensions=response.extensions,
        )
        whole.elapsed = response.elapsed
        return whole

    def _check(self, content: bytes | bytearray) -> None:
        if len(content) > MOST_BYTES:
            raise self._too_long(f"is longer than {MOST_BYTES:,} bytes")

    def _too_long(self, how: str) -> TooLong:
        return TooLong(f"the answer {how}: check the server, or lower {self._section}.max_tokens")

    def _decompressed(self, content: bytes, encoding: str) -> bytes:
        """Raises TooLong, DecodingError."""
        if encoding.lower() == "identity" or not content:
            return content
        if encoding.lower() not in ("gzip", "x-gzip"):
            raise httpx2.DecodingError(
                f"the answer has the Content-Encoding {encoding[:40]!r}, but only gzip was asked for: check the server"
            )
        try:
            decompressed = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(content, MOST_BYTES + 1)
        except zlib.error as error:
            raise httpx2.DecodingError(
                f"the answer has the Content-Encoding 'gzip', but is not gzip ({error}): check the server"
            ) from None
        self._check(decompressed)
        return decompressed


def _left(most: float | None = None) -> float:
    """Return the seconds until the deadline, at most `most`. Raises ReadTimeout."""
    seconds = _deadline.get() - time.monotonic()
    if seconds <= 0:
        raise httpx2.ReadTimeout("the deadline has passed")
    return seconds if most is None else min(seconds, most)


class _Stream(httpcore2.NetworkStream):
    """A connection whose reads and writes end by the deadline of the request that uses it."""

    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), WRITTEN_AT_ONCE):
            self._stream.write(buffer[start : start + WRITTEN_AT_ONCE], _left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, _left(timeout)))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Network(httpcore2.NetworkBackend):
    """Opens connections by the deadline of the request that needs them."""

    def __init__(self, network: httpcore2.NetworkBackend) -> None:
        self._network = network

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *given: Any, **options: Any
    ) -> httpcore2.NetworkStream:
        """Connect to the first address that answers: the network itself would grant all of them the same time."""
        failure: Exception | None = None
        try:
            addresses = [str(place[0]) for *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        for address in addresses:
            try:
                return _Stream(self._network.connect_tcp(address, port, _left(timeout), *given, **options))
            except httpx2.ReadTimeout as error:
                raise failure or error from None
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore2.ConnectError(f"{host} has no address")

    def sleep(self, seconds: float) -> None:
        self._network.sleep(seconds)
