"""The process of Prefect's server, with its UI where that is on, on the loopback interface alone and behind a guard.

    python -m vitalfew.flows.server.api [--descriptor NUMBER] [--ephemeral]

It ends with the process that started it. The descriptor belongs to a bound socket. An ephemeral server has no UI, and
runs no schedules. All other settings are Prefect's environment variables (`flows/server/service.py`).
"""

import os
import signal
import socket
import threading
from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp

    from vitalfew.flows.server.guard import Links

HOST = "127.0.0.1"


def end_with_parent() -> None:
    """End this process when the process that started it ends in any way: standard input is its pipe."""

    def wait() -> None:
        os.read(0, 1)  # not sys.stdin, which this thread would hold when the process ends
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def serve(
    descriptor: int | None,
    store: Path | None = None,
    pages: "Callable[[ASGIApp, Links], ASGIApp] | None" = None,
    ephemeral: bool = False,
) -> None:
    """For a server with a secret: `store`: whose reports and figures it shows; `pages`: adds the product's pages
    to Prefect's application."""
    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    from vitalfew.flows.server.figures import figures
    from vitalfew.flows.server.guard import PAGES, Addresses, Guard, Links, origins
    from vitalfew.flows.server.reports import reports

    settings = get_current_settings().server
    bound = socket.socket(fileno=descriptor) if descriptor is not None else None
    port = bound.getsockname()[1] if bound else settings.api.port
    configured = settings.ui.api_url if "api_url" in settings.ui.model_fields_set else None  # not Prefect's default
    secret = settings.api.auth_string
    home = f"{PAGES}/" if pages else "/deployments"
    links = Links(secret.get_secret_value(), home=home) if secret else None
    _use_patiently()
    app: ASGIApp = create_app(ephemeral=ephemeral, final=True)
    if links:
        of_store = {**figures(store, links), **reports(store, links)} if store else {}
        app = Addresses(pages(app, links) if pages else app, {**links.answers, **of_store})
    guard = Guard(app, origins(port, configured))
    os.umask(0o077)  # for the database; what the application wrote before is the UI's pages, beside Prefect's code
    # uvloop and httptools come with NiceGUI; neither was measured here to gain anything.
    config = uvicorn.Config(
        guard, host=HOST, port=port, loop="asyncio", http="h11", log_level="warning", timeout_graceful_shutdown=2
    )
    uvicorn.Server(config).run(sockets=[bound] if bound else None)


def _use_patiently() -> None:
    """Before Prefect's application is made: where its database is SQLite, let transactions wait for one another.

    Prefect sets the write-ahead log and a patience of 60 s. But its transactions begin as readers, and SQLite refuses
    one that comes to write after another has written, without waiting: "database is locked", which is status 503. Here
    they begin as writers. PostgreSQL (PREFECT_API_DATABASE_CONNECTION_URL) needs none of this.
    """
    from prefect.server.database.configurations import AioSqliteConfiguration
    from prefect.server.database.dependencies import set_database_config
    from prefect.settings import get_current_settings

    class PatientSqlite(AioSqliteConfiguration):
        def begin_transaction(self, session: Any, with_for_update: bool = False) -> Any:
            return super().begin_transaction(session, with_for_update=True)

    url = get_current_settings().server.database.connection_url
    if url and url.get_secret_value().startswith("sqlite"):
        set_database_config(PatientSqlite(url.get_secret_value()))


if __name__ == "__main__":
    end_with_parent()
    arguments = ArgumentParser()
    arguments.add_argument("--descriptor", type=int)
    arguments.add_argument("--ephemeral", action="store_true")
    given = arguments.parse_args()
    serve(given.descriptor, ephemeral=given.ephemeral)
