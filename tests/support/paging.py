"""A page of the product without a browser: NiceGUI's own simulation of a user."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import Client, ElementFilter, ui
from nicegui.testing import User, user_simulation

from vitalfew.pages.shell import PAGES, framed
from vitalfew.pages.site import Site


def visit(site: Site, path: str, act: Callable[[User], Awaitable[None]]) -> None:
    """Open a page, by its path with parameters ("/results?run=latest"), and let a user act on it."""
    page = next(each for each in PAGES if each.path == path.partition("?")[0])

    async def simulated() -> None:
        async with user_simulation(lambda: framed(page, site)) as user:
            await user.open(path)
            try:
                await act(user)
            finally:
                for client in Client.instances.values():
                    client.outbox.stop()  # Python 3.11 may lose its cancellation where a page is drawn at that moment

    asyncio.run(simulated())


async def rows_of(user: User, label: str) -> list[dict[str, Any]]:
    """The rows that the table of this name shows, when it is there. Raises AssertionError without one."""
    for _ in range(200):
        with user:
            for found in ElementFilter(kind=ui.table):
                if found.props.get("aria-label") == label:
                    return list(found.rows)
        await asyncio.sleep(0.05)
    raise AssertionError(f"there is no table {label!r}: {user.current_layout}")
