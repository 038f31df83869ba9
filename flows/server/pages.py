"""Prefect's own pages, with a click that opens a drop-down.

In the UI of Prefect 3.7.7 both the button of a drop-down and the box around it answer a click, one by opening the list
and one by closing it: a mouse opens none, on no page. Here the click ends at the button. A UI that does without this
works with it.
"""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SCRIPT = b"""<script>
document.addEventListener("click", event => {
  const button = event.target.closest?.(".p-select-button__control");
  button?.addEventListener("click", again => again.stopPropagation(), {once: true});
}, true);
</script></head>"""


_LEFT_OUT = (b"accept-encoding", b"if-none-match", b"if-modified-since")
"""Headers of a browser's request, which may have the page of an earlier version; the new one comes unpacked."""


class MendedPages:
    """An ASGI application: Prefect's, with the script in each page of its UI."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or "text/html" not in Headers(scope=scope).get("accept", ""):
            await self.app(scope, receive, send)
            return
        kept = [header for header in scope["headers"] if header[0] not in _LEFT_OUT]
        await self.app({**scope, "headers": kept}, receive, _Mending(send))


class _Mending:
    """Passes on an answer; a page's when it is whole, with the script at the end of its head."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.start: Message | None = None
        self.body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and self._is_page(message):
            self.start = message
        elif message["type"] == "http.response.body" and self.start:
            self.body += message.get("body", b"")
            if not message.get("more_body"):
                await self._page(self.start)
        else:
            await self.send(message)

    @staticmethod
    def _is_page(start: Message) -> bool:
        headers = Headers(raw=start["headers"])
        return headers.get("content-type", "").startswith("text/html")

    async def _page(self, start: Message) -> None:
        page = self.body.replace(b"</head>", _SCRIPT, 1)
        MutableHeaders(raw=start["headers"])["content-length"] = str(len(page))
        await self.send(start)
        await self.send({"type": "http.response.body", "body": page})
