"""The parts of pages: choices, marked texts, texts that are long."""

from pathlib import Path
from threading import Event

import pytest
from nicegui.testing import User

from tests.support import paging
from tests.support.paging import visit
from vitalfew.pages import parts
from vitalfew.pages.shell import Page
from vitalfew.pages.site import Site


def test_parts_show_text_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[str] = []

    def draw(site: Site) -> None:
        parts.choice("Method", {"a": "A <b>", "b": "B"}, "b", chosen.append)
        parts.marked("abc def ghi", [(4, 7)])
        parts.long_text("x" * 9000)

    async def act(user: User) -> None:
        user.find("Method").trigger("change", "a")
        user.find("Method").trigger("change", "a value that is not offered")
        user.find("Show more").click()
        await user.should_see("1,000 characters are left")
        await user.should_see("A <b>")

    monkeypatch.setattr(paging, "PAGES", (Page("/parts", "Parts", "", draw),))
    visit(Site(Path("nowhere")), "/parts", act)
    assert chosen == ["a"]


def test_facts_are_underlined_within_what_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(site: Site) -> None:
        parts.marked("abc def ghi jkl", [(4, 11)], [(8, 15)])

    async def act(user: User) -> None:
        assert {str(words.text): set(words.classes) for words in user.find(kind=parts.Words).elements} == {
            "abc ": {"dropped"}, "def ": set(), "ghi": {"fact"}, " jkl": {"dropped", "fact"},
        }  # fmt: skip

    monkeypatch.setattr(paging, "PAGES", (Page("/parts", "Parts", "", draw),))
    visit(Site(Path("nowhere")), "/parts", act)


def test_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one in a bucket that is out of reach."""
    answered = Event()

    def draw(site: Site) -> None:
        parts.later(answered.wait, lambda _: parts.hint("It answered."))

    async def act(user: User) -> None:
        await user.should_see("the store did not answer within 0 s: a bucket may be out of reach", retries=20)
        answered.set()
        user.find("Try again").click()
        await user.should_see("It answered.")

    monkeypatch.setattr(parts, "PATIENCE", 0.2)
    monkeypatch.setattr(paging, "PAGES", (Page("/parts", "Parts", "", draw),))
    visit(Site(Path("nowhere")), "/parts", act)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (0, "0"),
        (0.0001, "0.00010"),
        (0.000076, "0.000076"),
        (0.0101, "0.010"),
        (0.999, "1.00"),
        (1234.5, "1,234.50"),
    ],
)
def test_amounts(value: float | None, shown: str) -> None:
    assert parts.usd(value) == shown
