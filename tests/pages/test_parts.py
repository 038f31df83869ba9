"""The parts of pages: choices, marked texts, texts that are long."""

from pathlib import Path

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
