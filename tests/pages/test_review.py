"""The page Review: every key, what it keeps, a press on what is no longer shown, and what a reader may not learn."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from nicegui import ElementFilter, ui
from nicegui.testing import User

import vitalfew as vf
from tests.support.paging import rows_of, visit
from vitalfew.pages.review_session import State
from vitalfew.pages.site import Site
from vitalfew.tasks.reports.answers import MethodAnswers, same_text
from vitalfew.tasks.reports.runs import find_run

ADA = "/review?run=shapes&reviewer=Ada"
"""Two answers at a time, of methods that the address does not name."""


@pytest.fixture
def site(own: vf.Store) -> Site:
    return Site(own.place)


async def shown(user: User) -> str:
    """The drawing that the page shows, when there is one."""
    for _ in range(200):
        with user:
            for found in ElementFilter(kind=ui.element):
                if number := found.props.get("data-shown"):
                    return str(number)
        await asyncio.sleep(0.02)
    raise AssertionError(f"there is no session: {user.current_layout}")


async def press(user: User, *keys: str) -> None:
    """Press keys, each when the page shows what the one before led to."""
    for key in keys:
        number = await shown(user)
        user.find("keyboard").trigger("key", [key, number])
        for _ in range(200):
            if key in "cg" or await shown(user) != number:
                break
            await asyncio.sleep(0.02)
        else:
            raise AssertionError(f"{key} did nothing: {user.current_layout}")


def verdicts(site: Site) -> list[str]:
    return site.store.reviews("shapes")["verdict"].to_list()


def test_keys_keep_verdicts_and_go_on(site: Site) -> None:
    session = site.store.review("shapes", reviewer="Ada")
    names = session.methods
    assert session.items, "the methods of the store differ nowhere"

    async def act(user: User) -> None:
        await press(user, "c", "g", "U")
        await user.should_see("Kept: unsure.")
        await user.should_see("Reviewed: 1 of")
        layout = str(user.current_layout)
        assert not any(name in layout for name in names)  # blinded
        await press(user, "b")
        await user.should_see("Your verdict so far: unsure")
        await press(user, "=", "b", "b")
        await user.should_see("This is the first one.")

    visit(site, ADA, act)
    assert verdicts(site) == ["equal"]
    assert site.store.review("shapes", reviewer="Ada").place > 1  # a reload goes on
