"""A guard in front of Prefect's server: it answers requests for this host, and refuses pages of other sites.

Prefect checks the secret. It does not check `Host`, which exposes a page whose name suddenly resolves to 127.0.0.1 (DNS
rebinding), nor `Origin`, which names the page that opens a WebSocket or sends a request that browsers allow without
asking first (a POST without a body).

Links open the interface in one browser, once, within ten minutes. A browser keeps the addresses of pages in its
history, so none may contain the secret: the page exchanges the link's code for it, and for the cookie that opens
the product's pages (vitalfew/pages) and the reports. Imports no Prefect.
"""

import hmac
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Collection, Mapping
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
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
REPORTS = "/reports"
"""The path below which the reports of evaluations stand."""
LIFE = 600.0
"""Seconds in which a code works."""
KEPT = 16
"""Codes that wait at a time; a new one replaces the oldest."""
LONGEST = 256
"""Bytes of a code that are read."""
NO_ACCESS = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Vital Few</title></head>
<body><h1>This browser has no access</h1>
<p>Run <code>vitalfew ui --link</code> in a terminal, with the same <code>--store</code>, open the link that it prints,
and then this page again.</p></body></html>
"""
_READ = ("GET", "HEAD")
_FRESH = {"Cache-Control": "no-store"}

Answer = Callable[[Request], Awaitable[Response]]


class Links:
    """The unused codes of a server. `key`: the secret, as browsers send it; `session`: the value of the cookie that
    opens the product's pages and reports, and nothing else; `home`: the page that a link leads to."""

    def __init__(self, secret: str, clock: Callable[[], float] = time.monotonic, home: str = "/deployments") -> None:
        self.key = b64encode(secret.encode()).decode()
        self.session = token_urlsafe(32)
        self.home = home
        self.clock = clock
        self._made: dict[bytes, float] = {}

    def knows(self, authorization: str) -> bool:
        """Return true if a request's header has the secret."""
        return hmac.compare_digest(authorization.encode(), f"Basic {self.key}".encode())

    def let_in(self, scope: Scope) -> bool:
        """Return true if a request has the cookie."""
        try:
            cookies = SimpleCookie("; ".join(Headers(scope=scope).getlist("cookie")))
        except CookieError:
            return False
        found = cookies.get(_cookie(scope))
        return found is not None and hmac.compare_digest(found.value.encode(), self.session.encode())

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

    @property
    def answers(self) -> dict[str, Answer]:
        """The answers of the addresses of links."""
        return {START: self._start, LINK: self._link}

    async def _start(self, request: Request) -> Response:
        """The page of a link, or the key and the cookie for a code."""
        if request.method in _READ:
            return HTMLResponse(_PAGE.replace("HOME", self.home), headers=_HEADERS)
        if request.method != "POST":
            return PlainTextResponse("This address accepts GET and POST\n", 405)
        if not self.spend(await _code(request)):
            return PlainTextResponse("Out of date\n", 403)
        answer = PlainTextResponse(self.key, headers=_FRESH)
        answer.set_cookie(_cookie(request.scope), self.session, httponly=True, samesite="strict")
        return answer

    async def _link(self, request: Request) -> Response:
        """A code for the secret."""
        if request.method != "POST":
            return PlainTextResponse("This address accepts POST\n", 405)
        if not self.knows(request.headers.get("Authorization", "")):
            return PlainTextResponse("Unauthorized\n", 401)
        return PlainTextResponse(self.new(), headers=_FRESH)


def _digest(code: bytes) -> bytes:
    """The key to search by: the time of a search then reveals nothing about codes."""
    return sha256(code).digest()


def _cookie(scope: Scope) -> str:
    """Cookies are those of a host: the port in the name keeps those of two servers apart."""
    return f"vitalfew-{scope['server'][1]}"


async def _code(request: Request) -> bytes:
    """The start of the body, long enough for any code."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST:
            break
    return body


def origins(port: int, configured: str | None = None) -> set[str]:
    """Origins of a server on this machine: loopback, and the URL by which the UI reaches it."""
    ports = [f":{port}", ""] if port == 80 else [f":{port}"]
    own = {f"http://{host}{port}" for host in ("127.0.0.1", "localhost") for port in ports}
    parts = urlsplit((configured or "").lower())
    return own | ({f"{parts.scheme}://{parts.netloc}"} if parts.netloc else set())


def is_below(path: str, *roots: str) -> bool:
    """Return true if a path is one of these, or below one."""
    return any(path == root or path.startswith(f"{root}/") for root in roots)


class Addresses:
    """An ASGI application that answers for addresses of its own (by path, and those below it), and passes on all other
    requests."""

    def __init__(self, app: ASGIApp, answers: Mapping[str, Answer]) -> None:
        self.app, self.answers = app, answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        own = max((root for root in self.answers if is_below(path, root)), key=len, default=None)
        if own is None:
            await self.app(scope, receive, send)
        else:
            response = await self.answers[own](Request(scope, receive))
            await response(scope, receive, send)


class Guard:
    """An ASGI application that passes on the requests that it allows."""

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        self.app = app
        self.origins = frozenset(origins)
        self.hosts = frozenset(urlsplit(origin).netloc for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or not (refused := self.refused(scope)):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": refused[1]})
        else:
            status, reason = refused
            await PlainTextResponse(f"{reason}\n", status)(scope, receive, send)

    def refused(self, scope: Scope) -> tuple[int, str] | None:
        """Return the status and the reason if a request is refused."""
        headers = Headers(scope=scope)
        hosts, sites = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return 421, f"This server only accepts requests for {', '.join(sorted(self.hosts))}"
        by_cookie = is_below(scope["path"], PAGES, REPORTS)  # which a browser also sends for pages of another port
        reads = scope["type"] == "http" and scope["method"] in _READ
        if (by_cookie or not reads) and any(site.lower() not in self.origins for site in sites):
            return 403, "This server does not accept requests from pages of other origins"
        return None


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
_HEADERS = {
    **_FRESH,
    "Content-Security-Policy": (
        f"default-src 'none'; script-src 'sha256-{b64encode(sha256(_SCRIPT.encode()).digest()).decode()}'; "
        "connect-src 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}
