"""The page SQL."""

import asyncio

import pytest
from nicegui import ElementFilter, ui
from nicegui.testing import User

from tests.support.paging import rows_of, until, visit
from vitalfew.pages import sql_editor
from vitalfew.pages.site import Site


@pytest.fixture(autouse=True)
def no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the browser keeps of former visits: nothing."""

    async def set_up(editor: sql_editor.Editor) -> None:
        """The simulated user runs no JavaScript."""

    monkeypatch.setattr(sql_editor.Editor, "_set_up", set_up)


def typed(user: User, text: str) -> None:
    with user:
        (editor,) = ElementFilter(kind=ui.codemirror)
        editor.set_value(text)


def test_values_reach_the_browser_as_text(site: Site) -> None:
    statement = (
        "SELECT 9223372036854775807 AS big, NULL AS nothing, 'NaN'::DOUBLE AS nan, {'x': ['a', 'b, c']} AS nested, "
        "true AS yes, '<b>' AS html, repeat('x', 1000) AS long, '-infinity'::TIMESTAMPTZ AS early, 1 AS n, 2 AS n, "
        "2119 / 3 AS third, 0.0000123456789::DOUBLE AS small;"
    )

    async def act(user: User) -> None:
        typed(user, statement)
        user.find(marker="run").click()
        (row,) = await rows_of(user, "Rows")
        values = [row[f"c{place}"] for place in range(12)]
        assert values[:6] == ["9223372036854775807", None, "NaN", '{"x":["a","b, c"]}', "true", "<b>"]
        assert values[6] == {"text": "x" * 300, "length": "1,000", "at": 0}
        assert values[7:] == ["-infinity", "1", "2", "706.333333", "0.0000123457"]
        await user.should_see("1 row, 12 columns.")
        await user.should_see("1 statement")

    visit(site, "/sql", act)


def test_pages_and_order_of_many_rows(site: Site) -> None:
    async def act(user: User) -> None:
        typed(user, "SELECT range AS n, range % 7 AS week FROM range(300000)")
        user.find(marker="run").click()
        rows = await rows_of(user, "Rows")
        assert [row["c0"] for row in rows] == [str(n) for n in range(25)]
        await user.should_see("The first 100,000 rows, and there are more")
        user.find(kind=ui.table).trigger("request", {"pagination": {"page": 2, "sortBy": "c0", "descending": True}})
        (table,) = user.find(kind=ui.table).elements
        await until(lambda: table.rows[0]["c0"] == "99974", lambda: table.rows)

    visit(site, "/sql", act)


def test_a_query_is_cancelled_at_once(site: Site) -> None:
    async def act(user: User) -> None:
        typed(user, "SELECT count(*) FROM range(1000000) a, range(1000000) b")
        user.find(marker="run").click()
        await user.should_see("Running the statement")
        await asyncio.sleep(0.2)
        user.find("Cancel").click()
        await user.should_see("the query was cancelled")

    visit(site, "/sql", act)
