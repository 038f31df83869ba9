"""A guard in front of Prefect's server: it answers requests for this host, and refuses pages of other sites.

Prefect checks the secret. It does not check `Host`, which exposes a page whose name suddenly resolves to 127.0.0.1 (DNS
rebinding), nor `Origin`, which names the page that opens a WebSocket or sends a request that browsers allow without
asking first (a POST without a body).

Links open the interface in one browser, once, within ten minutes. A browser keeps the addresses of pages in its
history, so none may contain the secret: the page exchanges the link's code for it, and for the cookie that opens
the product's pages (vitalfew/pages). Imports no Prefect.
"""

import hmac
import time
from base64 import b64encode
from collections.abc import Callable, Collection
from hashlib import sha256
from secrets import token_urlsafe
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

START = "/start"
"""The page that a link opens; its fragment, which no browser sends, is the code. A POST of the code gives the key."""
LINK = "/start/link"
"""A POST with the secret gives the code of a new link."""
PAGES = "/vitalfew"
"""The path below which the product's pages stand."""
LIFE = 600.0
"""Seconds in which a code works."""
KEPT = 16
"""Codes that wait at a time; a new one replaces the oldest."""


class Links:
    """The unused codes of a server. `key`: the secret, as browsers send it; `session`: the value of the cookie that
    opens the product's pages, and nothing else; `home`: the page that a link leads to."""

    def __init__(self, secret: str, clock: Callable[[], float] = time.monotonic, home: str = "/deployments") -> None:
        self.key = b64encode(secret.encode()).decode()
        self.session = token_urlsafe(32)
        self.home = home
        self.clock = clock
        self._made: dict[bytes, float] = {}

    def knows(self, authorization: str) -> bool:
        """Return true if a request's header has the secret."""
        return hmac.compare_digest(authorization.encode(), f"Basic {self.key}".encode())

    def new(self) -> str:
        """Make the code of another link."""
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
    """The key to search by: the time of a search then reveals nothing about codes."""
    return sha256(code).digest()


LONGEST = 256
"""Bytes of a code that are read."""
_READ = ("GET", "HEAD")


def origins(port: int, configured: str | None = None) -> set[str]:
    """Origins of a server on this machine: loopback, and the URL by which the UI reaches it."""
    ports = [f":{port}", ""] if port == 80 else [f":{port}"]
    own = {f"http://{host}{port}" for host in ("127.0.0.1", "localhost") for port in ports}
    parts = urlsplit((configured or "").lower())
    return own | ({f"{parts.scheme}://{parts.netloc}"} if parts.netloc else set())


class Guard:
    """An ASGI application that passes on the requests that it allows. `links`: for a server with a secret."""

    def __init__(self, app: ASGIApp, origins: Collection[str], links: Links | None = None) -> None:
        self.app = app
        self.links = links
        self.origins = frozenset(origins)
        self.hosts = frozenset(urlsplit(origin).netloc for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif refused := self._refused(scope):
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1008, "reason": refused[1]})
            else:
                status, reason = refused
                await PlainTextResponse(f"{reason}\n", status)(scope, receive, send)
        elif self.links and scope["type"] == "http" and scope["path"] in (START, LINK):
            response = await _answer(Request(scope, receive), self.links)
            await response(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        """Return the status and the reason if a request is refused."""
        headers = Headers(scope=scope)
        hosts, sites = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return 421, f"This server only accepts requests for {', '.join(sorted(self.hosts))}"
        # The product's pages are opened by a cookie, which a browser also sends for pages of another port.
        by_cookie = scope["path"] == PAGES or scope["path"].startswith(f"{PAGES}/")
        reads = scope["type"] == "http" and scope["method"] in _READ
        if (by_cookie or not reads) and any(site.lower() not in self.origins for site in sites):
            return 403, "This server does not accept requests from pages of other origins"
        return None


async def _answer(request: Request, links: Links) -> Response:
    """Answer with the page of a link, with the key for a code, or with a code for the secret."""
    if request.method in _READ and request.url.path == START:
        return HTMLResponse(_PAGE.replace("HOME", links.home), headers=_HEADERS)
    if request.method != "POST":
        return PlainTextResponse("This address accepts POST\n", 405)
    if request.url.path == LINK:
        known = links.knows(request.headers.get("Authorization", ""))
        return PlainTextResponse(links.new(), headers=_FRESH) if known else PlainTextResponse("Unauthorized\n", 401)
    if not links.spend(await _body(request)):
        return PlainTextResponse("Out of date\n", 403)
    answer = PlainTextResponse(links.key, headers=_FRESH)
    answer.set_cookie(cookie_name(request.scope), links.session, path=PAGES, httponly=True, samesite="strict")
    return answer


def cookie_name(scope: Scope) -> str:
    """Cookies are those of a host: the port in the name keeps those of two servers apart."""
    return f"vitalfew-{scope['server'][1]}"


async def _body(request: Request) -> bytes:
    """The start of the body, long enough for any code."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST:
            break
    return body


_SCRIPT = """
const code = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
async function enter() {
  const given = await fetch("/start", {method: "POST", body: code});
  if (given.ok) localStorage.setItem("prefect-password", await given.text());
  const key = localStorage.getItem("prefect-password");
  const answer = await fetch("/api/version", {headers: {Authorization: `Basic ${key}`}});
  if (answer.ok) {
    location.replace(document.body.dataset.home);
  } else {
    document.body.textContent = "This link was used, or is older than ten minutes: it opens the UI in one browser, " +
      "once. For another link, run `vitalfew ui --link` in a terminal, with the same --store.";
  }
}
enter();
"""
_PAGE = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Vital Few</title></head>
<body data-home="HOME">This page needs JavaScript, like Prefect's UI.<script>{_SCRIPT}</script></body></html>
"""
_FRESH = {"Cache-Control": "no-store"}
_HEADERS = {
    **_FRESH,
    "Content-Security-Policy": (
        f"default-src 'none'; script-src 'sha256-{b64encode(sha256(_SCRIPT.encode()).digest()).decode()}'; "
        "connect-src 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}
