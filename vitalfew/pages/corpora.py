"""The page Corpora and indexes."""

from vitalfew.pages import parts
from vitalfew.pages.site import Site


def draw(site: Site) -> None:
    parts.hint("Corpora and indexes")
