"""The forms of the page Corpora and indexes, which start a run of a deployment: now, or at a time."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import polars as pl
from nicegui import ui
from nicegui.events import GenericEventArguments
from pydantic import ValidationError

from vitalfew.configs.loading import explained
from vitalfew.flows.forms import EvaluateForm, Form, IndexForm, ReEncode
from vitalfew.flows.pipelines import experiments
from vitalfew.flows.pipelines.named import CORPORA as BUNDLED
from vitalfew.flows.pipelines.named import corpora, find_corpus
from vitalfew.flows.server.deployed import StartRefused, moment
from vitalfew.flows.server.guard import PAGES as ROOT
from vitalfew.flows.webhook import WEBHOOK
from vitalfew.library.corpus_files import CorpusFile
from vitalfew.pages import parts
from vitalfew.pages.addresses import CORPORA
from vitalfew.pages.fields import AGAIN, ONCE, Fields, When, as_number, described
from vitalfew.pages.parts import utc
from vitalfew.pages.site import Site
from vitalfew.storage.runs import index_names

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
        """Keep what is typed into a field, and show the lines again."""

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
    if changed.power:
        described(f"{changed.power[0].upper()}{changed.power[1:]}.")


def shown_file(changed: CorpusFile, caption: str, role: str = "note") -> None:
    """A corpus's file with the added lines marked."""
    parts.Words(caption, "div").classes("hint text").props(f"role={role}")
    with ui.element("pre").classes("text code log").props(f'tabindex="0" aria-label="{changed.file.name}"'):
        parts.Words(changed.after.removesuffix(changed.added))
        parts.Words(changed.added, "mark")


def gate(site: Site, corpus: Mapping[str, Any], written: Written, sets: Sequence[str]) -> None:
    """Say who notices if a corpus's index has become worse; where nobody does, offer a gate. `sets`: of questions."""
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
            f"difference is above minus the margin ({corpus['margins']}). The verdict and the interval are then on "
            f"the page of the run and on that of the index. To change the gate, {change}."
        )
    else:
        described(
            "This corpus has no gate: searches get the new generation at once, and nothing says whether it is worse. "
            "A gate asks both generations the same questions, and lets searches find the new one only if it is no "
            "worse."
        )
        _offered(site, corpus["name"], written, sets)
    host = urlsplit(os.environ.get(WEBHOOK, "")).hostname
    told = f"The webhook at {host}" if host else "Only the page Overview"
    more = "" if host else f" To tell others, set `{WEBHOOK}` to a URL before you start `vitalfew ui`."
    described(f"{told} is notified when a run fails, and when a generation is not promoted.{more}")


def _offered(site: Site, corpus: str, written: Written, sets: Sequence[str]) -> None:
    """Fields of a gate, and a button that adds it to the corpus's file. `sets`: of questions, to choose from."""
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
    questions.props(f"list={parts.offered(sets)}")
    addition.hear(questions, chosen, "questions")
    addition.draw("Add the gate")


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
            f"{corpus['timezone']}. To change or end it, edit the line `cron` in {corpus['file']}; it takes effect "
            "within a minute."
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
        "It takes effect within a minute while `vitalfew ui` runs. The page Corpora and indexes then shows the next "
        "run."
    )


@dataclass(frozen=True)
class Start:
    """A form. `main`: the fields that are shown first; `check`: raises what is wrong with a form that is filled in."""

    title: str
    form: type[Form]
    main: tuple[str, ...]
    check: Callable[[Any], Any]


STARTS = {
    "index-corpus": Start("Index a corpus", IndexForm, ("name", "sources", "encoder", "bm25"), IndexForm.corpus),
    "re-encode": Start(
        "Re-encode a corpus", ReEncode, ("corpus",), lambda form: find_corpus(form.corpus, form.store, form.corpora)
    ),
    "evaluate": Start(
        "Start an evaluation",
        EvaluateForm,
        ("experiment", "index", "questions", "sample"),
        EvaluateForm.evaluation,
    ),
}
"""By deployment."""
HIDDEN = ("store", "corpora")
"""Fields whose values are those of this `vitalfew ui`."""


def draw(site: Site, deployment: str) -> None:
    """Draw the form of a deployment. Parameters of the address fill in its fields."""
    if deployment not in STARTS:
        parts.problem(f"There is no form {deployment!r}; there are: {', '.join(STARTS)}")
        return
    start = STARTS[deployment]
    described(" ".join((start.form.__doc__ or "").split()))

    def read() -> tuple[Mapping[str, Any], pl.DataFrame, list[str]]:
        sets = site.store.question_sets()
        schema = _with_names(site, start.form.model_json_schema(), sets)
        return schema, site.store.corpora(site.corpora) if deployment == "re-encode" else pl.DataFrame(), sets

    given = dict(ui.context.client.request.query_params)
    parts.later(read, lambda found: Drawn(site, deployment, start, given, *found).draw())


def _with_names(site: Site, schema: dict[str, Any], sets: Sequence[str]) -> Mapping[str, Any]:
    """A form's schema whose fields offer the indexes, experiments, corpora and sets of questions of this moment; an
    index that is the only one is filled in. Raises ConfigError, OtherVersion."""
    indexes = index_names(site.place)
    known = {
        "index": indexes,
        "experiment": experiments.names(site.place),
        "corpus": sorted(corpora(site.place, site.corpora)),
    }
    for name, field in schema["properties"].items():
        if known.get(name):
            field["enum"] = known[name]
        if name == "questions":
            field["examples"] = sets
        if name == "index" and len(indexes) == 1:
            field["default"] = indexes[0]
        if name == "index" and not indexes:
            field["description"] += " This store has none yet: index a corpus first."
    return schema


class Drawn:
    """A form on the page."""

    def __init__(
        self,
        site: Site,
        deployment: str,
        start: Start,
        given: Mapping[str, str],
        schema: Any,
        corpora: pl.DataFrame,
        sets: Sequence[str],
    ) -> None:
        self.site, self.deployment, self.start, self.corpora, self.sets = site, deployment, start, corpora, sets
        self.fields = Fields(schema, {**given}, HIDDEN)
        self.given = given

    def draw(self) -> None:
        with ui.column().style("gap: 1rem; align-items: stretch; max-width: 48rem; width: 100%"):
            self.fields.draw(self.start.main)
            self.differs = ui.column().style("align-items: stretch")
            self.when = When(self.deployment == "re-encode", self._show_when)
            self.schedule = ui.column().style("gap: 0.75rem; align-items: stretch")
            if self.deployment == "re-encode":
                parts.heading("If it gets worse")
                self.gate = ui.column().style("gap: 0.75rem; align-items: stretch")
                self.fields.heard.append(lambda name, _: self._show_corpus() if name == "corpus" else None)
                self._show_corpus()
            self.place = ui.column().style("align-items: stretch")
            self.button = ui.button("Start", on_click=self._submit).props("no-caps").style("align-self: start")

    async def _submit(self) -> None:
        self.place.clear()
        values, at = self.fields.values(), self.when.text if self.when.option == ONCE else None
        if run := await parts.asked(lambda: self._started(values, at), self.place):
            ui.navigate.to(f"{CORPORA.removeprefix(ROOT)}?run={run}")

    def _started(self, values: Mapping[str, Any], at: str | None) -> str:
        """Check a form, start its run, and return the run's id. Raises what a user can correct."""
        own = {"store": self.site.place} | ({"corpora": self.site.corpora} if self.site.corpora else {})
        form_of = self.start.form
        try:
            form = form_of.model_validate(
                {**own, **values} if form_of is ReEncode else {**values, "store": own["store"]}
            )
        except ValidationError as error:
            raise StartRefused("\n".join(_titled(form_of, line) for line in explained(error, form_of))) from None
        try:
            self.start.check(form)
        except Exception as error:
            raise StartRefused(form.in_words(parts.told(error))) from None
        if at == "":
            raise StartRefused("The date and the time are not complete: nothing was scheduled")
        if at is not None:
            self._check_unplanned(values, moment(at))
        return self.site.deployed.start(self.deployment, values, None if at is None else moment(at))

    def _check_unplanned(self, values: Mapping[str, Any], at: datetime) -> None:
        """Raises StartRefused where a run of the same corpus is planned for the same minute."""
        minute, corpus = at.replace(second=0, microsecond=0), values.get("corpus")
        for run in self.site.deployed.planned():
            due = run.due and run.due.replace(second=0, microsecond=0)
            if corpus and (run.flow, run.about, due) == (self.deployment, corpus, minute):
                raise StartRefused(
                    f"A run of {corpus} is planned for {utc(at)} UTC already; the page Corpora and indexes lists it"
                )

    def _row(self) -> Mapping[str, Any] | None:
        """The corpus that is chosen."""
        corpus = self.fields.values().get("corpus", "")
        return next(iter(self.corpora.filter(pl.col("name") == corpus).to_dicts()), None) if corpus else None

    def _show_when(self) -> None:
        """Show the button, or the fields, of what was chosen."""
        self.button.set_visibility(self.when.option != AGAIN)
        self.button.text = "Schedule" if self.when.option == ONCE else "Start"
        self.schedule.clear()
        if self.when.option == AGAIN:
            with self.schedule:
                if row := self._row():
                    schedule(self.site, row, self.when.zone, self._written)
                else:
                    described("Choose a corpus first.")

    def _show_corpus(self) -> None:
        """Show what holds for the corpus that is chosen."""
        row = self._row()
        self.gate.clear()
        self.differs.clear()
        with self.gate:
            if row:
                gate(self.site, row, self._written, self.sets)
            else:
                described("Choose a corpus, to see whether it has a gate.")
        if row and not row["error"]:
            name, store, folder = row["name"], self.site.store, self.site.corpora
            with self.differs:
                parts.later(lambda: store.corpus_changes(name, folder), lambda found: differences(name, found))
        if self.when.option == AGAIN:
            self._show_when()

    async def _written(self, changed: CorpusFile) -> None:
        """Show a corpus's file with the lines that were added to it, and what holds now."""
        self.corpora = await parts.reading(lambda: self.site.store.corpora(self.site.corpora))
        self._show_corpus()
        self._show_when()
        self.place.clear()
        with self.schedule if "cron" in changed.settings else self.gate:
            shown_file(changed, f"Saved. {changed.file} now reads:", "status")


_NEEDED = {"corpus": "choose one", "sources": "give at least one data set: its format and, for most formats, its path"}
"""A remedy for every field that is needed."""


def _titled(form: type[Form], line: str) -> str:
    """A message that says "setting 'top_k'" with the title of that field instead."""

    def title(match: re.Match[str]) -> str:
        name = match[1]
        given = form.model_fields[name].title if name in form.model_fields else None
        shown = given or name.replace("_", " ").capitalize()
        return f"{shown}: {_NEEDED.get(name, 'fill this in')}" if match[2] else shown

    return re.sub(r"^setting '(\w+)[^']*'( is missing$)?", title, line)
