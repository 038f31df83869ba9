"""The page SQL: an editor, the result as a grid, a chart and files, and the documentation of all tables beside it."""

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import polars as pl
from nicegui import ui
from nicegui.events import GenericEventArguments

from vitalfew.library.query import Query
from vitalfew.pages import parts, sql_editor
from vitalfew.pages.addresses import link, parameters
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


def draw(site: Site) -> None:
    with ui.element("div").classes("sql"):
        desk = Desk(site, parameters().get("sql", ""))
        with parts.stack():
            parts.later(site.store.tables, lambda found: sql_editor.documentation(found, desk.editor))
    ui.context.client.on_disconnect(desk.cancel)


class Desk:
    """The editor of a page with what it answers: one query at a time."""

    def __init__(self, site: Site, typed: str) -> None:
        self.site, self.query = site, Query(site.place, "")
        self.is_running = False
        self.folder = TemporaryDirectory(prefix="vitalfew-sql-")
        ui.context.client.on_delete(self.folder.cleanup)
        with parts.stack():
            self.editor = sql_editor.Editor(typed, self.run)
            with parts.row():
                self.button = parts.button("Run", self.run, "").mark("run")
                self.stop = parts.button("Cancel", self.cancel, "outline disable")
                self.limit = parts.Choice("Time limit", LIMITS, "60")
                self.editor.history()
            parts.hint("Ctrl+Enter runs it, Ctrl+Space completes; Escape and then Tab leave the editor.")
            self.place = parts.stack().classes("sql-result")
        with self.place:
            parts.hint("The statement was not run yet." if typed else "Type a statement, or take one from the macros.")

    def cancel(self) -> None:
        self.query.cancel()

    async def run(self) -> None:
        """Run what is in the editor, and show its rows."""
        text = self.editor.text
        if not text or self.is_running:
            return
        self.editor.close()
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
        self.query = self.site.store.query(text, int(self.limit.value))
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
            show(frame, MOST_ROWS)
            with ui.row().style("gap: 0.5rem; align-items: center"):
                parts.button("Download CSV", lambda: self._write(text, "csv"), "outline dense")
                parts.button("Download Parquet", lambda: self._write(text, "parquet"), "outline dense")
                parts.link("Link to this statement", link("/sql", sql=text))
            parts.hint(
                "A file is made by running the statement again. It has all columns with their types, and at most "
                f"{MOST_WRITTEN:,} rows. Times are in UTC. The link shows the statement and does not run it."
            )


LONG = 300
"""Characters of a value that a cell shows."""
POINTS = 500
"""Rows that a chart shows."""
_CELL = """
<q-td :props="props">
  <span v-if="props.value === null" class="null cell">NULL</span>
  <span v-else-if="props.value.text === undefined" class="cell">{{ props.value }}</span>
  <span v-else class="cell">{{ props.value.text }}…<button type="button" class="more"
    @click="$parent.$emit('whole', [props.value.at, props.col.name])">all {{ props.value.length }} characters</button>
  </span>
</q-td>
"""


def show(frame: pl.DataFrame, most: int) -> None:
    """Show a frame of numbers, booleans and texts. `most`: rows of it that count; one more says that there are more."""
    is_cut, names = len(frame) > most, frame.columns
    frame = frame.head(most)
    said = f"{parts.count(len(frame), 'row')}, {len(names)} columns."
    if is_cut:
        said = f"The first {len(frame):,} rows, and there are more: sort and count in SQL, which sees all of them."
    ui.label(said).props('role="status"')
    _grid(frame.rename({name: f"c{place}" for place, name in enumerate(names)}), names)
    _charted(frame)


def _grid(frame: pl.DataFrame, names: list[str]) -> None:
    kinds = frame.schema
    columns = [
        parts.Shown(key, name, write=lambda value: value, number=kinds[key].is_numeric())
        for key, name in zip(frame.columns, names, strict=True)
    ]
    numbered = frame.with_row_index("at")

    def read(wanted: parts.Slice) -> tuple[parts.Rows, int]:
        return [{key: _cell(row[key], row["at"]) for key in kinds} for row in wanted.of(numbered)], len(frame)

    def whole(event: GenericEventArguments) -> None:
        at, key = event.args
        if key in kinds and isinstance(at, int) and 0 <= at < len(frame):
            _whole(names[frame.columns.index(key)], str(frame[at, key]))

    parts.table("Rows", columns, read, cell=_CELL, on={"whole": whole}, nothing="The statement has no rows.")


def _cell(value: Any, at: int) -> Any:
    """The part of a value that the browser gets: text, because ids have more digits than its numbers; None for NULL."""
    text = _written(value)
    return text if text is None or len(text) <= LONG else {"text": text[:LONG], "length": f"{len(text):,}", "at": at}


def _written(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinity" if value > 0 else "-infinity"
    return _figure(value) if isinstance(value, float) else str(value)


def _figure(value: float) -> str:
    """A number with at most six digits after the point, or six that tell it from zero."""
    if value and not 1e-12 < abs(value) < 1e15:
        return f"{value:.6g}"
    return str(round(value, 6)) if abs(value) >= 0.1 or not value else f"{Decimal(f'{value:.6g}'):f}"


def _whole(name: str, text: str) -> None:
    with ui.dialog() as dialog, ui.card().style("max-width: min(60rem, 95vw); align-items: stretch"):
        parts.heading(name)
        parts.long_text(text)
        ui.button("Close", on_click=dialog.close).props("flat no-caps")
    dialog.on_value_change(lambda event: None if event.value else dialog.delete())
    dialog.open()


def _charted(frame: pl.DataFrame) -> None:
    """Offer a chart: which kind, and of which columns."""
    numbers = [name for name, kind in frame.schema.items() if kind.is_numeric()]
    if not numbers or len(frame) < 2:
        return
    first = next((name for name in frame.columns if name not in numbers), frame.columns[0])
    measures = [name for name in numbers if not name.endswith("_id") and name != first]

    def change(_: str) -> None:
        with parts.anew(place):
            if kind.value:
                _chart(frame, kind.value, x.value, y.value)

    with parts.row():
        kind = parts.Choice("Chart", {"": "none", "bar": "bars", "line": "a line"}, "", change)
        x = parts.Choice("Along (x)", {name: name for name in frame.columns}, first, change)
        y = parts.Choice("Height (y)", {name: name for name in numbers}, (measures or numbers)[0], change)
    place = parts.stack()


def _chart(frame: pl.DataFrame, kind: str, x: str, y: str) -> None:
    shown = frame.head(POINTS)
    heights = [None if value is None or not math.isfinite(value) else float(value) for value in shown[y].to_list()]
    places = [_written(value) or "NULL" for value in shown[x].to_list()]
    series = {"type": kind, "name": y, "data": heights, "showSymbol": len(shown) <= 50}
    parts.chart("Chart of the result", [text[:40] for text in places], y, [series], along=x)
    if len(frame) > POINTS:
        parts.hint(f"The chart shows the first {POINTS} of {len(frame):,} rows, in their order.")
