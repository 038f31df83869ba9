"""Corrections of Prefect's application for the browser: its pages, and the forms of its deployments.

In the UI of Prefect 3.7.7 both the button of a drop-down and the box around it answer a click, one by opening the list
and one by closing it: a mouse opens none, on no page. Here the click ends at the button. A UI that does without this
works with it.

Forms are as their store is when somebody asks for them, or starts a run from them. The names that a form offers lie in
its deployment, in Prefect's database. Prefect's own way to change a deployment also deletes the runs that its schedules
have planned, and one that is due in that moment would be lost: only the schema is written here.
"""

import asyncio
import logging
from pathlib import Path

import sqlalchemy
from prefect.server.database import provide_database_interface
from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vitalfew.configs.loading import ConfigError
from vitalfew.flows.forms import names, with_names

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


logger = logging.getLogger("vitalfew")
DEPLOYMENTS = "/api/deployments"


class FreshForms:
    """An ASGI application: Prefect's, with the forms of this store's deployments brought up to date before each request
    that may read or check one. That takes a listing of three directories; `own` is the user's directory of corpora."""

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
        """Raises ConfigError where the user's directory of corpora is gone, SQLAlchemyError where SQLite is busy."""
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
