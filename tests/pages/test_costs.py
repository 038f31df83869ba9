"""The page Costs."""

import pytest
from nicegui.testing import User

from tests.support.paging import rows_of, visit
from vitalfew.pages.site import Site


def test_costs_by_method_add_up(site: Site) -> None:
    paid = site.store.sql("SELECT sum(tokens) FROM costs").item()

    async def act(user: User) -> None:
        rows = {row["method"]: row for row in await rows_of(user, "Costs by method")}
        assert {"naive", "ParetoRAG", "indexing (no method)"} <= rows.keys()
        shares = [float(row["share"].rstrip("%")) for row in rows.values()]
        assert sum(shares) == pytest.approx(100, abs=0.1 * len(shares))
        tokens = sum(int(row["tokens"].replace(",", "")) for row in rows.values())
        assert tokens == pytest.approx(paid, abs=len(rows))
        assert rows["naive"]["names"] == "shapes"
        await user.should_see("Answers outside of evaluations")
        await user.should_see("vitalfew serve")
        await user.should_see("0.05 USD for an hour of a CPU core")
        await user.should_see("vitalfew plan")

    visit(site, "/costs?period=all", act)
