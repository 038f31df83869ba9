"""Join the pages with Prefect's application: one address, one guard, one lifespan.

A browser sends a cookie with every page and every WebSocket, and NiceGUI needs both; Prefect's secret, which only
scripts of this origin read, comes with neither. So the link of `vitalfew ui` also sets a cookie
(flows/server/guard.py), and nothing here answers without it.

NiceGUI writes small scripts into its pages and compiles Vue's templates in the browser. The header
Content-Security-Policy therefore names the checksum of every such script, and allows `unsafe-eval`; a script that came
with a title, an answer or a row has no checksum, and does not run.
"""

import re
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from hashlib import sha256

from fastapi import FastAPI
from nicegui import ui
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vitalfew.flows.server.guard import NO_ACCESS, Links, is_below
from vitalfew.flows.server.guard import PAGES as ROOT
from vitalfew.pages.shell import PAGES, framed
from vitalfew.pages.site import Site

_ASSETS = f"{ROOT}/_nicegui"
_INLINE = re.compile(rb"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)
_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-eval'{scripts}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)


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
        return Mounted(prefect, outer, links)

    return add


class Mounted:
    """The pages below `ROOT`, for a browser that a link has let in, and Prefect's application everywhere else."""

    def __init__(self, prefect: ASGIApp, pages: FastAPI, links: Links) -> None:
        self.prefect, self.pages, self.links = prefect, pages, links

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            async with self.pages.router.lifespan_context(self.pages):
                await self.prefect(scope, receive, send)
        elif not is_below(scope["path"], ROOT):
            await self.prefect(scope, receive, send)
        elif self.links.let_in(scope):
            if scope["type"] == "http" and not scope["path"].startswith(_ASSETS):
                headers = [each for each in scope["headers"] if each[0] != b"accept-encoding"]  # the page is read here
                scope, send = {**scope, "headers": headers}, Policed(send)
            await self.pages(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "Unauthorized"})
        else:
            await HTMLResponse(NO_ACCESS, 401, headers=_headers(b""))(scope, receive, send)


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
