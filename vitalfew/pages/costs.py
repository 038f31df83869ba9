"""The page Costs."""

from vitalfew.pages import parts
from vitalfew.pages.site import Site


def draw(site: Site) -> None:
    parts.later(
        lambda: site.store.sql("FROM spending()"),
        lambda rows: parts.frame_table("Costs", [parts.Shown(c, c) for c in rows.columns], rows),
    )
