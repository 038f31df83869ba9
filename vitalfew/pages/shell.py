"""The frame of every page: its title, the links to the others, and to Prefect's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nicegui import ui

from vitalfew.flows.server.guard import PAGES as ROOT
from vitalfew.pages import ask, corpora, costs, overview, parts, results, review, sql
from vitalfew.pages.addresses import parameters
from vitalfew.pages.site import Site


@dataclass(frozen=True)
class Page:
    """`path`: below `ROOT`; `about`: one sentence under the title; `draw`: fills the page, and returns at once;
    `view`: the title of one of its views, by the parameters of the address, empty for the page itself."""

    path: str
    title: str
    about: str
    draw: Callable[[Site], None]
    view: Callable[[Mapping[str, str]], str] = lambda given: ""


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

_STYLE = """
.nicegui-content { padding: 1rem clamp(0.75rem, 3vw, 2.5rem); gap: 1rem; align-items: stretch; max-width: 100rem;
  margin: 0 auto }
h1 { font-size: 1.5rem; line-height: 1.2; font-weight: 600; margin: 0 }
h2 { font-size: 1.15rem; line-height: 1.3; font-weight: 600; margin: 1rem 0 0 }
header nav { display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; flex: 1 1 0; min-width: 0; white-space: nowrap }
header a { color: white; text-decoration: none; padding: 0.15rem 0 }
header a[aria-current] { font-weight: 700; border-bottom: 2px solid white }
.nicegui-content a { color: inherit; text-decoration: underline }
a:focus-visible, summary:focus-visible { outline: 2px solid; outline-offset: 2px }
header a:focus-visible { outline-offset: -2px }
.good, .bad, .waits { font-weight: 600 }
.nicegui-content .good { color: #15703a }
.nicegui-content .bad { color: #b3121d }
.nicegui-content .waits { color: #8a5200 }
.body--dark .nicegui-content .good { color: #6ee7a0 }
.body--dark .nicegui-content .bad { color: #ff9d9d }
.body--dark .nicegui-content .waits { color: #fbc65b }
.beside { display: grid; gap: 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(var(--least, 20rem), 100%), 1fr)) }
.context { border-left: 3px solid color-mix(in srgb, currentColor 30%, transparent); padding-left: 0.75rem }
a.action { display: inline-block; padding: 0.35rem 0.8rem; border: 1px solid currentColor; border-radius: 4px;
  color: inherit; text-decoration: none }
.about, .hint { opacity: 0.85; max-width: 60rem }
.problem { border-left: 4px solid #c10015; padding-left: 0.75rem; white-space: pre-wrap; overflow-wrap: anywhere }
.text { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate }
mark { background: color-mix(in srgb, #facc15 45%, transparent); color: inherit }
summary { display: list-item; cursor: pointer }
.dropped { opacity: 0.7 }
.fact { text-decoration: underline; text-decoration-thickness: 2px; text-underline-offset: 3px }
.field { display: flex; flex-direction: column; gap: 0.25rem; font-size: 0.9rem; min-width: 0; max-width: 100% }
.field select, .field input { font: inherit; color: inherit; background: transparent; padding: 0.4rem;
  border: 1px solid color-mix(in srgb, currentColor 55%, transparent); border-radius: 4px; max-width: 100% }
.field select, .field input { box-sizing: border-box; height: 2.2rem }
.field option { color: black; background: white }
.row:not([class*="q-"]) { display: flex; flex-wrap: wrap; gap: 1rem; align-items: end }
.q-table th { font-weight: 600 }
.q-table td, .q-table th { unicode-bidi: isolate; white-space: normal; overflow-wrap: break-word; max-width: 36rem }
.q-table td.long { min-width: 14rem }
.q-table th:focus-visible { outline: 2px solid }
@media (max-width: 700px) {
  header .brand { display: none }
  header nav { font-size: 0.875rem; gap: 0.1rem 0.75rem }
  .q-table__middle { background: linear-gradient(to left, var(--page, white) 50%, transparent) right / 3rem 100%
    no-repeat local, linear-gradient(to left, color-mix(in srgb, currentColor 35%, transparent), transparent)
    right / 0.75rem 100% no-repeat scroll }
  .body--dark .q-table__middle { --page: var(--q-dark) }
}
.q-loading-bar { display: none }
.body--dark .nicegui-echart canvas, .body--dark .nicegui-echart svg { filter: invert(1) hue-rotate(180deg) }
.body--dark .q-btn.text-primary { --q-primary: #8ab4f8 }
@layer overrides { .q-table__bottom .q-btn { color: inherit !important } }
.nicegui-column, .nicegui-row, .q-table__container { min-width: 0; max-width: 100% }
.q-btn--outline.q-btn--dense { padding: 0.285em 0.8em }
.q-uploader__subtitle { display: none }
.number { font-variant-numeric: tabular-nums; white-space: nowrap !important }
.q-table th.number { white-space: normal !important; overflow-wrap: normal }
.q-table td:first-child, .q-table th:first-child { min-width: 7rem }
"""


def framed(page: Page, site: Site) -> None:
    """Draw a page within its frame."""
    ui.colors(primary="#1d4ed8")
    ui.add_css(_STYLE)
    with ui.header(fixed=False).classes("q-py-sm").style("gap: 1.5rem; flex-wrap: nowrap; align-items: baseline"):
        ui.label("Vital Few").classes("brand").style("font-weight: 700; white-space: nowrap")
        with ui.element("nav").props('aria-label="Pages"'):
            for other in PAGES:
                here = ' aria-current="page"' if other is page else ""
                ui.html(f'<a href="{ROOT}{other.path}"{here}>{other.title}</a>', sanitize=False, tag="span")
            ui.html('<a href="/deployments">Prefect</a>', sanitize=False, tag="span")
    view = page.view(parameters())
    if view:
        parts.link(f"← {page.title}", f"{ROOT}{page.path}")
    parts.Words(view or page.title, "h1").classes("text").mark("title")
    ui.page_title(f"{view or page.title} · Vital Few")
    if not view:
        ui.label(page.about).classes("about")
    page.draw(site)
