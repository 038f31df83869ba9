"""The forms of `vitalfew ui` as their store is when somebody asks for them, or starts a run from them.

The names that a form offers lie in its deployment, in Prefect's database. Prefect's own way to change a deployment also
deletes the runs that its schedules have planned, and one that is due in that moment would be lost: only the schema is
written here.
"""

import asyncio
import logging
from pathlib import Path

import sqlalchemy
from prefect.server.database import provide_database_interface
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp, Receive, Scope, Send

from vitalfew.configs.loading import ConfigError
from vitalfew.flows.choices import names, with_names

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
