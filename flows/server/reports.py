"""The reports of evaluations, in the browser that `vitalfew ui` has let in.

A report contains texts of a store: its page shows it in a frame that runs no scripts. Imports no Prefect.
"""

import asyncio
import re
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from vitalfew.flows.server.guard import NO_ACCESS, PAGES, REPORTS, Answer, Links
from vitalfew.storage import files
from vitalfew.storage.names import RUN_ID

_PATH = re.compile(rf"{REPORTS}/({RUN_ID})(/report\.html)?")
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; frame-src 'self'; "
        "frame-ancestors 'self'"
    ),
    "Referrer-Policy": "no-referrer",
}
_PAGE = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Report</title><style>
body {{ margin: 0; height: 100vh; display: flex; flex-direction: column; font-family: sans-serif }}
a {{ padding: 0.5rem 1rem }}
iframe {{ border: 0; flex: 1; background: white }}
</style></head><body><a href="{PAGES}/results?run=RUN">← The evaluation</a>
<iframe sandbox title="Report" src="{REPORTS}/RUN/report.html"></iframe></body></html>
"""


def report_path(run_id: str) -> str:
    """The path of a report's address."""
    return f"{REPORTS}/{run_id}"


def reports(store: Path, links: Links) -> dict[str, Answer]:
    """The answers of the addresses of a store's reports."""

    async def answer(request: Request) -> Response:
        path = _PATH.fullmatch(request.scope["path"])
        if path is None:
            return PlainTextResponse("There is no such page\n", 404)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("This address accepts GET\n", 405)
        if not (links.let_in(request.scope) or links.knows(request.headers.get("Authorization", ""))):
            return HTMLResponse(NO_ACCESS, 401, headers=_HEADERS)
        run_id, content = path.groups()
        if not content:
            return HTMLResponse(_PAGE.replace("RUN", run_id), headers=_HEADERS)
        try:
            page = await asyncio.to_thread(files.read_bytes, store / "reports" / run_id / "report.html")
        except OSError:
            gone = "The store has no report of this run: it was removed, or the run has not ended.\n"
            return PlainTextResponse(gone, 404, headers=_HEADERS)
        return HTMLResponse(page, headers=_HEADERS)

    return {REPORTS: answer}
