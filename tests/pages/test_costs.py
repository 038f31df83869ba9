"""The page Costs."""

from nicegui.testing import User

from tests.support.paging import rows_of, visit
from vitalfew.pages.site import Site


def test_costs_of_the_store(site: Site) -> None:
    async def act(user: User) -> None:
        assert "retrieve" in {row["stage"] for row in await rows_of(user, "Costs")}

    visit(site, "/costs", act)
