"""Links that open the interface in one browser, once, within ten minutes. A browser keeps the addresses of pages in its
history, so none may contain the secret: the page exchanges the link's code for it. Imports no Prefect."""

import hmac
import time
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from secrets import token_urlsafe

START = "/start"
"""The page that a link opens; its fragment, which no browser sends, is the code. A POST of the code gives the key."""
LINK = "/start/link"
"""A POST with the secret gives the code of a new link."""
LIFE = 600.0
"""Seconds in which a code works."""
KEPT = 16
"""Codes that wait at a time; a new one replaces the oldest."""


class Links:
    """The codes of a server that have not been used. `key`: the secret, as browsers send it."""

    def __init__(self, secret: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.key = b64encode(secret.encode()).decode()
        self.clock = clock
        self._made: dict[bytes, float] = {}

    def knows(self, authorization: str) -> bool:
        """Return true if a request's header has the secret."""
        return hmac.compare_digest(authorization.encode(), f"Basic {self.key}".encode())

    def new(self) -> str:
        """The code of another link."""
        code = token_urlsafe(32)
        while len(self._made) >= KEPT:
            self._made.pop(next(iter(self._made)))
        self._made[_digest(code.encode())] = self.clock()
        return code

    def spend(self, code: bytes) -> bool:
        """Return true if a code works; it works once."""
        made = self._made.pop(_digest(code), None)
        return made is not None and self.clock() - made <= LIFE


def _digest(code: bytes) -> bytes:
    """Searched instead of the code, so that the time of a search says nothing about codes."""
    return sha256(code).digest()
