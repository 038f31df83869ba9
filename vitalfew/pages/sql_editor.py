"""The editor of the page SQL: completion, history and draft in the browser, and the documentation beside it.

Statements may hold private text: the browser keeps them (`localStorage`), and nothing here writes them anywhere.
"""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import polars as pl
from nicegui import ui

from vitalfew.pages import parts

REMEMBERED = 50
"""Statements of the history."""
LONGEST = 20_000
"""Characters of a statement that is remembered."""
_SET_UP = Path(__file__).with_name("assets") / "sql_editor.js"
_REMEMBER = 'localStorage.setItem("vitalfew.sql.history", JSON.stringify({past}))'


class Editor:
    """An editor of SQL; its undo brings back what a statement that was put into it replaced. `typed`: what is in
    it at first, else the draft of the browser; `run`: what Ctrl+Enter does."""

    def __init__(self, typed: str, run: Callable[[], Awaitable[None]]) -> None:
        self.typed, self.past = typed, list[str]()
        self.made = ui.codemirror(
            typed, language="SQL", theme="vscodeLight", line_wrapping=True, keymap={"Mod-Enter": lambda _: run()}
        )
        self.made.classes("sql-editor").mark("SQL")
        ui.on("sql-dark", lambda event: self._paint(bool(event.args)))
        ui.context.client.on_connect(self._set_up)

    @property
    def text(self) -> str:
        """The statement, without the semicolon at its end."""
        return self.made.value.strip().rstrip(";").rstrip()

    def history(self) -> None:
        """Draw the choice among the last statements, as the browser has kept them."""
        self.place = ui.element("div").style("flex: 1 1 10rem; min-width: 0")  # as wide whatever it has
        self._draw_history()

    def close(self) -> None:
        """Close the list of completions, which would cover the result."""
        ui.run_javascript('document.querySelector(".sql-editor .cm-content")?.blur()')

    def remember(self, text: str) -> None:
        if len(text) > LONGEST:
            return
        self.past = [text, *(each for each in self.past if each != text)][:REMEMBERED]
        ui.run_javascript(_REMEMBER.replace("{past}", json.dumps(self.past)))
        self._draw_history()

    def complete(self, found: pl.DataFrame) -> None:
        """Complete the names of `Store.tables()`."""
        ui.run_javascript(f"window.sqlNames = {json.dumps(_names(found))}")

    async def _set_up(self) -> None:
        kept = await ui.run_javascript(_SET_UP.read_text(encoding="utf-8"), timeout=10)
        self._paint(bool(kept["dark"]))
        self.past = [text for text in kept["past"] if isinstance(text, str)][:REMEMBERED]
        self._draw_history()
        if not self.typed and not self.made.value and isinstance(kept["draft"], str):
            self.made.set_value(kept["draft"])

    def _paint(self, is_dark: bool) -> None:
        self.made.set_theme("vscodeDark" if is_dark else "vscodeLight")

    def _draw_history(self) -> None:
        options = {"": parts.count(len(self.past), "statement") if self.past else "none yet"}
        options |= {str(place): " ".join(text.split())[:80] for place, text in enumerate(self.past)}

        def use(place: str) -> None:
            if place:
                self.made.set_value(self.past[int(place)])

        with parts.anew(self.place):
            parts.Choice("History", options, "", use)


def _names(found: pl.DataFrame) -> dict[str, Any]:
    """The names that the browser completes: tables and macros, all columns, and the columns by table."""
    tables: dict[str, list[dict[str, str]]] = {}
    columns: dict[str, dict[str, str]] = {}
    names = list[dict[str, Any]]()
    for row in found.iter_rows(named=True):
        if row["kind"] == "column":
            about = f"{row['about']} ({row['unit']})" if row["unit"] else row["about"]
            column = {"label": row["column"], "type": "property", "detail": row["type"] or "", "info": about}
            tables.setdefault(row["name"], []).append(column)
            columns.setdefault(row["column"], column)
        elif row["kind"] == "table":
            shown = {"type": "class", "detail": "table", "boost": 2, "info": f"A row is {row['about']}"}
            names.append({"label": row["name"], **shown})
        else:
            shown = {"type": "function", "detail": "macro", "boost": 1, "info": f"{row['call']}: {row['about']}"}
            names.append({"label": row["name"], **shown, "apply": f"{row['name']}("})
    return {"tables": tables, "columns": [*columns.values()], "names": names}


def documentation(found: pl.DataFrame, editor: Editor) -> None:
    """List tables and macros with what they mean; one that is opened shows its columns, or its example."""
    editor.complete(found)
    columns = {name: rows for (name,), rows in found.filter(kind="column").group_by("name", maintain_order=True)}
    groups: list[tuple[ui.element, list[tuple[str, ui.element]]]] = []

    def keep(word: str) -> None:
        for group, entries in groups:
            for text, element in entries:
                element.set_visibility(word.lower() in text.lower())
            group.set_visibility(any(element.visible for _, element in entries))

    parts.field("Find a table, column or macro", "search", "", keep).mark("Find")
    with ui.element("div").classes("docs").props('tabindex="0" role="region" aria-label="Documentation"'):
        for kind, title in {"macro": "Macros", "table": "Tables"}.items():
            with ui.element("div") as group:
                parts.heading(title)
                entries = list[tuple[str, ui.element]]()
                for row in found.filter(kind=kind).iter_rows(named=True):
                    own = columns.get(row["name"])
                    names = " ".join(own["column"]) if own is not None else ""
                    entries.append((f"{row['name']} {row['about']} {names}", _entry(row, own, editor)))
            groups.append((group, entries))


def _entry(row: dict[str, Any], columns: pl.DataFrame | None, editor: Editor) -> ui.element:
    def draw() -> None:
        statement = row["example"] or f"FROM {row['name']} LIMIT 100"
        if row["call"]:
            parts.Words(row["call"], "code")
            parts.Words(statement, "div").classes("text").style("font-family: monospace; opacity: 0.85")
        look = f'outline dense aria-label="Use {row["name"]}"'
        parts.button("Use", lambda: editor.made.set_value(statement), look)
        for column in columns.iter_rows(named=True) if columns is not None else ():
            with ui.element("div"):
                parts.Words(column["column"]).classes("names")
                unit = f", {column['unit']}" if column["unit"] else ""
                parts.Words(f" {column['type']}{unit}: {column['about']}")

    return parts.folded(row["name"], draw, row["about"] if row["example"] else f"A row is {row['about']}.")
