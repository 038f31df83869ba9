"""What a corpus runs after a promotion (`on_promote`), on the pages of its index."""

from functools import partial

from nicegui import ui

from vitalfew.flows.pipelines.on_promote import describe_on_promote, run_on_promote
from vitalfew.pages import parts
from vitalfew.pages.site import Site

AFTER = " Then on_promote of its corpus runs, and this page says how it ended."
"""Of a decision, where there is such a command."""


def known(site: Site, name: str) -> str:
    """Whether the command has run for the generation that searches find, in words; '' where there is none."""
    return describe_on_promote(site.place, name, site.corpora)


async def publish(site: Site, name: str, place: ui.element) -> None:
    """Run the command after a decision on a page, and show in a place that it runs. It takes as long as it takes, and
    goes on where the page is left. How it ended is `known` then."""
    with place:  # the button that decided is gone, drawn anew
        if not await parts.asked(partial(known, site, name), place):
            return
        with parts.anew(place):
            parts.waiting(f"on_promote of {name} runs, also if you leave this page")
        run = partial(run_on_promote, site.place, name, site.corpora)
        if await parts.asked(run, place, is_endless=True) is not None:  # else its error is there
            place.clear()
