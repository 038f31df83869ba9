"""The parts of pages: choices, marked texts, texts that are long."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Event

import pytest
from nicegui.testing import User

from tests.support import paging
from vitalfew.pages import parts
from vitalfew.pages.shell import Page
from vitalfew.pages.site import Site

Visit = Callable[[Callable[[], object], Callable[[User], Awaitable[None]]], None]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Visit:
    """Visits a page that draws what it is given."""

    def visit(draw: Callable[[], object], act: Callable[[User], Awaitable[None]]) -> None:
        monkeypatch.setattr(paging, "PAGES", (Page("/parts", "Parts", "", lambda site: draw()),))
        paging.visit(Site(Path("nowhere")), "/parts", act)

    return visit


def test_parts_show_text_as_text(drawn: Visit) -> None:
    chosen: list[str] = []

    def draw() -> None:
        parts.Choice("Method", {"a": "A <b>", "b": "B"}, "b", chosen.append)
        parts.long_text("x" * 9000)

    async def act(user: User) -> None:
        user.find("Method").trigger("change", "a")
        user.find("Method").trigger("change", "a value that is not offered")
        user.find("Show more").click()
        await user.should_see("1,000 characters are left")
        await user.should_see("A <b>")

    drawn(draw, act)
    assert chosen == ["a"]


def test_a_store_that_does_not_answer(drawn: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one in a bucket that is out of reach."""
    answered = Event()

    async def act(user: User) -> None:
        await user.should_see("the store did not answer within 0 s: a bucket may be out of reach")
        answered.set()
        user.find("Try again").click()
        await user.should_see("It answered.")

    monkeypatch.setattr(parts, "PATIENCE", 0.2)
    drawn(lambda: parts.later(answered.wait, lambda _: parts.hint("It answered.")), act)
