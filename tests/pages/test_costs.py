"""The page Costs."""

from datetime import date
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from nicegui import ElementFilter, ui
from nicegui.testing import User

from tests.support.paging import rows_of, visit
from vitalfew.pages import parts
from vitalfew.pages.costs import KEYS, span
from vitalfew.pages.site import Site


def test_costs_by_method_add_up(site: Site) -> None:
    paid = site.store.sql("SELECT sum(usd), sum(tokens) FROM costs").row(0)

    async def act(user: User) -> None:
        rows = {row["method"]: row for row in await rows_of(user, "Costs by method")}
        assert {"naive", "ParetoRAG", "indexing (no method)"} <= rows.keys()
        shares = [float(row["share"].rstrip("%")) for row in rows.values()]
        assert sum(shares) == pytest.approx(100, abs=0.1 * len(shares))
        assert sum(int(row["tokens"].replace(",", "")) for row in rows.values()) == pytest.approx(
            paid[1], abs=len(rows)
        )
        assert rows["naive"]["names"] == "shapes"
        await user.should_see("Answers outside of evaluations", retries=50)
        await user.should_see("vitalfew serve")
        await user.should_see("0.05 USD for an hour of a CPU core")
        await user.should_see("vitalfew plan", retries=50)

    visit(site, "/costs?period=all", act)


def test_costs_of_the_store_by_stage(site: Site) -> None:
    async def act(user: User) -> None:
        assert "retrieve" in {row["stage"] for row in await rows_of(user, "Costs by stage")}

    visit(site, "/costs?by=stage", act)


@pytest.mark.parametrize("by", ["method", "run", "model"])
def test_the_same_in_sql(site: Site, by: str) -> None:
    async def act(user: User) -> None:
        shown = await rows_of(user, f"Costs by {by}")
        with user:
            (link,) = [each for each in ElementFilter(kind=parts.Words) if each.text == "The same in SQL"]
        statement = parse_qs(urlsplit(link.props["href"]).query)["sql"][0]
        assert "WHERE day BETWEEN DATE" in statement
        key = KEYS[by][0]
        same = {row[key] or "(no model)": row for row in site.store.sql(statement).to_dicts()}
        assert same.keys() == {row[key] for row in shown}
        for row in shown:
            assert float(row["usd"]) == pytest.approx(same[row[key]]["usd"], rel=0.05, abs=1e-7)
            assert row["wall_seconds"] == f"{same[row[key]]['wall_seconds']:,.1f}"
            assert float(row["share"].rstrip("%")) == pytest.approx(same[row[key]]["percent_of_usd"], abs=0.11)
        if by == "run":
            assert {row["_run_id"] for row in shown if row["name"] == "towns"} == {""}
            assert all(row["run_id"] in row["_run_id"] for row in shown if row["name"] == "shapes")

    visit(site, f"/costs?by={by}", act)


def test_an_empty_store_is_said_once(tmp_path: Path) -> None:
    async def act(user: User) -> None:
        await user.should_see(str(tmp_path), retries=50)
        with user:
            assert len([each for each in ElementFilter(kind=ui.label) if str(tmp_path) in each.text]) == 1

    visit(Site(tmp_path / "none"), "/costs", act)


@pytest.mark.parametrize(
    ("period", "days"),
    [
        ("today", (date(2026, 11, 27), date(2026, 11, 27))),
        ("7", (date(2026, 11, 21), date(2026, 11, 27))),
        ("week", (date(2026, 11, 16), date(2026, 11, 22))),
        ("all", (None, None)),
    ],
)
def test_the_days_of_a_period(period: str, days: tuple[date | None, date | None]) -> None:
    assert span(period, date(2026, 11, 27)) == days
