"""The inputs of a form that starts a run, drawn from the form's schema, whose texts on its fields are said here too.

With them `When`: now, once at a time, or on a schedule.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from vitalfew.pages import parts

Schema = Mapping[str, Any]
EMPTY = "(empty)"


def described(text: str) -> None:
    """A text of a form, whose parts in backticks are code."""
    with ui.element("div").classes("hint text"):
        for number, piece in enumerate(text.replace("**", "").split("`")):
            if piece:
                parts.Words(piece, "code" if number % 2 else "span")


class Fields:
    """The inputs of a form. `schema`: as JSON schema, with the names that exist; `given`: what is filled in."""

    def __init__(self, schema: Schema, given: Mapping[str, str], hidden: Sequence[str]) -> None:
        self.schema, self.given = schema, given
        self.readers: dict[str, Callable[[], Any]] = {}
        self.heard: list[Callable[[str, Any], None]] = []
        self.names = [name for name in schema["properties"] if name not in hidden]

    def draw(self, main: Sequence[str]) -> None:
        """Draw the main fields, and below a fold all others."""
        for name in main:
            self._field(name)
        with ui.element("details").style("width: 100%"):
            parts.Words("More settings", "summary")
            with parts.stack().style("padding-top: 0.5rem"):
                for name in self.names:
                    if name not in main:
                        self._field(name)

    def values(self) -> dict[str, Any]:
        """The fields that are filled in."""
        read = {name: reader() for name, reader in self.readers.items()}
        return {name: value for name, value in read.items() if value not in (None, "", []) and value is not False}

    def _field(self, name: str) -> None:
        field = self.schema["properties"][name]
        label = field.get("title") or name.replace("_", " ").capitalize()
        needed = name in self.schema.get("required", ())
        with ui.element("div").style("display: flex; flex-direction: column; gap: 0.25rem"):
            self.readers[name] = self._input(name, label, field, needed)
            described(field.get("description", ""))

    def _input(self, name: str, label: str, field: Schema, needed: bool) -> Callable[[], Any]:
        start = self.given.get(name, field.get("default"))
        match field:
            case {"enum": [*known]}:
                return self._drop_down(name, label, known, start, needed)
            case {"type": "boolean"}:
                box = ui.checkbox(label, value=bool(start))
                return lambda: box.value
            case {"type": "integer" | "number" as kind}:
                return _number(label, start, kind)
            case {"type": "array", "items": {"type": "string"}}:
                given = self.given.get(name, "")
                area = ui.textarea(f"{label} (one per line)", value=given).props("outlined dense autogrow")
                return lambda: [line.strip() for line in (area.value or "").splitlines() if line.strip()]
            case {"type": "array", "items": {"$ref": reference}}:
                return Sources(label, self.schema["$defs"][reference.rpartition("/")[2]]).values
        text = ui.input(f"{label} (needed)" if needed else label, value=str(start or "")).props("outlined dense")
        text.mark(label)
        if examples := field.get("examples"):
            text.props(f"list={parts.offered(examples)}")
        return lambda: (text.value or "").strip()

    def _drop_down(self, name: str, label: str, known: Sequence[str], start: Any, needed: bool) -> Callable[[], Any]:
        chosen = {"value": start if start in known else ""}
        first = {} if chosen["value"] and needed else {"": f"Choose ({len(known)})" if needed else EMPTY}

        def change(value: str) -> None:
            chosen["value"] = value
            for hear in self.heard:
                hear(name, value)

        parts.choice(label, {**first, **{each: each for each in known}}, chosen["value"], change)
        return lambda: chosen["value"]


def _number(label: str, start: Any, kind: str) -> Callable[[], Any]:
    """A number, without limits: what is out of range is an error, not another number."""
    step = 1 if kind == "integer" else None
    number = ui.number(label, value=as_number(start), step=step).props("outlined dense clearable")

    def value() -> Any:
        whole = kind == "integer" and number.value is not None and float(number.value).is_integer()
        return int(number.value) if whole else number.value

    return value


def as_number(given: Any) -> float | None:
    """A number that an address, a schema or a user fills in; None for anything else."""
    try:
        return float(given)
    except (TypeError, ValueError):
        return None


class Sources:
    """The data sets of a form: of every one a format, from a drop-down, and a path."""

    def __init__(self, label: str, schema: Schema) -> None:
        self.schema = schema
        self.rows: list[Callable[[], dict[str, str]]] = []
        parts.Words(f"{label} (at least one)").style("font-size: 0.9rem")
        self.place = parts.stack(0.75)
        self._add()
        ui.button("Add a data set", on_click=self._add).props("outline dense no-caps").style("align-self: start")
        for name, field in schema["properties"].items():
            described(f"{name.capitalize()}: {field.get('description', '')}")

    def values(self) -> list[dict[str, str]]:
        """The data sets that were filled in."""
        filled = (row() for row in self.rows)
        return [{name: value for name, value in row.items() if value} for row in filled if any(row.values())]

    def _add(self) -> None:
        number, chosen = len(self.rows) + 1, {"format": ""}
        known = self.schema["properties"]["format"]["enum"]
        with self.place, ui.element("div").classes("row"):
            formats = {"": f"Choose ({len(known)})", **{each: each for each in known}}
            parts.choice(f"Format of data set {number}", formats, "", lambda value: chosen.update(format=value))
            path = ui.input(f"Path of data set {number}").props("outlined dense").style("flex: 1 1 16rem")
        self.rows.append(lambda: {**chosen, "path": (path.value or "").strip()})


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
        options = {NOW: "Now", ONCE: "Once, at a time"} | (
            {AGAIN: "On a schedule, every day or week"} if can_repeat else {}
        )
        parts.heading("When")
        choice = ui.radio(options, value=NOW, on_change=lambda event: self._choose(event.value)).props("inline")
        choice.on("update:model-value", self._in_zone, js_handler=_ZONE)
        with ui.column().style("gap: 0.5rem; align-items: start") as self.at:
            with ui.element("div").classes("row"):
                self.field = parts.field("Date and time", "datetime-local")
                self.field.on("input", self._picked, js_handler=_PICKED)
                tonight = _TONIGHT.format(field=self.field.html_id)
                ui.button("Tonight at three").props("outline no-caps").on("click", js_handler=tonight)
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
        said = f"That is {self.text[:16].replace('T', ' ')} UTC." if self.text else "The date or the time is not "
        "complete."
        self.said.text = f"In your time zone, {self.zone}. {said} Keep vitalfew ui running until then."
