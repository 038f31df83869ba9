"""The page SQL: an editor, the result as a grid, a chart and files, and the documentation of all tables beside it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import polars as pl
from nicegui import ui

from vitalfew.library.query import Query
from vitalfew.pages import parts, sql_editor, sql_result
from vitalfew.pages.site import Site

Result = TypeVar("Result")
LIMITS = {"10": "10 seconds", "60": "1 minute", "600": "10 minutes", "3600": "1 hour"}
"""Time limits of a query, by seconds."""
MOST_ROWS = 100_000
"""Rows of a result that a page keeps to be looked at,"""
MOST_BYTES = 256 << 20
"""unless fewer take more memory than this."""
MOST_WRITTEN = 1_000_000
"""Rows that are written to a file."""
_THREADS = ThreadPoolExecutor(4, "sql")
"""Queries of an hour must not take the threads that other pages read with."""
_STYLE = """
.sql { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1rem 2rem }
@media (min-width: 1000px) { .sql { grid-template-columns: minmax(0, 1fr) 22rem } }
.sql > * { min-width: 0 }
.sql-result .problem .text { font-family: monospace }
"""


def draw(site: Site) -> None:
    ui.add_css(_STYLE + sql_editor.STYLE + sql_result.STYLE)
    with ui.element("div").classes("sql"):
        desk = Desk(site, ui.context.client.request.query_params.get("sql", ""))
        with ui.column().style("align-items: stretch"):
            parts.later(site.store.tables, lambda found: sql_editor.documentation(found, desk.editor))
    ui.context.client.on_disconnect(desk.cancel)


class Desk:
    """The editor of a page with what it answers: one query at a time."""

    def __init__(self, site: Site, typed: str) -> None:
        self.site, self.seconds, self.query = site, 60, Query(site.place, "")
        self.is_running = False
        self.folder = TemporaryDirectory(prefix="vitalfew-sql-")
        ui.context.client.on_delete(self.folder.cleanup)
        with parts.stack():
            self.editor = sql_editor.Editor(typed, self.run)
            with ui.element("div").classes("row"):
                self.button = ui.button("Run", on_click=self.run).props("no-caps").mark("run")
                self.stop = ui.button("Cancel", on_click=self.cancel).props("no-caps outline disable")
                parts.choice("Time limit", LIMITS, "60", self._set_seconds)
                self.editor.history()
            parts.hint("Ctrl+Enter runs it, Ctrl+Space completes; Escape and then Tab leave the editor.")
            self.place = parts.stack().classes("sql-result")
        with self.place:
            parts.hint("The statement was not run yet." if typed else "Type a statement, or take one from the macros.")

    def _set_seconds(self, value: str) -> None:
        self.seconds = int(value)

    def cancel(self) -> None:
        self.query.cancel()

    async def run(self) -> None:
        """Run what is in the editor, and show its rows."""
        text = self.editor.text
        if not text or self.is_running:
            return
        self.editor.remember(text)
        with parts.anew(self.place):
            parts.waiting("Running the statement")
        await self._ask(text, lambda query: query.frame(MOST_ROWS + 1, MOST_BYTES, plain=True), self._show)

    async def _write(self, text: str, kind: str) -> None:
        """Run a statement again, into a file for the browser."""
        path = Path(self.folder.name, f"rows.{kind}")

        def send(text: str, count: int) -> None:
            ui.download.file(path)
            if count == MOST_WRITTEN:
                ui.notify(f"The file has the first {count:,} rows; there may be more.")

        if not self.is_running:
            ui.notify("Writing the file …")
            await self._ask(text, lambda query: query.write(path, MOST_WRITTEN), send, keep=True)

    async def _ask(
        self, text: str, read: Callable[[Query], Result], show: Callable[[str, Result], None], keep: bool = False
    ) -> None:
        """Read an answer in a thread, and show it, or the reason why there is none. `keep`: what is shown now stays."""
        self.query = self.site.store.query(text, self.seconds)
        self._running(True)
        try:
            found = await asyncio.get_running_loop().run_in_executor(_THREADS, read, self.query)
        except Exception as error:
            if keep:
                parts.refuse(parts.told(error))
                return
            with parts.anew(self.place):
                parts.problem(parts.told(error))
        else:
            with self.place:
                show(text, found)
        finally:
            self._running(False)

    def _running(self, is_running: bool) -> None:
        self.is_running = is_running
        self.button.set_enabled(not is_running)
        self.stop.set_enabled(is_running)

    def _show(self, text: str, frame: pl.DataFrame) -> None:
        with parts.anew(self.place):
            sql_result.show(frame, MOST_ROWS)
            with ui.row().style("gap: 0.5rem; align-items: center"):
                for kind, name in {"csv": "CSV", "parquet": "Parquet"}.items():
                    made = ui.button(f"Download {name}", on_click=lambda kind=kind: self._write(text, kind))
                    made.props("outline dense no-caps")
                ui.link("Link to this statement", sql_editor.address(text))
            parts.hint(
                f"A file is written by running the statement again: all columns with their types, at most "
                f"{MOST_WRITTEN:,} rows. Times are in UTC. The link shows the statement and does not run it."
            )
