"""The answer to a statement: a grid, a chart, and long values one by one."""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import polars as pl
from nicegui import ui
from nicegui.events import GenericEventArguments

from vitalfew.pages import parts

LONG = 300
"""Characters of a value that a cell shows."""
POINTS = 500
"""Rows that a chart shows."""
STYLE = """
.cell { display: inline-block; width: max-content; max-width: 24rem; white-space: pre-wrap }
.null { opacity: 0.7; font-style: italic }
.more { font: inherit; color: inherit; background: none; border: 0; padding: 0 0 0 0.25rem; cursor: pointer;
  text-decoration: underline }
.more:focus-visible { outline: 2px solid }
"""
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
        rows = numbered
        if wanted.order:
            rows = numbered.sort(wanted.order, descending=wanted.descending, nulls_last=True, maintain_order=True)
        shown = rows.slice(wanted.offset, wanted.limit).to_dicts()
        return [{key: _cell(row[key], row["at"]) for key in kinds} for row in shown], len(frame)

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
    chosen = {"kind": "", "x": next((name for name in frame.columns if name not in numbers), frame.columns[0])}
    measures = [name for name in numbers if not name.endswith("_id") and name != chosen["x"]]
    chosen["y"] = (measures or numbers)[0]

    def choose(what: str) -> Callable[[str], None]:
        def change(value: str) -> None:
            chosen[what] = value
            with parts.anew(place):
                if chosen["kind"]:
                    _chart(frame, **chosen)

        return change

    with ui.element("div").classes("row"):
        kinds = {"": "none", "bar": "bars", "line": "a line"}
        parts.choice("Chart", kinds, "", choose("kind"))
        parts.choice("Along (x)", {name: name for name in frame.columns}, chosen["x"], choose("x"))
        parts.choice("Height (y)", {name: name for name in numbers}, chosen["y"], choose("y"))
    place = parts.stack()


def _chart(frame: pl.DataFrame, kind: str, x: str, y: str) -> None:
    shown = frame.head(POINTS)
    heights = [None if value is None or not math.isfinite(value) else float(value) for value in shown[y].to_list()]
    places = [_written(value) or "NULL" for value in shown[x].to_list()]
    series = {"type": kind, "name": y, "data": heights, "showSymbol": len(shown) <= 50}
    parts.chart("Chart of the result", [text[:40] for text in places], y, [series], along=x)
    if len(frame) > POINTS:
        parts.hint(f"The chart shows the first {POINTS} of {len(frame):,} rows, in their order.")
