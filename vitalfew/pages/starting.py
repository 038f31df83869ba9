"""The forms of the page Corpora and indexes, which start a run of a deployment: now, or at a time."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
from nicegui import ui
from nicegui.events import GenericEventArguments
from pydantic import ValidationError

from vitalfew.configs.loading import explained
from vitalfew.flows.errors import explanation
from vitalfew.flows.forms import EvaluateForm, Form, IndexForm, ReEncode, names, with_names
from vitalfew.flows.pipelines.named import find_corpus
from vitalfew.flows.server.deployed import StartRefused, moment
from vitalfew.flows.server.guard import PAGES as ROOT
from vitalfew.flows.webhook import WEBHOOK
from vitalfew.pages import parts
from vitalfew.pages.fields import Fields, described
from vitalfew.pages.site import Site

CORPORA = f"{ROOT}/corpora"


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
    "evaluate": Start("Start an evaluation", EvaluateForm, ("experiment", "index", "sample"), EvaluateForm.evaluation),
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
    parts.heading(start.title)
    described(" ".join((start.form.__doc__ or "").split()))

    def read() -> tuple[Mapping[str, Any], pl.DataFrame]:
        schema = start.form.model_json_schema()
        known = names(site.place, site.corpora)
        whole = with_names({"definitions": {"form": schema, **schema.get("$defs", {})}}, known)
        corpora = site.store.corpora(site.corpora) if deployment == "re-encode" else pl.DataFrame()
        return whole["definitions"]["form"], corpora

    given = dict(ui.context.client.request.query_params)
    parts.later(read, lambda found: Drawn(site, deployment, start, given, *found).draw())


class Drawn:
    """A form on the page."""

    def __init__(
        self, site: Site, deployment: str, start: Start, given: Mapping[str, str], schema: Any, corpora: pl.DataFrame
    ) -> None:
        self.site, self.deployment, self.start, self.corpora = site, deployment, start, corpora
        self.fields = Fields(schema, {**given}, HIDDEN)
        self.given = given

    def draw(self) -> None:
        with ui.column().style("gap: 1rem; align-items: stretch; max-width: 48rem; width: 100%"):
            self.fields.draw(self.start.main)
            self.when = When(self.deployment)
            if self.deployment == "re-encode":
                parts.heading("If it gets worse")
                self.gate = ui.column().style("gap: 0.5rem; align-items: stretch")
                self.fields.heard.append(lambda name, value: self._show_gate(value) if name == "corpus" else None)
                self._show_gate(self.fields.values().get("corpus", ""))
            self.place = ui.column().style("align-items: stretch")
            ui.button("Start", on_click=self._submit).props("no-caps").style("align-self: start")

    async def _submit(self) -> None:
        self.place.clear()
        values, at = self.fields.values(), self.when.text
        try:
            run = await parts.reading(lambda: self._started(values, at))
        except Exception as error:
            if (said := explanation(error)) is None:
                raise
            with self.place:
                parts.problem(said)
            return
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
            if (said := explanation(error)) is None:
                raise
            raise StartRefused(form.in_words(said)) from None
        return self.site.deployed.start(self.deployment, values, None if at is None else moment(at))

    def _show_gate(self, corpus: str) -> None:
        self.gate.clear()
        rows = self.corpora.filter(pl.col("name") == corpus).to_dicts() if corpus else []
        with self.gate:
            if rows:
                _gate(rows[0])
            else:
                described("Choose a corpus, to see whether it has a gate.")


def _titled(form: type[Form], line: str) -> str:
    """A message that says "setting 'top_k'" with the title of that field instead."""

    def title(match: re.Match[str]) -> str:
        name = match[1]
        given = form.model_fields[name].title if name in form.model_fields else None
        return given or name.replace("_", " ").capitalize()

    return re.sub(r"^setting '(\w+)[^']*'", title, line)


def _gate(corpus: Mapping[str, Any]) -> None:
    """Say who notices if a corpus's index has become worse."""
    if corpus["error"]:
        parts.problem(corpus["error"])
    elif corpus["gate"]:
        asked = corpus["questions"] or "those of its data sets"
        described(
            f"This corpus has a gate. It asks the current generation and the new one the same questions ({asked}), by "
            f"the experiment {corpus['experiment']}. Searches get the new one only if the 95 % interval of every "
            f"difference lies above minus the margin ({corpus['margins']}). The verdict and the interval are then on "
            "the page of the run and on that of the index."
        )
    else:
        described(
            "This corpus has no gate: searches get the new generation at once, and nothing says whether it is worse. "
            f"To be told, add this to {corpus['file']}:"
        )
        parts.Words(GATE, "pre").classes("text code")
        described(
            "The gate asks the questions of the corpus's data sets; if they have none, name your own with "
            "`questions: jsonl:FILE`. The margin is the loss that you accept: 0.02 are 2 of 100 questions. A corpus "
            "that came with the product is yours once you copy its file to corpora/ beside the store."
        )
    known = os.environ.get(WEBHOOK)
    described(
        f"The webhook in {WEBHOOK} hears of a run that fails, and of a generation that was not promoted."
        if known
        else f"To be told elsewhere, set {WEBHOOK} to a URL before you start `vitalfew ui`: it gets a POST when a run "
        "fails, and when a generation was not promoted."
    )


GATE = "gate:\n  margins: {passage_recall@10: 0.02}"

_LOCAL = "const two = t => [new Date(t - t.getTimezoneOffset() * 60000).toISOString().slice(0, 16), t.toISOString()];"
_TONIGHT = (
    f"() => {{ {_LOCAL} const t = new Date(); t.setHours(3, 0, 0, 0); "
    "if (t < new Date()) t.setDate(t.getDate() + 1); emit(...two(t)); }"
)
_PICKED = (
    "event => { const t = new Date(event.target.value); emit(event.target.value, isNaN(t) ? '' : t.toISOString()); }"
)


class When:
    """When a run begins. `text`: the time in UTC that was chosen, "" if none was; None is now."""

    def __init__(self, deployment: str) -> None:
        self.text: str | None = None
        options = {"now": "Now", "at": "Once, at a time"}
        if deployment == "re-encode":
            options["cron"] = "Again and again, such as every night"
        parts.heading("When")
        ui.radio(options, value="now", on_change=lambda event: self._choose(event.value)).props("inline")
        with ui.column().style("gap: 0.5rem; align-items: start") as self.at, ui.element("div").classes("row"):
            self.input = ui.input("Date and time").props("type=datetime-local outlined dense stack-label")
            self.input.on("change", self._picked, js_handler=_PICKED)
            ui.button("Tonight at three").props("outline no-caps").on("click", self._picked, js_handler=_TONIGHT)
        with self.at:
            self.said = ui.label("").classes("hint").props('role="status"')
            described("In this browser's time zone. Keep `vitalfew ui` running: it starts what is planned.")
        with ui.column().style("gap: 0.5rem; align-items: stretch") as self.cron:
            described(
                "The schedule of a corpus is in its file, corpora/NAME.yaml beside the store. Add these lines, and it "
                "counts within a minute while `vitalfew ui` runs; Start below also brings the index up to date now."
            )
            parts.Words('cron: "0 3 * * *"          # minute, hour, day, month, weekday\ntimezone: Europe/Berlin   '
                        "# without it UTC", "pre").classes("text code")  # fmt: skip
        self._choose("now")

    def _choose(self, option: str) -> None:
        self.text = (self.text or "") if option == "at" else None
        self.at.set_visibility(option == "at")
        self.cron.set_visibility(option == "cron")

    def _picked(self, event: GenericEventArguments) -> None:
        local, self.text = (str(each) for each in event.args)
        self.input.value = local
        self.said.text = f"That is {self.text[:16].replace('T', ' ')} UTC." if self.text else "This is not a time."
