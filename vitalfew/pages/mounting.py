"""Join the pages with Prefect's application: one address, one guard, one lifespan.

A browser sends a cookie with every page and every WebSocket, and NiceGUI needs both; Prefect's secret, which only
scripts of this origin read, comes with neither. So the link of `vitalfew ui` also sets a cookie
(flows/server/guard.py), and nothing here answers without it.

NiceGUI writes small scripts into its pages and compiles Vue's templates in the browser. The header
Content-Security-Policy therefore names the checksum of every such script, and allows `unsafe-eval`; a script that came
with a title, an answer or a row has no checksum, and does not run.
"""

import hmac
import re
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie

from fastapi import FastAPI
from nicegui import ui
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vitalfew.flows.server.guard import PAGES as ROOT
from vitalfew.flows.server.guard import Links, cookie_name
from vitalfew.pages.shell import PAGES, framed
from vitalfew.pages.site import Site

_ASSETS = f"{ROOT}/_nicegui"
_INLINE = re.compile(rb"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)
_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-eval'{scripts}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_NO_ACCESS = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Vital Few</title></head>
<body><h1>This browser has no access</h1>
<p>Run <code>vitalfew ui --link</code> in a terminal, with the same <code>--store</code>, open the link that it prints,
and then this page again.</p></body></html>
"""


def mounted(site: Site) -> Callable[[ASGIApp, Links], ASGIApp]:
    """Return a function that adds a site's pages to Prefect's application. NiceGUI has one set of pages per process."""

    def add(prefect: ASGIApp, links: Links) -> ASGIApp:
        outer = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        for page in PAGES:
            ui.page(page.path, title=f"{page.title} · Vital Few")(partial(framed, page, site))
        ui.run_with(
            outer,
            mount_path=ROOT,
            title="Vital Few",
            dark=None,  # as the browser prefers
            language="en-US",
            tailwind=False,
            reconnect_timeout=60,
            show_welcome_message=False,
        )
        return Beside(prefect, Gate(outer, links), outer)

    return add


class Beside:
    """Two applications: the pages below `ROOT`, and Prefect's everywhere else."""

    def __init__(self, prefect: ASGIApp, pages: ASGIApp, outer: FastAPI) -> None:
        self.prefect, self.pages, self.outer = prefect, pages, outer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            async with self.outer.router.lifespan_context(self.outer):
                await self.prefect(scope, receive, send)
        elif scope["path"] == ROOT or scope["path"].startswith(f"{ROOT}/"):
            await self.pages(scope, receive, send)
        else:
            await self.prefect(scope, receive, send)


class Gate:
    """The pages, for a browser that a link has let in. `links`: of the server."""

    def __init__(self, app: ASGIApp, links: Links) -> None:
        self.app, self.links = app, links

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_known(scope):
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1008, "reason": "Unauthorized"})
            else:
                await HTMLResponse(_NO_ACCESS, 401, headers=_headers(b""))(scope, receive, send)
        elif scope["type"] == "http" and not scope["path"].startswith(_ASSETS):
            headers = [each for each in scope["headers"] if each[0] != b"accept-encoding"]  # the page is read here
            await self.app({**scope, "headers": headers}, receive, Policed(send))
        else:
            await self.app(scope, receive, send)

    def _is_known(self, scope: Scope) -> bool:
        try:
            cookies = SimpleCookie("; ".join(Headers(scope=scope).getlist("cookie")))
        except CookieError:
            return False
        found = cookies.get(cookie_name(scope))
        return found is not None and hmac.compare_digest(found.value.encode(), self.links.session.encode())


class Policed:
    """Sends a page with its policy, when all of it is there; everything else as it comes."""

    def __init__(self, send: Send) -> None:
        self.send, self.body = send, bytearray()
        self.begun: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if Headers(raw=message["headers"]).get("content-type", "").startswith("text/html"):
                self.begun = message
                return
        elif self.begun is not None:
            self.body += message.get("body", b"")
            if message.get("more_body"):
                return
            MutableHeaders(raw=self.begun["headers"]).update(_headers(bytes(self.body)))
            await self.send(self.begun)
            message = {"type": "http.response.body", "body": bytes(self.body)}
        await self.send(message)


def _headers(page: bytes) -> dict[str, str]:
    sums = (b64encode(sha256(script).digest()).decode() for script in _INLINE.findall(page))
    return {
        "Content-Security-Policy": _POLICY.format(scripts="".join(f" 'sha256-{each}'" for each in sums)),
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
