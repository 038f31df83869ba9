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
from pydantic import ValidationError

from vitalfew.configs.loading import explained
from vitalfew.flows.forms import EvaluateForm, Form, IndexForm, ReEncode
from vitalfew.flows.pipelines import experiments
from vitalfew.flows.pipelines.named import CORPORA as BUNDLED
from vitalfew.flows.pipelines.named import corpora, find_corpus
from vitalfew.flows.server.deployed import StartRefused, moment
from vitalfew.flows.webhook import WEBHOOK
from vitalfew.library.corpus_files import CorpusFile
from vitalfew.pages import parts
from vitalfew.pages.addresses import go, parameters
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
        parts.problem(
            f"Index {corpus} was made from {texts['index']}; this corpus is {texts['corpus']}: searches of {corpus} "
            "would find these texts in the place of the others. To keep both, give the corpus's file another name."
        )
    if rows:
        said = "; ".join(f"{_SETTINGS[name]}: {row['index']} → {row['corpus']}" for name, row in rows.items())
        parts.hint(f"Differs from the index as it is now ({said}): the run makes a new generation of {corpus}.")


class Addition:
    """Lines that a button adds to the file of a corpus, with the file as it would be. `given`: what its fields have;
    `settings`: what is added for that."""

    def __init__(
        self,
        site: Site,
        corpus: str,
        given: dict[str, str],
        settings: Callable[[Mapping[str, str]], Mapping[str, Any]],
        written: Written,
    ) -> None:
        self.site, self.corpus, self.given, self.settings, self.written = site, corpus, given, settings, written

    def field(self, name: str, label: str, kind: str) -> ui.element:
        return parts.field(label, kind, self.given[name], lambda text: self.put(name, text))

    async def put(self, name: str, text: str) -> None:
        """Take the value of a field, and show the lines again."""
        self.given[name] = text
        await self.look()

    def draw(self, button: str) -> None:
        """Draw the file with the lines, and the button below it."""
        self.look = parts.later(lambda: self._changed(False), _preview, "Reading the file")
        parts.button(button, self._write, "")
        self.said = parts.stack()

    def _changed(self, write: bool) -> CorpusFile:
        return self.site.store.extend_corpus(self.corpus, self.settings(self.given), self.site.corpora, write=write)

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

    def settings(given: Mapping[str, str]) -> dict[str, Any]:
        questions, loss = given["questions"].strip(), as_number(given["loss"])
        margin = given["loss"] if loss is None else loss  # what is no number is refused by the check of the whole
        return {"gate": {"margins": {METRIC: margin}, **({"questions": questions} if questions else {})}}

    addition = Addition(site, corpus, {"loss": "0.02", "questions": ""}, settings, written)
    loss = addition.field("loss", f"Loss of {METRIC} that you accept (0.02: 2 of 100 questions)", "number")
    loss.props("min=0 max=1 step=0.01")
    questions = "Questions, as FORMAT:PATH (empty: those of the corpus's data sets)"
    addition.field("questions", questions, "text").props(f"list={parts.offered(sets)}")
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

    def settings(given: Mapping[str, str]) -> dict[str, Any]:
        hour, _, minute = given["time"].partition(":")
        cron = f"{int(minute)} {int(hour)} * * {given['day']}" if minute else ""
        return {"cron": cron, "timezone": given["zone"].strip()}

    addition = Addition(site, corpus["name"], {"time": "03:00", "day": "*", "zone": zone}, settings, written)
    with parts.row():
        addition.field("time", "Time", "time")
        parts.Choice("Days", _DAYS, "*", lambda day: addition.put("day", day))
        addition.field("zone", "Time zone", "text")
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
        "Start an evaluation", EvaluateForm, ("experiment", "index", "questions", "sample"), EvaluateForm.evaluation
    ),
}
"""By deployment."""
HIDDEN = ("store", "corpora")
"""Fields whose values are those of this `vitalfew ui`."""
_RE_ENCODE = "re-encode"


def draw(site: Site, deployment: str) -> None:
    """Draw the form of a deployment. Parameters of the address fill in its fields."""
    if deployment not in STARTS:
        parts.problem(f"There is no form {deployment!r}; there are: {', '.join(STARTS)}")
        return
    described(" ".join((STARTS[deployment].form.__doc__ or "").split()))
    form = StartForm(site, deployment, parameters())
    parts.later(form.read, lambda _: form.draw())


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


class StartForm:
    """A form on the page. `given`: the values that it begins with, by field."""

    sets: list[str]
    """Sets of questions of the store."""
    corpora: dict[str, dict[str, Any]]
    """Corpora by name, where the form is for one."""

    def __init__(self, site: Site, deployment: str, given: Mapping[str, str]) -> None:
        self.site, self.deployment, self.given = site, deployment, given
        self.start = STARTS[deployment]

    def read(self) -> None:
        """Read what the form offers. Raises ConfigError, OtherVersion."""
        self.sets = self.site.store.question_sets()
        self._read_corpora()
        schema = _with_names(self.site, self.start.form.model_json_schema(), self.sets)
        self.fields = Fields(schema, self.given, self._on_choice)

    def _read_corpora(self) -> None:
        found = self.site.store.corpora(self.site.corpora).to_dicts() if self.deployment == _RE_ENCODE else []
        self.corpora = {row["name"]: row for row in found}

    def draw(self) -> None:
        with parts.stack().style("max-width: 48rem"):
            self.fields.draw(self.start.main, HIDDEN)
            self.differs = parts.stack()
            self.when = When(self.deployment == _RE_ENCODE, self._show_when)
            self.schedule = parts.stack(0.75)
            if self.deployment == _RE_ENCODE:
                parts.heading("If it gets worse")
                self.gate = parts.stack(0.75)
                self._show_corpus()
            self.place = parts.stack()
            self.button = parts.button("Start", self._submit, "")

    async def _submit(self) -> None:
        self.place.clear()
        values, at = self.fields.values(), self.when.text if self.when.option == ONCE else None
        if run := await parts.asked(lambda: self._started(values, at), self.place):
            go("/corpora", run=run)

    def _started(self, values: Mapping[str, Any], at: str | None) -> str:
        """Check a form, start its run, and return the run's id. Raises what a user can correct."""
        form_of, given = self.start.form, {"store": self.site.place, **values}
        if form_of is ReEncode and self.site.corpora:
            given["corpora"] = self.site.corpora
        try:
            form = form_of.model_validate(given)
        except ValidationError as error:
            raise StartRefused("\n".join(_titled(form_of, line) for line in explained(error, form_of))) from None
        try:
            self.start.check(form)
        except Exception as error:
            raise StartRefused(form.in_words(parts.told(error))) from None
        if at is None:
            return self.site.deployed.start(self.deployment, values)
        if not at:
            raise StartRefused("The date and the time are not complete: nothing was scheduled")
        self._check_unplanned(values, moment(at))
        return self.site.deployed.start(self.deployment, values, moment(at))

    def _check_unplanned(self, values: Mapping[str, Any], at: datetime) -> None:
        """Raises StartRefused where a run of the same corpus is planned for the same minute."""
        corpus = values.get("corpus")
        planned = [(run.flow, run.about, utc(run.due)) for run in self.site.deployed.planned()]
        if corpus and (self.deployment, corpus, utc(at)) in planned:
            raise StartRefused(
                f"A run of {corpus} is planned for {utc(at)} UTC already; the page Corpora and indexes lists it"
            )

    def _corpus(self) -> Mapping[str, Any] | None:
        return self.corpora.get(self.fields.values().get("corpus", ""))

    def _on_choice(self, field: str) -> None:
        if field == "corpus":
            self._show_corpus()

    def _show_when(self) -> None:
        """Show the button, or the fields, of what was chosen."""
        self.button.set_visibility(self.when.option != AGAIN)
        self.button.text = "Schedule" if self.when.option == ONCE else "Start"
        with parts.anew(self.schedule):
            if self.when.option == AGAIN:
                if corpus := self._corpus():
                    schedule(self.site, corpus, self.when.zone, self._written)
                else:
                    described("Choose a corpus first.")

    def _show_corpus(self) -> None:
        """Show what holds for the corpus that is chosen."""
        corpus = self._corpus()
        with parts.anew(self.gate):
            if corpus:
                gate(self.site, corpus, self._written, self.sets)
            else:
                described("Choose a corpus, to see whether it has a gate.")
        with parts.anew(self.differs):
            if corpus and not corpus["error"]:
                name, store, folder = corpus["name"], self.site.store, self.site.corpora
                parts.later(lambda: store.corpus_changes(name, folder), lambda found: differences(name, found))
        if self.when.option == AGAIN:
            self._show_when()

    async def _written(self, changed: CorpusFile) -> None:
        """Show a corpus's file with the lines that were added to it, and what holds now."""
        await parts.reading(self._read_corpora)
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
