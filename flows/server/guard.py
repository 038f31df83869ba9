"""Whom Prefect's server answers: its own host alone, and no page of another site.

Prefect asks for a secret by itself. What it does not look at is `Host`, by which a page whose name suddenly stands for
127.0.0.1 would be told from its own (DNS rebinding), and `Origin`, which says whose page opens a WebSocket or sends a
request that needs no permission beforehand (a POST without a body). Imports no Prefect.
"""

from base64 import b64encode
from collections.abc import Collection
from hashlib import sha256
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

START = "/start"
"""The page that takes the secret from its fragment, which no browser sends, to where Prefect's UIs look for it."""
_READ = ("GET", "HEAD")


def origins(port: int, configured: str | None = None) -> set[str]:
    """Origins of a server on this machine: loopback, and that of the URL by which the UI is to reach it."""
    ports = [f":{port}", ""] if port == 80 else [f":{port}"]
    own = {f"http://{host}{port}" for host in ("127.0.0.1", "localhost") for port in ports}
    parts = urlsplit((configured or "").lower())
    return own | ({f"{parts.scheme}://{parts.netloc}"} if parts.netloc else set())


class Guard:
    """An ASGI application that passes on what is meant for it."""

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        self.app = app
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
        elif scope["type"] == "http" and scope["path"] == START:
            await HTMLResponse(_PAGE, headers=_HEADERS)(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        """Status and reason, of a request that is not answered."""
        headers = Headers(scope=scope)
        hosts, sites = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return 421, f"This server only accepts requests for {', '.join(sorted(self.hosts))}"
        reads = scope["type"] == "http" and scope["method"] in _READ
        if not reads and any(site.lower() not in self.origins for site in sites):
            return 403, "This server does not accept requests from pages of other origins"
        return None


_SCRIPT = """
const key = btoa(location.hash.slice(1));
history.replaceState(null, "", location.pathname);
fetch("/api/version", {headers: {Authorization: `Basic ${key}`}}).then(answer => {
  if (answer.ok) {
    localStorage.setItem("prefect-password", key);
    location.replace("/deployments");
  } else {
    document.body.textContent = "This address is out of date. Use the address that the last `vitalfew ui` printed.";
  }
});
"""
_PAGE = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Vital Few</title></head>
<body>This page needs JavaScript, like Prefect's UI.<script>{_SCRIPT}</script></body></html>
"""
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        f"default-src 'none'; script-src 'sha256-{b64encode(sha256(_SCRIPT.encode()).digest()).decode()}'; "
        "connect-src 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}
