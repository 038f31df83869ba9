"""The page Results."""

from vitalfew.pages import parts
from vitalfew.pages.site import Site


def draw(site: Site) -> None:
    parts.hint("Results")
