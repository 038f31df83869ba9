"""The frame of every page: its title, the links to the others, and to Prefect's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nicegui import ui

from vitalfew.flows.server.guard import PAGES as ROOT
from vitalfew.pages import ask, corpora, costs, overview, parts, results, review, sql
from vitalfew.pages.addresses import parameters
from vitalfew.pages.site import Site, View

ASSETS = Path(__file__).with_name("assets")
"""Style sheets: of all pages, and of a page by the name of its path."""


@dataclass(frozen=True)
class Page:
    """`path`: below `ROOT`; `about`: one sentence under the title; `draw`: fills the page, and returns at once;
    `view`: another view of it, by the parameters of the address, None for the page itself."""

    path: str
    title: str
    about: str
    draw: Callable[[Site], None]
    view: Callable[[Mapping[str, str]], View | None] = lambda given: None


PAGES = (
    Page("/", "Overview", "What is served, what waits for a person, and what failed.", overview.draw),
    Page("/ask", "Ask", "Ask a question, and see what every method reads to answer it.", ask.draw),
    Page("/results", "Results", "Evaluations: methods, questions, and two runs side by side.", results.draw,
         results.view),
    Page("/sql", "SQL", "Read-only SQL on everything in the store.", sql.draw),
    Page("/review", "Review", "Say which answers are right; the labels correct a judge's verdicts.", review.draw),
    Page("/corpora", "Corpora and indexes", "What there is to search, and when it was last encoded.", corpora.draw,
         corpora.view),
    Page("/costs", "Costs", "What every run took: tokens, seconds and USD, as paid and as estimated.", costs.draw),
)  # fmt: skip
"""Every page, in the order of the links. A page may draw several views, by the parameters of its address."""


def framed(page: Page, site: Site) -> None:
    ui.colors(primary="#1d4ed8")
    for sheet in ("all", page.path.strip("/")):
        if (own := ASSETS / f"{sheet}.css").exists():
            ui.add_css(own)
    with ui.header(fixed=False).classes("q-py-sm").style("gap: 1.5rem; flex-wrap: nowrap; align-items: baseline"):
        ui.label("Vital Few").classes("brand").style("font-weight: 700; white-space: nowrap")
        with ui.element("nav").props('aria-label="Pages"'):
            for other in PAGES:
                here = ' aria-current="page"' if other is page else ""
                ui.html(f'<a href="{ROOT}{other.path}"{here}>{other.title}</a>', sanitize=False, tag="span")
            ui.html('<a href="/deployments">Prefect</a>', sanitize=False, tag="span")
    view, draw = page.view(parameters()) or ("", page.draw)
    if view:
        parts.link(f"← {page.title}", f"{ROOT}{page.path}")
    parts.Words(view or page.title, "h1").classes("text").mark("title")
    ui.page_title(f"{view or page.title} · Vital Few")
    if not view:
        ui.label(page.about).classes("about")
    draw(site)
