"""The inputs of a form that starts a run, drawn from the form's schema, whose texts on its fields are said here too.

With them `When`: now, once at a time, or on a schedule.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from vitalfew.pages import parts

Schema = Mapping[str, Any]
Values = Callable[[], Any]


def described(text: str) -> None:
    """A text of a form, whose parts in backticks are code."""
    with ui.element("div").classes("hint text"):
        for number, piece in enumerate(text.replace("**", "").split("`")):
            if piece:
                parts.Words(piece, "code" if number % 2 else "span")


class Fields:
    """The inputs of a form. `schema`: as JSON schema, with the names that exist; `given`: what is filled in;
    `on_choice`: gets the field whose drop-down has another value."""

    def __init__(self, schema: Schema, given: Mapping[str, str], on_choice: Callable[[str], None]) -> None:
        self.schema, self.given, self.on_choice = schema, given, on_choice
        self.readers: dict[str, Values] = {}

    def draw(self, main: Sequence[str], hidden: Sequence[str]) -> None:
        """Draw the main fields, and below a fold all others."""
        for name in main:
            self._field(name)
        with ui.element("details").style("width: 100%"):
            parts.Words("More settings", "summary")
            with parts.stack().style("padding-top: 0.5rem"):
                for name in self.schema["properties"]:
                    if name not in (*main, *hidden):
                        self._field(name)

    def values(self) -> dict[str, Any]:
        """The fields that are filled in."""
        read = {name: reader() for name, reader in self.readers.items()}
        return {name: value for name, value in read.items() if value not in (None, "", []) and value is not False}

    def _field(self, name: str) -> None:
        field = self.schema["properties"][name]
        label = field.get("title") or name.replace("_", " ").capitalize()
        with parts.stack(0.25):
            self.readers[name] = self._input(name, label, field)
            described(field.get("description", ""))

    def _input(self, name: str, label: str, field: Schema) -> Values:
        start, is_needed = self.given.get(name, field.get("default")), name in self.schema.get("required", ())
        match field:
            case {"enum": [*known]}:
                value = str(start) if start in known else ""
                first = {} if value and is_needed else {"": f"Choose ({len(known)})" if is_needed else "(empty)"}
                options = {**first, **{each: each for each in known}}
                choice = parts.Choice(label, options, value, lambda _: self.on_choice(name))
                return lambda: choice.value
            case {"type": "boolean"}:
                box = ui.checkbox(label, value=bool(start))
                return lambda: box.value
            case {"type": "integer" | "number" as kind}:
                return _number(label, start, kind)
            case {"type": "array", "items": {"type": "string"}}:
                area = ui.textarea(f"{label} (one per line)", value=self.given.get(name, ""))
                area.props("outlined dense autogrow")
                return lambda: [line.strip() for line in (area.value or "").splitlines() if line.strip()]
            case {"type": "array", "items": {"$ref": reference}}:
                return _sources(label, self.schema["$defs"][reference.rpartition("/")[2]])
        text = ui.input(f"{label} (needed)" if is_needed else label, value=str(start or "")).props("outlined dense")
        text.mark(label)
        if examples := field.get("examples"):
            text.props(f"list={parts.offered(examples)}")
        return lambda: (text.value or "").strip()


def _number(label: str, start: Any, kind: str) -> Values:
    """A number, without limits: what is out of range is an error, not another number."""
    step = 1 if kind == "integer" else None
    number = ui.number(label, value=as_number(start), step=step).props("outlined dense clearable")

    def value() -> Any:
        is_whole = kind == "integer" and number.value is not None and float(number.value).is_integer()
        return int(number.value) if is_whole else number.value

    return value


def as_number(given: Any) -> float | None:
    """A number that an address, a schema or a user fills in; None for anything else."""
    try:
        return float(given)
    except (TypeError, ValueError):
        return None


def _sources(label: str, schema: Schema) -> Values:
    """The data sets of a form: of every one a format, from a drop-down, and a path."""
    rows: list[tuple[parts.Choice, ui.input]] = []
    known = schema["properties"]["format"]["enum"]
    formats = {"": f"Choose ({len(known)})", **{each: each for each in known}}

    def add() -> None:
        number = len(rows) + 1
        with place, parts.row():
            choice = parts.Choice(f"Format of data set {number}", formats, "")
            path = ui.input(f"Path of data set {number}").props("outlined dense").style("flex: 1 1 16rem")
        rows.append((choice, path))

    def values() -> list[dict[str, str]]:
        filled = ({"format": choice.value, "path": (path.value or "").strip()} for choice, path in rows)
        return [{name: value for name, value in row.items() if value} for row in filled if any(row.values())]

    parts.Words(f"{label} (at least one)").style("font-size: 0.9rem")
    place = parts.stack(0.75)
    add()
    parts.button("Add a data set", add, "outline dense")
    for name, field in schema["properties"].items():
        described(f"{name.capitalize()}: {field.get('description', '')}")
    return values


NOW, ONCE, AGAIN = "now", "at", "cron"

_PICKED = (
    "event => { const t = new Date(event.target.value); emit(event.target.value, isNaN(t) ? '' : t.toISOString()); }"
)
_TONIGHT = (
    "() => {{ const t = new Date(); t.setHours(3, 0, 0, 0); if (t < new Date()) t.setDate(t.getDate() + 1); "
    "const field = document.getElementById('{field}'); "
    "field.value = new Date(t - t.getTimezoneOffset() * 60000).toISOString().slice(0, 16); "
    "field.dispatchEvent(new Event('input')); }}"
)
_ZONE = "() => emit(Intl.DateTimeFormat().resolvedOptions().timeZone)"


class When:
    """When a run begins. `option`: NOW, ONCE or AGAIN; `text`: the time in UTC that the field shows, "" if none;
    `zone`: the browser's time zone; `changed`: called when there is another option."""

    def __init__(self, can_repeat: bool, changed: Callable[[], None]) -> None:
        self.option, self.text, self.zone, self.changed = NOW, "", "UTC", changed
        options = {NOW: "Now", ONCE: "Once, at a time"}
        options |= {AGAIN: "On a schedule, every day or week"} if can_repeat else {}
        parts.heading("When")
        choice = ui.radio(options, value=NOW, on_change=lambda event: self._choose(event.value)).props("inline")
        choice.on("update:model-value", self._in_zone, js_handler=_ZONE)
        with parts.stack(0.5) as self.at:
            with parts.row():
                field = parts.field("Date and time", "datetime-local").on("input", self._picked, js_handler=_PICKED)
                tonight = ui.button("Tonight at three").props("outline no-caps")
                tonight.on("click", js_handler=_TONIGHT.format(field=field.html_id))
            self.said = ui.label("").classes("hint").props('role="status"')
            self._say()
        self.at.set_visibility(False)

    def _choose(self, option: str) -> None:
        self.option = option
        self.at.set_visibility(option == ONCE)
        self.changed()

    def _picked(self, event: GenericEventArguments) -> None:
        _, self.text = (str(each) for each in event.args)
        self._say()

    def _in_zone(self, event: GenericEventArguments) -> None:
        if self.zone != event.args:
            self.zone = str(event.args)
            self._say()
            self.changed()

    def _say(self) -> None:
        shown = self.text[:16].replace("T", " ")
        said = f"That is {shown} UTC." if shown else "The date or the time is not complete."
        self.said.text = f"In your time zone, {self.zone}. {said} Keep vitalfew ui running until then."
