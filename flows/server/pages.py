"""Corrections of Prefect's application for the browser: its pages, and the forms of its deployments.

In the UI of Prefect 3.7.7 both the button of a drop-down and the box around it answer a click, one by opening the list
and one by closing it: a mouse opens none, on no page. Here the click ends at the button. A UI that does without this
works with it.

When a form was sent, that UI shows its deployment. Here the page of the new run follows: its state, log and artifacts.

Forms follow their store: they are updated when somebody opens one, or starts a run from it. The names that a form
offers are in its deployment, in Prefect's database. Prefect's API for changing a deployment also deletes the runs that
its schedules have planned, and a run that should start at that moment would be lost: only the schema is written here.
"""

import asyncio
import logging
from pathlib import Path
from typing import cast

import sqlalchemy
from prefect.server.database import provide_database_interface
from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import Headers
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from vitalfew.configs.loading import ConfigError
from vitalfew.flows.forms import names, with_names

_SCRIPT = b"""<script>
document.addEventListener("click", event => {
  const button = event.target.closest?.(".p-select-button__control");
  button?.addEventListener("click", again => again.stopPropagation(), {once: true});
}, true);
{
  const open = XMLHttpRequest.prototype.open;
  const form = /\\/deployments\\/deployment\\/[^/]+\\/run\\b/;
  const show = (run, tries) => {
    if (!form.test(location.pathname)) {
      history.pushState(null, "", `/runs/flow-run/${run}`);
      dispatchEvent(new PopStateEvent("popstate"));
    } else if (tries) {
      setTimeout(show, 100, run, tries - 1);
    }
  };
  XMLHttpRequest.prototype.open = function (method, url, ...others) {
    if (/\\/deployments\\/[^/]+\\/create_flow_run$/.test(url)) {
      this.addEventListener("load", () => this.status === 201 && show(JSON.parse(this.responseText).id, 50));
    }
    return open.call(this, method, url, ...others);
  };
}
</script></head>"""
_WAY_BACK = b"""<style>
#vitalfew { position: fixed; right: 1rem; bottom: 1rem; z-index: 50; padding: 0.4rem 0.8rem; border-radius: 1rem;
  background: #1d4ed8; color: white; font: 0.85rem sans-serif; text-decoration: none }
</style></head>"""
_LINK = b"""<a id="vitalfew" href="/vitalfew/">Vital Few: ask, results, SQL</a></body>"""


_LEFT_OUT = (b"accept-encoding", b"if-none-match", b"if-modified-since")
"""Headers of a browser that may have the page of an earlier version; the new page comes uncompressed."""


class MendedPages(BaseHTTPMiddleware):
    """Prefect's application, with the script in every page of its UI, and with a link to the product's pages where
    these stand beside it."""

    def __init__(self, app: ASGIApp, linked: bool = False) -> None:
        super().__init__(app)
        self.linked = linked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "http" and "text/html" in Headers(scope=scope).get("accept", "")
        await (super().__call__ if is_page else self.app)(scope, receive, send)

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        kept = [header for header in request.scope["headers"] if header[0] not in _LEFT_OUT]
        request.scope["headers"] = kept
        answer = cast(StreamingResponse, await call_next(request))
        if not answer.headers.get("content-type", "").startswith("text/html"):
            return answer
        body = b"".join([cast(bytes, part) async for part in answer.body_iterator])
        body = body.replace(b"</head>", _SCRIPT, 1)
        if self.linked:
            body = body.replace(b"</head>", _WAY_BACK, 1).replace(b"</body>", _LINK, 1)
        page = Response(body, answer.status_code)
        answer.headers["content-length"] = str(len(page.body))
        page.raw_headers = answer.raw_headers
        return page


logger = logging.getLogger("vitalfew")
DEPLOYMENTS = "/api/deployments"


class FreshForms:
    """Prefect's application; the forms of this store's deployments are updated before every request that may read or
    check one, which lists three directories. `own`: the user's directory of corpora."""

    def __init__(self, app: ASGIApp, store: Path, own: Path | None = None) -> None:
        self.app = app
        self.store = store
        self.own = own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(DEPLOYMENTS):
            try:
                await self.refresh()
            except (ConfigError, OSError, SQLAlchemyError) as error:
                logger.warning("The drop-downs of the forms could not be updated: %s", error)
        await self.app(scope, receive, send)

    async def refresh(self) -> None:
        """Raises ConfigError if the user's directory of corpora is gone, SQLAlchemyError if SQLite is busy."""
        present = await asyncio.to_thread(names, self.store, self.own)
        database = provide_database_interface()
        table = database.Deployment
        columns = sqlalchemy.select(table.id, table.parameters, table.parameter_openapi_schema)
        async with database.session_context() as session:
            deployments = (await session.execute(columns)).all()
        for identifier, parameters, schema in deployments:
            if (parameters or {}).get("parameters", {}).get("store") != str(self.store):
                continue
            fresh = with_names(schema or {}, present)
            if fresh != schema:
                async with database.session_context(begin_transaction=True) as session:
                    changed = sqlalchemy.update(table).where(table.id == identifier)
                    await session.execute(changed.values(parameter_openapi_schema=fresh))
