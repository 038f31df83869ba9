"""The form of re-encoding: what a run would replace, who notices if it gets worse, and lines for the corpus's file."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
from nicegui import ui
from nicegui.events import GenericEventArguments

from vitalfew.flows.pipelines.named import CORPORA as BUNDLED
from vitalfew.flows.webhook import WEBHOOK
from vitalfew.library.corpus_files import CorpusFile
from vitalfew.pages import parts
from vitalfew.pages.fields import as_number, described
from vitalfew.pages.site import Site

Written = Callable[[CorpusFile], Any]
"""Called when lines were added to a file."""
METRIC = "passage_recall@10"
_SETTINGS = {
    "split.splitter": "splitter",
    "encode.encoder": "encoder",
    "encode.context": "source of context vectors",
    "index.type": "index type",
    "bm25.enabled": "keyword search (BM25)",
}


def differences(corpus: str, changes: pl.DataFrame) -> None:
    """Warn of what re-encoding a corpus changes in the index of its name."""
    rows = {row["setting"]: row for row in changes.to_dicts()}
    if texts := rows.pop("datasets", None):
        with ui.element("div").classes("problem").props('role="alert"'):
            parts.Words(
                f"Index {corpus} was made from {texts['index']}; this corpus is {texts['corpus']}: searches of "
                f"{corpus} would find these texts in the place of the others. To keep both, give the corpus's file "
                "another name.",
                "div",
            ).classes("text")
    if rows:
        said = "; ".join(f"{_SETTINGS[name]}: {row['index']} → {row['corpus']}" for name, row in rows.items())
        parts.hint(f"Differs from the index as it is now ({said}): the run makes a new generation of {corpus}.")


class Addition:
    """Lines that a button adds to the file of a corpus, with the file as it would be. `settings`: what is added."""

    def __init__(self, site: Site, corpus: str, settings: Callable[[], Mapping[str, Any]], written: Written) -> None:
        self.site, self.corpus, self.settings, self.written = site, corpus, settings, written

    def draw(self, button: str) -> None:
        """Draw the file with the lines, and the button below it."""
        self.look = parts.later(lambda: self._changed(False), _preview, "Reading the file")
        ui.button(button, on_click=self._write).props("no-caps").style("align-self: start")
        self.said = parts.stack()

    def hear(self, field: ui.element, chosen: dict[str, str], name: str) -> None:
        """Keep what is typed into a field, and show the lines anew."""

        async def typed(event: GenericEventArguments) -> None:
            chosen[name] = str(event.args)
            await self.look()

        field.on("input", typed, js_handler="event => emit(event.target.value)")

    def _changed(self, write: bool) -> CorpusFile:
        return self.site.store.extend_corpus(self.corpus, self.settings(), self.site.corpora, write=write)

    async def _write(self) -> None:
        self.said.clear()
        if changed := await parts.asked(lambda: self._changed(True), self.said):
            await self.written(changed)


def _preview(changed: CorpusFile) -> None:
    shown_file(changed, f"The button adds the marked lines to {changed.file}, which then reads:")


def shown_file(changed: CorpusFile, caption: str, role: str = "note") -> None:
    """A corpus's file with the added lines marked."""
    parts.Words(caption, "div").classes("hint text").props(f"role={role}")
    with ui.element("pre").classes("text code log").props(f'tabindex="0" aria-label="{changed.file.name}"'):
        parts.Words(changed.after.removesuffix(changed.added))
        parts.Words(changed.added, "mark")


def gate(site: Site, corpus: Mapping[str, Any], written: Written) -> None:
    """Say who notices if a corpus's index has become worse; where nobody does, offer a gate."""
    if corpus["error"]:
        parts.problem(corpus["error"])
    elif corpus["gate"]:
        asked = corpus["questions"] or "those of its data sets"
        file = Path(corpus["file"])
        copy = (
            f"copy {file}, which came with the product, to the directory `corpora` beside the store, and edit it there"
        )
        change = copy if file.parent == BUNDLED else f"edit {file}"
        described(
            f"This corpus has a gate. It asks the current generation and the new one the same questions ({asked}), by "
            f"the experiment {corpus['experiment']}. Searches get the new one only if the 95 % interval of every "
            f"difference lies above minus the margin ({corpus['margins']}). The verdict and the interval are then on "
            f"the page of the run and on that of the index. To change the gate, {change}."
        )
    else:
        described(
            "This corpus has no gate: searches get the new generation at once, and nothing says whether it is worse. "
            "A gate asks both generations the same questions, and lets searches find the new one only if it is no "
            "worse."
        )
        _offered(site, corpus["name"], written)
    known = os.environ.get(WEBHOOK)
    described(
        f"The webhook in {WEBHOOK} hears of a run that fails, and of a generation that was not promoted."
        if known
        else f"{WEBHOOK} is not set, so the verdict is on these pages alone. Set it to a URL before you start "
        "`vitalfew ui`: that gets a POST when a run fails, and when a generation was not promoted."
    )


def _offered(site: Site, corpus: str, written: Written) -> None:
    """Fields of a gate, and a button that adds it to the corpus's file."""
    chosen = {"loss": "0.02", "questions": ""}

    def settings() -> dict[str, Any]:
        asked = {"questions": text} if (text := chosen["questions"].strip()) else {}
        loss = as_number(chosen["loss"])  # a text that is no number is refused by the check of the whole
        return {"gate": {"margins": {METRIC: chosen["loss"] if loss is None else loss}, **asked}}

    addition = Addition(site, corpus, settings, written)
    loss = parts.field(f"Loss of {METRIC} that you accept (0.02: 2 of 100 questions)", "number", chosen["loss"])
    loss.props("min=0 max=1 step=0.01")
    addition.hear(loss, chosen, "loss")
    questions = parts.field("Questions, as FORMAT:PATH (empty: those of the corpus's data sets)", "text")
    addition.hear(questions, chosen, "questions")
    addition.draw("Tell me if it gets worse")


_DAYS = {"*": "every day", "1-5": "Monday to Friday", "1": "Mondays", "2": "Tuesdays", "3": "Wednesdays",
         "4": "Thursdays", "5": "Fridays", "6": "Saturdays", "0": "Sundays"}  # fmt: skip


def schedule(site: Site, corpus: Mapping[str, Any], zone: str, written: Written) -> None:
    """Fields of a schedule, and a button that adds it to the corpus's file. `zone`: the browser's time zone."""
    if corpus["error"]:
        parts.problem(corpus["error"])
        return
    if corpus["cron"]:
        described(
            f"This corpus has a schedule: `{corpus['cron']}` (minute, hour, day, month, weekday), time zone "
            f"{corpus['timezone']}. To change or end it, edit the line `cron` in {corpus['file']}; that counts within "
            "a minute."
        )
        return
    chosen = {"time": "03:00", "day": "*", "zone": zone}

    def settings() -> dict[str, Any]:
        hour, _, minute = chosen["time"].partition(":")
        cron = f"{int(minute)} {int(hour)} * * {chosen['day']}" if minute else ""
        return {"cron": cron, "timezone": chosen["zone"].strip()}

    addition = Addition(site, corpus["name"], settings, written)

    def choose(day: str) -> Any:
        chosen["day"] = day
        return addition.look()

    with ui.element("div").classes("row"):
        addition.hear(parts.field("Time", "time", chosen["time"]), chosen, "time")
        parts.choice("Days", _DAYS, "*", choose)
        addition.hear(parts.field("Time zone", "text", zone), chosen, "zone")
    addition.draw("Save the schedule")
    described(
        "It counts within a minute, while `vitalfew ui` runs; the page Corpora and indexes then lists the next run."
    )
