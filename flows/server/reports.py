"""The reports of evaluations, in the browser that `vitalfew ui` has let in.

A browser sends the secret with no navigation, and Prefect's pages keep it where only scripts of this origin read it. So
the address of a report opens a page whose script fetches the report with the secret, and shows it in a frame that runs
no scripts: a report contains texts of a store. Imports no Prefect.
"""

import asyncio
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from vitalfew.flows.server.guard import Links
from vitalfew.storage import files
from vitalfew.storage.names import RUN_ID

PREFIX = "/reports/"
_PATH = re.compile(rf"{PREFIX}({RUN_ID})(/report\.html)?")


def report_path(run_id: str) -> str:
    """The path of a report's address."""
    return f"{PREFIX}{run_id}"


class Reports:
    """An ASGI application that answers for the reports of a store, and passes on all other requests."""

    def __init__(self, app: ASGIApp, store: Path, links: Links) -> None:
        self.app = app
        self.store = store
        self.links = links

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PREFIX):
            await (await self._answer(Request(scope)))(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = _PATH.fullmatch(request.scope["path"])
        if path is None:
            return PlainTextResponse("There is no such page\n", 404)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("This address accepts GET\n", 405)
        run_id, content = path.groups()
        if not content:
            return HTMLResponse(_PAGE, headers=_HEADERS)
        if not self.links.knows(request.headers.get("Authorization", "")):
            return PlainTextResponse("Unauthorized\n", 401)
        try:
            page = await asyncio.to_thread(files.read_bytes, self.store / "reports" / run_id / "report.html")
        except OSError:
            return PlainTextResponse("There is no such report\n", 404, headers=_HEADERS)
        return HTMLResponse(page, headers=_HEADERS)


_SCRIPT = """
async function show() {
  const key = localStorage.getItem("prefect-password");
  const answer = await fetch(`${location.pathname}/report.html`, {headers: {Authorization: `Basic ${key}`}});
  if (answer.ok) {
    const frame = document.createElement("iframe");
    frame.sandbox = "";
    frame.srcdoc = await answer.text();
    const back = document.createElement("a");
    back.href = `/vitalfew/results?run=${location.pathname.split("/")[2]}`;
    back.textContent = "← The evaluation";
    document.body.replaceChildren(back, frame);
  } else if (answer.status == 401) {
    document.body.textContent = "This browser has no access. Run `vitalfew ui --link` in a terminal, with the same " +
      "--store, open the link that it prints, and then this page again.";
  } else {
    document.body.textContent = "The store has no report of this run: it was removed, or the run has not ended.";
  }
}
show();
"""
_STYLE = """
body { margin: 0; height: 100vh; display: flex; flex-direction: column; font-family: sans-serif }
a { padding: 0.5rem 1rem }
iframe { border: 0; flex: 1; background: white }
"""
_PAGE = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Report</title><style>{_STYLE}</style></head>
<body>This page needs JavaScript, like Prefect's UI.<script>{_SCRIPT}</script></body></html>
"""
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        f"default-src 'none'; script-src 'sha256-{b64encode(sha256(_SCRIPT.encode()).digest()).decode()}'; "
        "style-src 'unsafe-inline'; img-src data:; font-src data:; connect-src 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}
