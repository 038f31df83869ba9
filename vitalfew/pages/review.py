"""The page Review: a person says which answers are right, or which of two is better.

Without a run and a reviewer in the address it asks for both; with them it is the session (`Desk`); with
`labels=1` it is what the labels say so far (`labels`), which names the methods and so stands apart.

A press names the drawing that it answers, as the browser saw it: a second press on the same one is void, and so is one
while the first is under way. Whatever a key does is done by the store's session, in a thread. Names of methods stay on
the server until all is reviewed.
"""

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any
from urllib.parse import quote

import polars as pl
from nicegui import ui
from nicegui.events import GenericEventArguments, UploadEventArguments

from vitalfew.flows.server.guard import PAGES as ROOT
from vitalfew.flows.server.reports import report_path
from vitalfew.pages import parts
from vitalfew.pages.site import Site
from vitalfew.tasks.reports.answers import KeptPassage
from vitalfew.tasks.reports.contents import Labelled
from vitalfew.tasks.reports.reviewing import BACK, SKIP, ReviewItem, ReviewProgress, ReviewSession
from vitalfew.tasks.reports.shown import labels as shown

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
    "Questions come in a random order, the same for all reviewers. So you can stop at any time: what you have "
    "reviewed is a random sample. Names of methods are hidden. Verdicts are saved at once; open the same address to "
    "continue."
)
_METHODS = (
    "Without a choice, pairs show the best method against the baseline, and single answers come from all methods. "
    "Your choice shows in the address, so you then know whose answers you review."
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
.desk { display: flex; flex-direction: column; gap: 0.75rem }
.desk progress { width: 100%; height: 0.5rem; accent-color: #1d4ed8 }
.question { font-size: 1.25rem; line-height: 1.4; font-weight: 600 }
.answers { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)) }
.answer { border: 1px solid color-mix(in srgb, currentColor 30%, transparent); border-radius: 6px; padding: 0.75rem;
  min-width: 0 }
.answer h3 { font-size: 1rem; line-height: 1.4; font-weight: 600; margin: 0 }
.answer div + div h3 { margin-top: 0.75rem }
.answer ol { padding-left: 1.5rem; margin: 0.5rem 0 0 } .answer li { margin-top: 0.75rem }
.keys { position: sticky; bottom: 0; z-index: 1; display: grid; gap: 0.5rem; padding: 0.5rem 0;
  grid-template-columns: repeat(auto-fit, minmax(7rem, 1fr)); background: white }
.body--dark .keys { background: var(--q-dark-page) }
.keys .q-btn { min-height: 3rem }
.keys kbd { font: inherit; font-weight: 700; border: 1px solid; border-radius: 4px; padding: 0 0.4rem;
  margin-right: 0.5rem }
@media (max-width: 40rem) {
  .desk { gap: 0.5rem }
  .keys { grid-template-columns: repeat(4, 1fr); gap: 0.25rem }
  .keys .q-btn { padding: 0.25rem; font-size: 0.8rem; min-height: 3.5rem }
  .keys .q-btn__content { flex-direction: column }
  .keys kbd { margin: 0 }
}
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
    address = f"{ROOT}/review?run={quote(wanted.run, safe='')}"
    if wanted.run and asked.get("labels"):
        with ui.element("div").classes("row"):
            parts.link("Review answers", address)
        labels(site, wanted.run)
    elif wanted.run and wanted.reviewer:
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
            ui.button("Begin or continue").props("type=submit no-caps").style("min-height: 3rem")

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


_CONTEXTS, _GOLD = "c", "g"
_OTHERS = {SKIP: "skip", BACK: "back", _CONTEXTS: "contexts", _GOLD: "gold answers"}
_SHOWN = 'document.querySelector("[data-shown]")?.dataset.shown'
_PRESSED = f"""event => event.action === "keydown" && !event.ctrlKey && !event.altKey && !event.metaKey
  && emit({{key: event.key, shown: {_SHOWN}}})"""
_CLICKED = f"event => event.detail > 1 || emit({{key: KEY, shown: {_SHOWN}}})"


def in_words(progress: ReviewProgress) -> str:
    """How many items are reviewed, and how many are left."""
    said = f"Reviewed: {progress.reviewed:,} of {progress.items:,}, {progress.items - progress.reviewed:,} left"
    return f"{said}; {progress.alike:,} more have the same answer of both." if progress.alike else f"{said}."


@dataclass(frozen=True)
class State:
    """The state of a session. `item`: None at the end; `verdict`: the reviewer's so far."""

    item: ReviewItem | None
    place: int
    progress: ReviewProgress
    verdict: str | None


class Desk:
    """A session as one browser sees it."""

    def __init__(self, site: Site, session: ReviewSession) -> None:
        """Takes as long as the store takes to read: in a thread."""
        self.site, self.session = site, session
        self.verdicts = session.keys
        self.state = self._read()
        self._alone, self._is_busy, self._shown, self._began = Lock(), False, 0, 0.0

    def _read(self) -> State:
        session = self.session
        item = session.current
        return State(item, session.place, session.progress, session.verdict(item) if item else None)

    def draw(self) -> None:
        session = self.session
        with ui.element("div").classes("desk") as self.root:
            parts.hint(f"{session.run.name}, run {session.run.run_id}. Reviewer: {session.reviewer}.")
            self.bar = ui.element("progress").props('aria-label="Reviewed"')
            self.status = ui.label().props('role="status"').mark("status")
            self.trouble = ui.element("div")
            self.place = parts.stack(0.75)
            with ui.element("div").classes("keys").props('role="group" aria-label="Keys"'):
                self.buttons = {key: self._button(key, said) for key, said in (self.verdicts | _OTHERS).items()}
        # Keys also work while a button has the focus, as it has after a click on it.
        keyboard = ui.keyboard(repeating=False, ignore=["input", "select", "textarea"]).mark("keyboard")
        keyboard.on("key", self._pressed, js_handler=_PRESSED)
        ui.run_javascript(f"localStorage.setItem('vitalfew-reviewer', {json.dumps(session.reviewer)})")
        self._show("")

    def _button(self, key: str, said: str) -> ui.button:
        is_verdict = key in self.verdicts
        button = ui.button(color="primary" if is_verdict else None).mark(f"key {key}")
        button.props(f'no-caps aria-keyshortcuts="{key}"').props("" if is_verdict else "outline")
        with button:
            parts.Words(key, "kbd")
            parts.Words(said)
        return button.on("click", self._pressed, js_handler=_CLICKED.replace("KEY", json.dumps(key)))

    async def _pressed(self, event: GenericEventArguments) -> None:
        key, shown = str(event.args.get("key")).lower(), event.args.get("shown")
        if self._is_busy or shown != str(self._shown) or key not in self.buttons:
            return
        self._is_busy = True
        self.trouble.clear()
        try:
            await self._do(key)
        except Exception as error:
            with self.trouble:
                parts.problem(parts.told(error))
        finally:
            self._is_busy = False

    async def _do(self, key: str) -> None:
        state = self.state
        if key in (_CONTEXTS, _GOLD) and state.item:
            await (self._toggle_contexts(state.item) if key == _CONTEXTS else self._show_gold(state.item))
        elif key in (_CONTEXTS, _GOLD) or (state.item is None and key != BACK):
            return
        else:
            seconds = time.monotonic() - self._began
            said, self.state = await parts.reading(lambda: self._press(key, state, seconds))
            ui.run_javascript("document.querySelector('.desk').scrollIntoView()")
            self._show(said or ("Skipped." if key == SKIP else f"Kept: {self.verdicts[key]}." if key != BACK else ""))

    def _press(self, key: str, state: State, seconds: float) -> tuple[str, State]:
        """Press a key of the session, if what it has come to is what the reviewer saw: a press whose page had given it
        up as too slow may have been done meanwhile."""
        with self._alone:
            if self.session.current is not state.item:
                return "Your earlier key press was slow, but it counts.", self._read()
            said = self.session.press(key, seconds)
            return said, self._read()

    def _show(self, said: str) -> None:
        """Draw what the session has come to."""
        state, progress = self.state, self.state.progress
        self._shown += 1
        self._began = time.monotonic()
        self.root.props["data-shown"] = str(self._shown)
        self.bar.props(f"max={progress.items} value={progress.reviewed}")
        where = f"Question {state.place:,} of {progress.items:,}." if state.item else "That was the last one."
        self.status.text = f"{said} {where} {in_words(progress)}".strip()
        self.contexts: list[ui.element] = []
        self._is_open = False
        for key, button in self.buttons.items():
            button.set_enabled(key == BACK or state.item is not None)
        self.buttons[_CONTEXTS].props("aria-expanded=false")
        with parts.anew(self.place):
            self._draw(state.item, state.verdict) if state.item else self._end()

    def _draw(self, item: ReviewItem, verdict: str | None) -> None:
        with ui.element("div").classes("question").props('role="heading" aria-level="2"'):
            parts.long_text(item.question)
        if verdict is not None:
            ui.label(f"Your verdict so far: {verdict}. Another key changes it.").classes("hint")
        self.gold = ui.element("div")
        with ui.element("div").classes("answers"):
            for number, answer in enumerate(item.answers, 1):
                with ui.element("section").classes("answer"):
                    parts.Words("Answer" if len(item.answers) == 1 else f"Answer {number}", "h3")
                    parts.long_text(answer.text.strip())
                    self.contexts.append(ui.element("div"))

    def _end(self) -> None:
        left = self.state.progress.items - self.state.progress.reviewed
        skipped = f" {left:,} are skipped; open this page again to see them." if left else ""
        parts.hint(f"All are reviewed, or skipped.{skipped}" if left else "All are reviewed.")
        labels(self.site, self.session.run.run_id)

    async def _show_gold(self, item: ReviewItem) -> None:
        with parts.anew(self.gold):
            parts.Words("Gold answers: " if item.gold else "This question has no gold answer.")
            parts.long_text(" | ".join(item.gold)) if item.gold else None

    async def _toggle_contexts(self, item: ReviewItem) -> None:
        self._is_open = not self._is_open
        self.buttons[_CONTEXTS].props(f"aria-expanded={'true' if self._is_open else 'false'}")
        for place in self.contexts:
            place.clear()
        if not self._is_open:
            return
        session = self.session
        read = await parts.reading(lambda: (session.contexts(item), session.passages(item)))
        for place, texts, passages in zip(self.contexts, *read, strict=True):
            with place:
                _draw_contexts(texts, passages)


def _draw_contexts(texts: Sequence[str], passages: Sequence[Sequence[KeptPassage]]) -> None:
    """The contexts of an answer: passages with their kept words marked, or the text where a model wrote it."""
    parts.Words(f"Contexts: {len(texts):,}" if texts else "It was written without contexts.", "h3")
    with ui.element("ol"):
        for text, sources in zip(texts, passages, strict=True):
            with ui.element("li"):
                if not sources or any(len(source.text) > parts.LONG for source in sources):
                    parts.long_text(text.strip())
                    continue
                for source in sources:
                    parts.Words(source.title).classes("hint text")
                    parts.marked(source.text, source.kept)


_LARGEST = 20_000_000
"""Bytes of a file of reviews."""
_HEADS = {
    "right": "right (share)",
    "difference": "difference (of shares)",
    "n": "n (answers)",
    "halved by": "halved by (labels)",
}


def labels(site: Site, run: str) -> None:
    """Draw what the labels of a run say, the way to its other figures, and its reviews as CSV, out and in."""
    parts.heading("What the labels say so far")
    again = parts.later(lambda: site.store.labels(run), _draw, "Reading labels")
    with ui.element("div").classes("row"):
        parts.link("All figures of this evaluation", f"{ROOT}/results?run={quote(run, safe='')}")
        parts.link("The whole report", report_path(run))
    parts.heading("Reviews as CSV")
    parts.downloads("reviews", lambda: site.store.reviews(run))
    _importing(site, again)


def _importing(site: Site, again: Callable[[], Awaitable[None]]) -> None:
    async def imported(event: UploadEventArguments) -> None:
        upload.reset()
        said.clear()
        with TemporaryDirectory() as folder:
            path = Path(folder, "reviews.csv")
            await event.file.save(path)
            try:
                kept = await parts.reading(lambda: site.store.import_reviews(path))
            except Exception as error:
                with said:
                    parts.problem(parts.told(error).replace(str(path), event.file.name))
                return
        with said:
            ui.label(f"New reviews: {kept.new:,}; there already: {kept.known:,}").props('role="status"')
        await again()

    upload = ui.upload(label="Import reviews (CSV)", auto_upload=True, max_file_size=_LARGEST, on_upload=imported)
    upload.props('accept=".csv" flat bordered').mark("upload")
    said = ui.element("div")


def _draw(found: Labelled | None) -> None:
    if found is None:
        parts.hint("No judge and no person has reviewed these answers yet.")
        return
    tables = [("Right answers, by judge and people", shown.HEADS, shown.shares(found))]
    minus = f"Minus {shown.compared_with(found)}, on the same questions"
    tables += [(minus, shown.DIFFERENCE_HEADS, shown.differences(found))]
    for title, heads, rows in tables:
        if rows:
            parts.Words(title, "h3").style("font-size: 1rem; line-height: 1.4; font-weight: 600; margin: 0")
            columns = [parts.Shown(head, _HEADS.get(head, head), number=head != "method") for head in heads]
            frame = pl.DataFrame(rows, schema=[*heads], orient="row")
            parts.frame_table(title, columns, frame, is_sortable=False)
    for sentence in shown.sentences(found):
        ui.label(sentence).classes("about text")
