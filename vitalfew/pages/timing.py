"""When a run begins: now, once at a time, or again and again."""

from collections.abc import Callable

from nicegui import ui
from nicegui.events import GenericEventArguments

from vitalfew.pages import parts

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
        options = {NOW: "Now", ONCE: "Once, at a time"} | ({AGAIN: "Again and again"} if can_repeat else {})
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
        said = f"That is {self.text[:16].replace('T', ' ')} UTC." if self.text else "Not a whole date and time yet."
        self.said.text = f"In your time zone, {self.zone}. {said} Keep vitalfew ui running until then."
