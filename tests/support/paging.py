"""A page of the product without a browser: NiceGUI's own simulation of a user."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from nicegui import Client, ElementFilter, ui
from nicegui.testing import User, user_simulation

from vitalfew.pages.shell import PAGES, framed
from vitalfew.pages.site import Site

LOOKS = 3000
"""Looks at a page, 0.05 or 0.1 s apart, until what a test waits for is there; a machine may be busy."""
Found = TypeVar("Found")


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

    gc.freeze()  # NiceGUI collects garbage before and after each visit: not in all libraries, which takes half a second
    try:
        asyncio.run(simulated())
    finally:
        gc.unfreeze()


def see(site: Site, path: str, *texts: str) -> None:
    """Open a page, and wait for these texts."""

    async def act(user: User) -> None:
        for text in texts:
            await user.should_see(text)

    visit(site, path, act)


async def until(find: Callable[[], Found], told: Callable[[], object] = str) -> Found:
    """What is found, once that is something. Raises AssertionError with what is `told`."""
    for _ in range(LOOKS):
        if found := find():
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"it did not come to that: {told()}")


async def rows_of(user: User, label: str) -> list[dict[str, Any]]:
    """The rows that the table of this name shows, when it is there. Raises AssertionError without one."""

    def tables() -> list[ui.table]:
        with user:
            return [each for each in ElementFilter(kind=ui.table) if each.props.get("aria-label") == label]

    return list((await until(tables, lambda: user.current_layout))[0].rows)
