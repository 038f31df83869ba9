"""Parts of pages: what is read in a thread, tables a page at a time, charts, errors, downloads.

Texts of a store reach the browser as text: through labels and cells of tables, never as HTML.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from io import BytesIO
from itertools import pairwise
from typing import Any, TypeVar

import polars as pl
from nicegui import ElementFilter, ui
from nicegui.elements.mixins.text_element import TextElement
from nicegui.events import GenericEventArguments

from vitalfew.flows.errors import explanation
from vitalfew.pages.addresses import go
from vitalfew.tasks.reports.shown.columns import figure as figure_of
from vitalfew.tasks.reports.shown.grids import Grid
from vitalfew.tasks.reports.shown.tables import csv_bytes
from vitalfew.tasks.reports.shown.text import count as count
from vitalfew.tasks.reports.shown.text import one_line, shortened

Result = TypeVar("Result")
Spans = Sequence[tuple[int, int]]
"""Parts of a text: code points, half-open."""
PATIENCE = 300.0
"""Seconds that a store has to answer, before a page says that it does not."""
ROWS = 25
"""Rows that a table shows at a time."""
CUT = 300
"""Characters of a text in a cell."""


class TooSlow(OSError):
    """A store, perhaps in a bucket, that did not answer in time."""


async def reading(read: Callable[[], Result], is_endless: bool = False) -> Result:
    """Read in a thread. Raises TooSlow after `PATIENCE`, unless it `is_endless`, and the errors of `read`."""
    try:
        return await asyncio.wait_for(asyncio.to_thread(read), None if is_endless else PATIENCE)
    except TimeoutError:
        raise TooSlow(
            f"the store did not answer within {PATIENCE:.0f} s: a bucket may be out of reach, or the machine busy"
        ) from None


def told(error: Exception) -> str:
    """What is wrong, for a user who can correct it. Raises the error where it is a fault of the program."""
    if (said := explanation(error)) is None:
        raise error
    return said


async def asked(read: Callable[[], Result], place: ui.element | None = None, is_endless: bool = False) -> Result | None:
    """What a thread reads or does. An error is shown in a place, else as a notification; then None is returned.
    `is_endless`: as of `reading`."""
    client = ui.context.client  # what a user pressed may be gone when the answer comes, drawn again by another look
    try:
        return await reading(read, is_endless)
    except Exception as error:
        said = told(error)
    if place is None:
        with client:
            refuse(said)
    else:
        with anew(place):
            problem(said)
    return None


def refuse(said: str) -> None:
    """Show an error as a notification: what the page shows now stays."""
    ui.notify(said, type="negative", multi_line=True)


def anew(place: ui.element) -> ui.element:
    """Clear a place, to draw in it."""
    place.clear()
    return place


def stack(gap: float = 1.0) -> ui.column:
    """Things below each other, as wide as the place they are in. `gap`: between them, in rem."""
    return ui.column().classes("w-full").style(f"gap: {gap}rem; align-items: stretch")


def later(
    read: Callable[[], Result], draw: Callable[[Result], None], doing: str = "Reading the store"
) -> Callable[[], Awaitable[None]]:
    """A part of a page that is drawn when a thread has read what it shows. An error is shown in its place, with a
    button that tries again. Returns what reads and draws it again."""
    place, latest = stack(), 0

    async def load() -> None:
        nonlocal latest
        latest += 1
        mine = latest
        with anew(place):
            waiting(doing)
        try:
            found = await reading(read)
            show = partial(draw, found)
        except Exception as error:
            show = partial(problem, told(error), load)
        if mine == latest:  # an earlier reading may end after a later one
            with anew(place):
                show()

    ui.timer(0, load, once=True)  # beside the place: what is cleared is also stopped
    return load


def section(
    title: str, read: Callable[[], Result], draw: Callable[[Result], None], doing: str = "Reading the store"
) -> None:
    """A heading, and below it what `later` draws."""
    heading(title)
    later(read, draw, doing)


def waiting(doing: str) -> None:
    with ui.row().props('role="status"').style("align-items: center; gap: 0.5rem"):
        ui.spinner().props('aria-hidden="true"')
        ui.label(f"{doing} …")


def problem(message: str, again: Callable[[], Any] | None = None) -> None:
    """Show an error: what is wrong and what to do."""
    with ui.element("div").props('role="alert"').classes("problem"):
        ui.label(message).classes("text")
        if again:
            button("Try again", again, "flat dense")


def heading(text: str, level: int = 2) -> ui.label:
    made = ui.label(text).props(f'role="heading" aria-level="{level}"').style("line-height: 1.3; font-weight: 600")
    return made.style("font-size: 1.15rem; margin-top: 0.75rem" if level == 2 else "")


def retitle(text: str) -> None:
    """Give the page, and its tab in the browser, the title of what was read."""
    ui.page_title(f"{text} · Vital Few")
    for title in ElementFilter(kind=Words, marker="title"):
        title.text = text


def deciding(
    verb: str,
    question: str,
    what: str,
    button_text: str,
    act: Callable[[str], Result],
    after: Callable[[Result | None], Awaitable[None]],
    place: ui.element | None = None,
    with_note: bool = True,
) -> None:
    """A button that asks before something is done, in a thread. `what`: what it changes; `act` gets the note, empty
    where none is asked for; `after` gets the result, None after an error, which is shown in `place` (as of `asked`)."""

    def ask() -> None:
        with ui.dialog(value=True) as dialog, ui.card().style("max-width: 36rem; align-items: stretch"):
            ui.label(question).props('role="heading" aria-level="2"').classes("text").style("font-weight: 600")
            ui.label(what).classes("text")
            note = ui.input("Why (kept with the decision)").props("outlined dense maxlength=500") if with_note else None

            async def do() -> None:
                dialog.close()
                if place:
                    place.clear()
                said = str(note.value or "").strip() if note else ""
                await after(await asked(lambda: act(said), place))

            with ui.row():
                button(button_text, do, "").mark("confirm")
                button("Leave it as it is", dialog.close)

    button(f"{verb}…", ask)


def hint(text: str) -> None:
    ui.label(text).classes("hint")


def link(text: str, address: str, kind: str = "") -> None:
    """A link to an address of this site. `kind`: the class `action` makes it look like a button."""
    Words(text, "a").classes(f"text {kind}").props["href"] = address


def links(*given: tuple[str, str], kind: str = "") -> None:
    """Links beside each other: texts and addresses."""
    with row():
        for text, address in given:
            link(text, address, kind)


def row(kind: str = "row") -> ui.element:
    """Things beside each other, as far as there is room. `kind`: the class `beside` gives all the same width."""
    return ui.element("div").classes(kind)


def button(text: str, press: Callable[[], Any], look: str = "outline") -> ui.button:
    """A button with its text as it is written. `look`: properties of Quasar."""
    return ui.button(text, on_click=press).props(f"no-caps {look}")


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of a table: the field of a row, its heading (with the unit), how a value is written, where a click leads
    (an address, by the row; "" nowhere), and the field that holds the unit where rows have different ones. `is_state`:
    it is a state or a verdict, in the colour of how good that is."""

    name: str
    label: str
    write: Callable[[Any], str] = lambda value: "" if value is None else str(value)
    number: bool = False
    link: Callable[[Mapping[str, Any]], str] | None = None
    sortable: bool = True
    unit: str = ""
    is_state: bool = False

    def written(self, row: Mapping[str, Any]) -> str:
        return figure_of(row[self.name], row[self.unit]) if self.unit else self.write(row[self.name])


def texts(**labels: str) -> list[Shown]:
    """Columns of texts: their headings, by field."""
    return [Shown(name, label) for name, label in labels.items()]


TONES = {
    "good": ("completed", "promoted", "current", "no worse", "added", "served"),
    "bad": ("failed", "crashed", "interrupted", "unreadable", "rejected", "declined", "worse", "removed", "damaged"),
    "waits": ("running", "held", "in doubt", "paused", "suspended", "scheduled", "late", "cancelling", "cancelled",
              "not judged yet", "changed", "moved", "skipped", "pending", "rolled back"),
}  # fmt: skip
"""Words for states and verdicts, by the class that colours them."""


def tone(word: str) -> str:
    """The class of a state or a verdict, by its first words; empty for any other text."""
    begins = word.lower()
    return next((name for name, words in TONES.items() if begins.startswith(words)), "")


def states(**labels: str) -> list[Shown]:
    """Columns of states and verdicts: their headings, by field."""
    return [Shown(name, label, is_state=True) for name, label in labels.items()]


def utc(moment: datetime | None) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M") if moment else ""


def ago(moment: datetime | None) -> str:
    """How long ago a time was; empty where it is unknown."""
    if moment is None:
        return ""
    hours = (datetime.now(UTC) - moment).total_seconds() / 3600
    if hours < 1:
        return count(max(0, round(60 * hours)), "minute") + " ago"
    return count(round(hours), "hour") + " ago" if hours < 48 else count(round(hours / 24), "day") + " ago"


def numbers(write: Callable[[Any], str], **labels: str) -> list[Shown]:
    """Columns that are written alike and are on the right: their headings, by field."""
    return [Shown(name, label, write, number=True) for name, label in labels.items()]


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows that a table shows: `limit` of them from `offset`, ordered by a column's name ("" as they come)."""

    offset: int
    limit: int
    order: str = ""
    descending: bool = False

    def of(self, frame: pl.DataFrame) -> list[dict[str, Any]]:
        ordered = frame
        if self.order:
            ordered = frame.sort(self.order, descending=self.descending, nulls_last=True, maintain_order=True)
        return ordered.slice(self.offset, self.limit).to_dicts()


Rows = Sequence[Mapping[str, Any]]
Reader = Callable[[Slice], tuple[Rows, int]]
_HEAD = """
<q-tr :props="props">
  <q-th v-for="col in props.cols" :key="col.name" :props="props" :tabindex="col.sortable ? 0 : undefined"
    :aria-sort="props.pagination?.sortBy !== col.name ? undefined :
      props.pagination.descending ? 'descending' : 'ascending'"
    @keydown.enter="col.sortable && props.sort(col.name)">{{ col.label }}</q-th>
</q-tr>
"""
_LINK = """
<q-td :props="props"><a v-if="props.value && props.row['_' + props.col.name]" :class="props.row['=' + props.col.name]"
  :href="props.row['_' + props.col.name]">{{ props.value }}</a>
  <span v-else :class="props.row['=' + props.col.name]">{{ props.value }}</span></q-td>
"""
"""A cell with a link, or in a colour."""


def table(
    label: str,
    columns: Sequence[Shown],
    rows: pl.DataFrame | Rows | Reader,
    order: str = "",
    descending: bool = False,
    nothing: str = "There are no rows.",
    cell: str = "",
    on: Mapping[str, Callable[[GenericEventArguments], Any]] | None = None,
    is_sortable: bool = True,
) -> None:
    """A table that shows `ROWS` rows at a time. `rows`: in memory, or what reads a slice of them, in a thread, and says
    how many there are in all. `label`: its name, for a screen reader too; `nothing`: what to say where there are none.
    `cell`: a template of Vue for every cell, and `on`: what its events call."""
    first, read = Slice(0, ROWS, order, descending), _reader(rows)

    def draw(found: tuple[Rows, int]) -> None:
        shown, total = found
        if not total:
            hint(nothing)
            return
        made = ui.table(
            columns=[_column(column, is_sortable) for column in columns],
            rows=_cells(columns, first, shown),
            row_key="_row",
            pagination={"page": 1, "rowsPerPage": ROWS, "rowsNumber": total, "sortBy": order, "descending": descending},
        )
        made.props(f'flat bordered dense binary-state-sort aria-label="{label}" :rows-per-page-options="[{ROWS}]"')
        made.props("hide-pagination" if total <= ROWS else "")
        made.classes("w-full").add_slot("header", _HEAD)
        if cell:
            made.add_slot("body-cell", cell)
        for column in columns:
            if column.link or column.is_state:
                made.add_slot(f"body-cell-{column.name}", _LINK)
        for event, call in (on or {}).items():
            made.on(event, call)
        made.on("request", lambda event: turn(made, event.args["pagination"]))

    async def turn(made: ui.table, pagination: dict[str, Any]) -> None:
        """Show another page of the table."""
        by, down = pagination.get("sortBy") or "", bool(pagination.get("descending"))
        wanted = Slice((pagination["page"] - 1) * ROWS, ROWS, by, down)
        if found := await asked(lambda: read(wanted)):
            made.rows = _cells(columns, wanted, found[0])
            made.pagination = {**pagination, "rowsPerPage": ROWS, "rowsNumber": found[1]}
            made.update()

    later(lambda: read(first), draw)


def _reader(rows: pl.DataFrame | Rows | Reader) -> Reader:
    if callable(rows):
        return rows
    frame = rows if isinstance(rows, pl.DataFrame) else pl.DataFrame(rows, infer_schema_length=None)
    return lambda wanted: (wanted.of(frame) if len(frame) else [], len(frame))


def _column(column: Shown, is_sortable: bool) -> dict[str, Any]:
    side, kind = ("right", "number") if column.number else ("left", "long" if column.write is cut else "")
    shown = {"name": column.name, "label": column.label, "field": column.name, "align": side}
    return {**shown, "sortable": is_sortable and column.sortable, "classes": kind, "headerClasses": kind}


def _cells(columns: Sequence[Shown], wanted: Slice, rows: Rows) -> list[dict[str, Any]]:
    def cells(row: Mapping[str, Any]) -> dict[str, Any]:
        links = {f"_{column.name}": column.link(row) for column in columns if column.link}
        written = {column.name: column.written(row) for column in columns}
        return written | links | {f"={each.name}": tone(written[each.name]) for each in columns if each.is_state}

    return [{**cells(row), "_row": place} for place, row in enumerate(rows, wanted.offset)]


def grid(label: str, shown: Grid) -> None:
    """A table of the report, with its caption."""
    columns = [Shown(str(place), head, number=place > shown.text_columns) for place, head in enumerate(shown.heads)]
    rows = [
        {str(place): text for place, text in enumerate([name, *(cell.text for cell in cells)])}
        for name, cells in shown.rows
    ]
    table(label, columns, rows, is_sortable=False)
    hint(shown.caption)


def chart(
    label: str,
    places: Sequence[str],
    unit: str,
    series: Sequence[Mapping[str, Any]],
    along: str = "",
    write: str = "",
    height: int = 18,
) -> None:
    """A chart of Apache ECharts, which also describes itself in words: heights above places. `unit`: of the heights;
    `series`: as ECharts has them; `along`: what the places are; `write`: a function of JavaScript for a height;
    `height`: of the chart, in rem.
    `label`: its name, which is all that a stacked one says: ECharts would read out its places of the bars too."""
    is_stacked = any("stack" in each for each in series)
    options = {
        "aria": {"enabled": True, **({"label": {"description": label}} if is_stacked else {})},
        "animation": False,
        "tooltip": {"trigger": "axis", **({":valueFormatter": write} if write else {})},
        "legend": {"type": "scroll", "top": 0, "show": is_stacked},
        "grid": {"containLabel": True, "left": 10, "right": 20, "top": 60, "bottom": 30 if along else 10},
        "xAxis": {"type": "category", "data": [*places], "name": along, "nameLocation": "middle"},
        "yAxis": {
            "type": "value",
            "name": unit,
            "nameTextStyle": {"align": "left"},
            "scale": any(each["type"] == "line" for each in series),
        },
        "series": [*series],
    }
    ui.echart(options).props(f'role="img" aria-label="{label}"').classes("w-full").style(f"height: {height}rem")


def downloads(name: str, frame: Callable[[], pl.DataFrame]) -> None:
    """Two buttons: what a thread reads as CSV, whose texts no spreadsheet runs, or Parquet."""

    def parquet_bytes(frame: pl.DataFrame) -> bytes:
        frame.write_parquet(written := BytesIO())
        return written.getvalue()

    async def send(kind: str, content: Callable[[pl.DataFrame], bytes]) -> None:
        if found := await asked(lambda: content(frame())):
            ui.download.content(found, f"{name}.{kind}")

    with ui.row().style("gap: 0.5rem"):
        button("Download CSV", lambda: send("csv", csv_bytes), "outline dense")
        button("Download Parquet", lambda: send("parquet", parquet_bytes), "outline dense")


def figure(digits: int = 0, unit: str = "") -> Callable[[float | None], str]:
    """How a number is written; an unknown one is empty."""
    return lambda value: "" if value is None else f"{value:,.{digits}f}{unit}"


def cut(text: str | None) -> str:
    """A text for a cell of a table: one line, `CUT` characters."""
    return shortened(one_line((text or "")[: 4 * CUT]), CUT)


def p_value(value: float | None) -> str:
    """How a p is written; an unknown one is empty."""
    return "" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def usd(value: float | None) -> str:
    """An amount with two digits that tell it from zero, or cents."""
    if value is None:
        return ""
    if not value:
        return "0"
    return f"{value:,.2f}" if value >= 0.995 else f"{Decimal(f'{value:.1e}'):f}"


class Words(TextElement):
    """A piece of a text, as an HTML element such as `mark` or `span`."""

    def __init__(self, text: str, tag: str = "span") -> None:
        super().__init__(tag=tag, text=text)


def part(label: str, text: str, empty: str = "(empty)") -> None:
    """A label in bold, and a text beside it."""
    with ui.element("div"):
        Words(f"{label}: ").style("font-weight: 600")
        long_text(text, empty)


def folded(label: str, draw: Callable[[], Any], about: str = "") -> ui.element:
    """A part that a click or Enter unfolds. It is drawn when it is first open. `about`: what follows a label that is a
    name."""
    with ui.element("details") as made:
        with Words("" if about else label, "summary"):
            if about:
                Words(label).classes("names")
                Words(f" {about}").classes("about")
        place = stack(0.75).style("padding: 0.5rem 0")

    def show() -> None:
        if not place.default_slot.children:
            with place:
                draw()

    return made.on("toggle", show)


LONG = 4_000
"""Characters of a text that are shown at once."""


def further(label: str, show: Callable[[], None]) -> None:
    """A button in whose place more is shown."""

    def pressed() -> None:
        made.delete()
        show()

    made = button(label, pressed, "flat dense").style("align-self: start; justify-self: start")


def passage(title: str, text: str, kept: Spans | None, facts: Spans = (), about: str = "") -> None:
    """A passage with its kept spans marked. There are no marks where all of it was kept, as its title then says, or
    where nothing is known (None)."""
    is_whole = kept is not None and any(start <= 0 and end >= len(text.rstrip()) for start, end in kept)
    with ui.element("div"):
        name = f"{title or '(no title)'}{' (the whole passage)' if is_whole else ''}"
        Words(name, "div").classes("text").style("font-size: 0.9rem; font-weight: 600")
        if about:
            hint(about)
        marked(text, None if is_whole else kept, facts)


def marked(text: str, kept: Spans | None, facts: Spans = ()) -> None:
    """A text whose kept spans (code points, half-open) are marked, and the rest grey; None: neither. Spans of facts are
    underlined. A long text begins shortly before the first span, and a button shows more."""
    spans = [*(kept or ()), *facts]
    begin = max(0, min(spans)[0] - LONG // 8) if spans and len(text) > LONG else 0
    if begin:
        hint(f"({begin:,} characters before this are left out)")
    place = ui.element("div").classes("text")
    ends = {end for span in spans for end in span}

    def within(found: Spans, begin: int, stop: int) -> bool:
        return any(first <= begin and stop <= last for first, last in found)

    def show(start: int) -> None:
        end = min(start + LONG, len(text))
        with place:
            for begin, stop in pairwise(sorted({start, end, *(min(max(at, start), end) for at in ends)})):
                is_kept = kept is not None and within(kept, begin, stop)
                made = Words(text[begin:stop], "mark" if is_kept else "span")
                made.classes("" if is_kept or kept is None else "dropped")
                made.classes("fact" if within(facts, begin, stop) else "")
            if end < len(text):
                further(f"Show more ({len(text) - end:,} characters are left)", lambda: show(end))

    show(begin)


def long_text(text: str, empty: str = "(empty)") -> None:
    """A text, of which a button shows more, a part at a time."""
    marked(text or empty, None)


def field(
    label: str, kind: str, value: str = "", on_change: Callable[[str], Any] | None = None, event: str = "input"
) -> ui.element:
    """An input of the browser, such as `time`, which nothing but its user writes to: a bound value would undo what is
    typed into its parts. `on_change`: gets the value with every `event`."""
    with ui.element("label").classes("field"):
        Words(label)
        made = ui.element("input").mark(label).props(f"type={kind} autocomplete=off")
    made.props["defaultValue"] = value
    if on_change:
        made.on(event, lambda event: on_change(str(event.args)), js_handler="event => emit(event.target.value)")
    return made


def offered(texts: Sequence[str]) -> str:
    """Texts that a field offers and does not insist on; what its attribute `list` is to be."""
    with ui.element("datalist") as made:
        for text in texts:
            ui.element("option").props["value"] = text
    return made.html_id


class Choice(ui.element):
    """A drop-down of the browser. `value`: what is chosen."""

    def __init__(
        self,
        label: str,
        options: Mapping[str, str],
        value: str,
        on_change: Callable[[str], Any] | None = None,
        group: Callable[[str], str] = lambda value: "",
    ) -> None:
        """`options`: by value, what is shown; `group`: the heading that a value is under."""
        with ui.element("label").classes("field"):
            Words(label)
            super().__init__("select")
        self.mark(label)
        self.value = value
        groups: dict[str, ui.element] = {"": self}
        for key, shown in options.items():
            under = group(key)
            if under not in groups:
                with self:
                    groups[under] = ui.element("optgroup")
                groups[under].props["label"] = under
            with groups[under]:
                option = Words(shown, "option")
            option.props["value"] = key
            if key == value:
                option.props["selected"] = True

        def changed(event: GenericEventArguments) -> Any:
            if event.args not in options:
                return None
            self.value = event.args
            return on_change(self.value) if on_change else None

        self.on("change", changed, js_handler="event => emit(event.target.value)")


def pick(
    label: str, parameter: str, options: Mapping[str, str], value: str, page: str, base: Mapping[str, Any]
) -> ui.element:
    """A drop-down that opens a page with another value of a parameter of its address. `base`: the others."""
    return Choice(label, options, value, lambda chosen: go(page, base, **{parameter: chosen}))
