"""Everything that a request passes before it is read: Host and Origin, the key, the size of its body; and its count.

Neither keys nor bodies are logged: of an error that is a bug, its type and its place are.
"""

import asyncio
import hmac
import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vitalfew.configs.loading import ConfigError
from vitalfew.flows.server.guard import Guard
from vitalfew.flows.serving.errors import GONE, Refused, place, response
from vitalfew.flows.serving.recording import RequestRecord, begin

logger = logging.getLogger("vitalfew")

KEYS = "VITALFEW_SERVE_KEYS"
"""The environment variable with the keys: NAME:KEY,NAME:KEY."""
LEAST = 16
"""Characters of a key."""
PROBES = ("/health", "/ready")
"""Addresses for the machine that watches the server: it knows neither its name nor a key, and learns no more than
that the server works."""
OPEN = (*PROBES, "/docs", "/openapi.json")
"""Addresses that need no key: they show nothing of an index."""


def parse_keys(value: str) -> dict[str, str]:
    """Keys by name. Raises ConfigError, which repeats no key."""
    keys: dict[str, str] = {}
    for number, entry in enumerate(filter(None, (part.strip() for part in value.split(","))), 1):
        name, colon, key = entry.partition(":")
        if not (colon and name.strip()):
            raise ConfigError(f"{KEYS}: entry {number} must be NAME:KEY")
        if len(key) < LEAST or not (key.isascii() and key.isprintable()) or " " in key:
            raise ConfigError(f"{KEYS}: the key of {name} must have at least {LEAST} visible ASCII characters")
        if name in keys:
            raise ConfigError(f"{KEYS}: two keys are named {name}; give each its own name")
        keys[name] = key
    return keys


Watcher = Callable[[RequestRecord], None]


class Entrance:
    """Passes on requests for this host, with a known key if there are keys, and with a body of bounded size that
    arrives in time. Gives every request an id, and answers those whose handling fails by a bug.

    `origins`: those by which clients reach the server; `keys`: by name; `most`: bytes of a body; `seconds`: in which it
    must arrive; `counted` gets the record of every request, `recorded` those of requests that ask something.
    """

    def __init__(
        self,
        app: ASGIApp,
        origins: Collection[str],
        keys: Mapping[str, str],
        most: int,
        seconds: float,
        counted: Watcher,
        recorded: Sequence[Watcher],
    ) -> None:
        self.app, self.guard, self.most, self.seconds = app, Guard(app, origins), most, seconds
        self.keys = {name: f"Bearer {key}".encode() for name, key in keys.items()}
        self.counted, self.recorded = counted, recorded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "This server has no WebSockets"})
        else:
            await self._count(scope, receive, send)

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        status, record = 0, begin(scope["path"], Headers(scope=scope).get("traceparent", ""))

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = record.request_id
            await send(message)

        try:
            await self._admit(record, scope, receive, noted)
        except Refused as error:
            record.error = str(error)
            # Where a request is closed, the rest of its body is not read.
            headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {"Connection": "close"}
            await response(error, headers)(scope, receive, noted)
        except Exception as error:
            logger.error("the request %s failed: %s", record.request_id, place(error))
            record.error = f"{type(error).__name__}: a bug; the log says where"
            if status == 0:
                await response(Refused(500, "the server has a bug; its log says where"))(scope, receive, noted)
        finally:
            record.ended(status or GONE)
            for watcher in (self.counted, *(self.recorded if record.is_asked else ())):
                watcher(record)

    async def _admit(self, record: RequestRecord, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, when its body is there. Raises Refused."""
        if scope["path"] not in PROBES and (refused := self.guard.refused(scope)):
            raise Refused(*refused)
        record.key, record.admitted = self._key(scope), True
        try:
            body = await asyncio.wait_for(self._body(scope, receive), self.seconds)
        except TimeoutError:
            raise Refused(408, f"the body did not arrive within {self.seconds:g} s") from None
        if body is not None:
            await self.app(scope, _replayed(body, receive), send)

    def _key(self, scope: Scope) -> str | None:
        """The name of the request's key; None where none is needed. Raises Refused."""
        if not self.keys or scope["path"] in OPEN:
            return None
        given = Headers(scope=scope).get("authorization", "").encode("latin-1")
        # Every key is compared, so that the time says nothing of which one is nearly right.
        known = [name for name, key in self.keys.items() if hmac.compare_digest(given, key)]
        if not known:
            raise Refused(401, f"a key is needed: send 'Authorization: Bearer KEY', with a key of {KEYS} of the server")
        return known[0]

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The whole body; None if the client hung up before its end. Raises Refused if it is too long."""
        stated = Headers(scope=scope).get("content-length", "0")
        if stated.isascii() and stated.isdigit() and int(stated) > self.most:
            raise self._too_long()
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self.most:
                raise self._too_long()
            if not message.get("more_body"):
                return bytes(body)

    def _too_long(self) -> Refused:
        return Refused(413, f"the body has more than {self.most:,} bytes")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body, and then what comes after it: that the client hung up."""
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
