"""SQLite as Prefect's server uses it here: what writes waits for its turn.

Prefect sets the write-ahead log and a patience of 60 s. But its transactions begin as readers, and SQLite refuses one
that comes to write after another has written, without waiting: "database is locked", which is status 503. Here they
begin as writers. PostgreSQL (PREFECT_API_DATABASE_CONNECTION_URL) needs none of this.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from prefect.server.database.configurations import AioSqliteConfiguration
from prefect.server.database.dependencies import set_database_config
from prefect.settings import get_current_settings
from sqlalchemy.ext.asyncio import AsyncSession, AsyncSessionTransaction


class PatientSqlite(AioSqliteConfiguration):
    """A database whose transactions wait for one another."""

    @asynccontextmanager
    async def begin_transaction(
        self, session: AsyncSession, with_for_update: bool = False
    ) -> AsyncGenerator[AsyncSessionTransaction, None]:
        async with super().begin_transaction(session, with_for_update=True) as transaction:
            yield transaction


def use_patiently() -> None:
    """Before Prefect's application is made: where its database is SQLite, use it so."""
    url = get_current_settings().server.database.connection_url
    if url and url.get_secret_value().startswith("sqlite"):
        set_database_config(PatientSqlite(url.get_secret_value()))
