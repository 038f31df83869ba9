"""The labels of an evaluation so far, and its reviews as CSV. It names the methods."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import polars as pl
from nicegui import ui
from nicegui.events import UploadEventArguments

from vitalfew.flows.server.guard import PAGES as ROOT
from vitalfew.flows.server.reports import report_path
from vitalfew.pages import parts
from vitalfew.pages.site import Site
from vitalfew.tasks.reports.contents import Labelled
from vitalfew.tasks.reports.shown import labels as shown

_LARGEST = 20_000_000
"""Bytes of a file of reviews."""
_STYLE = ".q-table td:first-child, .q-table th:first-child { min-width: 7rem }"
_HEADS = {
    "right": "right (share)",
    "difference": "difference (of shares)",
    "n": "n (answers)",
    "halved by": "halved by (labels)",
}


def labels(site: Site, run: str) -> None:
    """Draw what the labels of a run say, the way to its other figures, and its reviews as CSV, out and in."""
    ui.add_css(_STYLE)
    parts.heading("What the labels say so far")
    again = parts.later(lambda: site.store.labels(run), _draw, "Reading labels")
    with ui.element("div").classes("row"):
        parts.link("All figures of this evaluation", f"{ROOT}/results?run={quote(run, safe='')}")
        parts.link("The whole report", report_path(run))
    parts.heading("Reviews as CSV")
    parts.downloads("reviews", lambda: site.store.reviews(run))
    _importing(site, again)


def _importing(site: Site, again: Callable[[], Awaitable[None]]) -> None:
    async def imported(event: UploadEventArguments) -> None:
        upload.reset()
        said.clear()
        with TemporaryDirectory() as folder:
            path = Path(folder, "reviews.csv")
            await event.file.save(path)
            try:
                kept = await parts.reading(lambda: site.store.import_reviews(path))
            except Exception as error:
                with said:
                    parts.problem(parts.told(error).replace(str(path), event.file.name))
                return
        with said:
            ui.label(f"New reviews: {kept.new:,}; there already: {kept.known:,}").props('role="status"')
        await again()

    upload = ui.upload(label="Import reviews (CSV)", auto_upload=True, max_file_size=_LARGEST, on_upload=imported)
    upload.props('accept=".csv" flat bordered').mark("upload")
    said = ui.element("div")


def _draw(found: Labelled | None) -> None:
    if found is None:
        parts.hint("Neither a judge nor a person has said anything of these answers yet.")
        return
    tables = [("Right answers, by judge and people", shown.HEADS, shown.shares(found))]
    minus = f"Minus {shown.compared_with(found)}, on the same questions"
    tables += [(minus, shown.DIFFERENCE_HEADS, shown.differences(found))]
    for title, heads, rows in tables:
        if rows:
            parts.Words(title, "h3").style("font-size: 1rem; line-height: 1.4; font-weight: 600; margin: 0")
            columns = [parts.Shown(head, _HEADS.get(head, head), number=head != "method") for head in heads]
            frame = pl.DataFrame(rows, schema=[*heads], orient="row")
            parts.frame_table(title, columns, frame, is_sortable=False)
    for sentence in shown.sentences(found):
        ui.label(sentence).classes("about text")
