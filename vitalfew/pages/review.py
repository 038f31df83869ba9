"""The page Review: a person says which answers are right, or which of two is better.

Without a run and a reviewer in the address it asks for both; with them it is the session (`reviewing`); with
`labels=1` it is what the labels say so far (`labels`), which names the methods and so stands apart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from nicegui import ui
from nicegui.events import GenericEventArguments

from vitalfew.flows.server.guard import PAGES as ROOT
from vitalfew.pages import parts
from vitalfew.pages.review_session import Desk, in_words, labels
from vitalfew.pages.site import Site
from vitalfew.tasks.reports.reviewing import ReviewProgress, ReviewSession

_RUNS = """
SELECT run_id, name, started, questions, methods FROM runs
JOIN (SELECT run_id, list(DISTINCT method ORDER BY method) AS methods FROM methods
  WHERE table_name = 'candidates' GROUP BY run_id) USING (run_id)
LEFT JOIN (SELECT run_id, max(questions) AS questions FROM methods
  JOIN (SELECT fingerprint, count(*) AS questions FROM asked GROUP BY fingerprint) USING (fingerprint)
  WHERE table_name = 'asked' GROUP BY run_id) USING (run_id)
WHERE flow = 'evaluate' AND state = 'completed' ORDER BY run_id DESC
"""
"""Evaluations whose methods answer, newest first."""
_NOTHING = (
    "There is no evaluation with answers to review yet. Start one on the page Corpora and indexes, or in a terminal: "
    "vitalfew evaluate quickstart --index NAME"
)
_ORDER = (
    "Questions come in a random order, the same for all reviewers: stop when you like, what you have reviewed is a "
    "random sample. The names of methods are not shown. Every verdict is kept at once, and the same address goes on."
)
_METHODS = (
    "Without a choice: of two answers at a time, those of the best method and of the baseline; of one at a time, those "
    "of all methods. A choice stands in the address: you then know whose answers you review."
)
_NAME = """vnode => {
  vnode.el.value = vnode.el.value || localStorage.getItem("vitalfew-reviewer") || "";
  emit(vnode.el.value);
}"""
_STYLE = """
.start { display: flex; flex-direction: column; gap: 1rem; max-width: 40rem }
.start fieldset { border: 0; padding: 0; margin: 0; display: flex; flex-direction: column; gap: 0.25rem }
.start fieldset label, .start details label { display: flex; gap: 0.5rem; padding: 0.4rem 0; align-items: baseline }
.start summary { padding: 0.4rem 0 }
"""


def draw(site: Site) -> None:
    asked = ui.context.client.request.query_params
    wanted = Wanted(
        run=asked.get("run", ""),
        reviewer=asked.get("reviewer", "").strip(),
        one=asked.get("one", "") == "1",
        methods=[name for name in asked.getlist("method") if name],
    )
    ui.add_css(_STYLE)
    if wanted.run and asked.get("labels"):
        with ui.element("div").classes("row"):
            parts.link("Review answers", f"{ROOT}/review?run={quote(wanted.run, safe='')}")
        labels(site, wanted.run)
    elif wanted.run and wanted.reviewer:
        address = f"{ROOT}/review?run={quote(wanted.run, safe='')}"
        with ui.element("div").classes("row"):
            parts.link("Another run or name", f"{ROOT}/review")
            parts.link("The labels so far, with the methods' names", f"{address}&labels=1")
        parts.later(lambda: Desk(site, wanted.session(site)), lambda desk: desk.draw())
    else:
        parts.later(
            lambda: _runs(site), lambda runs: Start(site, runs, wanted).draw() if runs else parts.hint(_NOTHING)
        )


@dataclass
class Wanted:
    """The answers to review, and the reviewer, as the address says it."""

    run: str
    reviewer: str
    one: bool
    methods: list[str] = field(default_factory=list)

    def session(self, site: Site) -> ReviewSession:
        return site.store.review(self.run, reviewer=self.reviewer, methods=self.methods, one=self.one)


def _runs(site: Site) -> list[dict[str, Any]]:
    try:
        return site.store.sql(_RUNS).to_dicts()
    except FileNotFoundError:  # no store yet
        return []


class Start:
    """Asks what to review. The form is the browser's: what it sends is the address of the session."""

    def __init__(self, site: Site, runs: Sequence[Mapping[str, Any]], wanted: Wanted) -> None:
        self.site, self.runs, self.wanted = site, runs, wanted
        known = (row["run_id"] for row in runs if wanted.run in (row["run_id"], row["name"]))
        wanted.run = next(known, runs[0]["run_id"])

    def draw(self) -> None:
        with ui.element("form").classes("start").props(f'action="{ROOT}/review" method="get"'):
            shown = {row["run_id"]: _said(row) for row in self.runs}
            run = parts.choice("Evaluation, newest first", shown, self.wanted.run, self._choose_run, "run")
            run.props["name"] = "run"
            self._draw_name()
            with ui.element("fieldset"):
                parts.Words("What to review", "legend")
                self._draw_kind("", "Two answers at a time: which is better?")
                self._draw_kind("1", "One answer at a time: is it right?")
            with ui.element("details").props("open" if self.wanted.methods else ""):
                parts.Words("Choose methods", "summary")
                parts.hint(_METHODS)
                self.methods = ui.element("fieldset")
            self._draw_methods()
            parts.hint(_ORDER)
            self.count = parts.later(self._progress, _draw_progress, "Counting what is left")
            ui.button("Begin, or go on").props("type=submit no-caps").style("min-height: 3rem")

    def _draw_name(self) -> None:
        async def named(event: GenericEventArguments) -> None:
            self.wanted.reviewer = str(event.args or "").strip()
            await self.count()

        name = parts.field("Your name, which is kept with your verdicts", "text").mark("reviewer")
        name.props('name="reviewer" required maxlength="100" autocomplete="name"')
        name.on("vnode-mounted", named, js_handler=_NAME)
        name.on("change", named, js_handler="event => emit(event.target.value)")

    def _draw_kind(self, value: str, said: str) -> None:
        async def chosen() -> None:
            self.wanted.one = value == "1"
            await self.count()

        button = _button("radio", "one", value, said, self.wanted.one == (value == "1"))
        button.on("change", chosen, js_handler="() => emit()")

    def _draw_methods(self) -> None:
        async def ticked(event: GenericEventArguments) -> None:
            name, is_chosen = event.args
            self.wanted.methods = [each for each in self.wanted.methods if each != name] + [name] * bool(is_chosen)
            await self.count()

        with parts.anew(self.methods):
            for name in next(row["methods"] for row in self.runs if row["run_id"] == self.wanted.run):
                button = _button("checkbox", "method", name, name, name in self.wanted.methods)
                button.on("change", ticked, js_handler="event => emit([event.target.value, event.target.checked])")

    async def _choose_run(self, run: str) -> None:
        self.wanted.run, self.wanted.methods = run, []
        self._draw_methods()
        await self.count()

    def _progress(self) -> ReviewProgress | None:
        wanted = self.wanted
        return wanted.session(self.site).progress if wanted.reviewer else None


def _button(kind: str, name: str, value: str, said: str, is_checked: bool) -> ui.element:
    """A radio button or a checkbox of the browser, for a form."""
    with ui.element("label"):
        made = ui.element("input").props(f'type="{kind}" name="{name}"').mark(said)
        parts.Words(said).classes("text")
    made.props["value"] = value
    if is_checked:
        made.props["checked"] = True
    return made


def _draw_progress(progress: ReviewProgress | None) -> None:
    said = "Give your name to see how many are left." if progress is None else in_words(progress)
    ui.label(said).props('role="status"')


def _said(row: Mapping[str, Any]) -> str:
    questions = f", {row['questions']:,} questions" if row["questions"] is not None else ""
    return f"{row['name']}, {row['started']:%Y-%m-%d %H:%M} UTC{questions}"
