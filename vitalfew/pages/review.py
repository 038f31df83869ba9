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
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments, UploadEventArguments

from vitalfew.flows.server.reports import report_path
from vitalfew.pages import parts
from vitalfew.pages.addresses import go, link, results
from vitalfew.pages.site import Site
from vitalfew.tasks.reports.answers import KeptPassage
from vitalfew.tasks.reports.contents import Labelled
from vitalfew.tasks.reports.reviewing import BACK, SKIP, ReviewItem, ReviewProgress, ReviewSession
from vitalfew.tasks.reports.shown.grids import verdicts
from vitalfew.tasks.reports.shown.labels import sentences

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


def draw(site: Site) -> None:
    asked = ui.context.client.request.query_params
    run, reviewer = asked.get("run", ""), asked.get("reviewer", "").strip()
    wanted = Wanted(run, reviewer, asked.get("one", "") == "1", [name for name in asked.getlist("method") if name])
    if run and asked.get("labels"):
        parts.link("Review answers", link("/review", run=run))
        labels(site, run)
    elif run and reviewer:
        so_far = "The labels so far, with the methods' names"
        parts.links(("Another run or name", link("/review")), (so_far, link("/review", run=run, labels=1)))
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
    methods: list[str]

    def session(self, site: Site) -> ReviewSession:
        return site.store.review(self.run, reviewer=self.reviewer, methods=self.methods, one=self.one)


def _runs(site: Site) -> list[dict[str, Any]]:
    try:
        return site.store.sql(_RUNS).to_dicts()
    except FileNotFoundError:  # no store yet
        return []


class Start:
    """Asks what to review, and opens the address of that session."""

    def __init__(self, site: Site, runs: Sequence[Mapping[str, Any]], wanted: Wanted) -> None:
        self.site, self.runs, self.wanted = site, runs, wanted
        known = (row["run_id"] for row in runs if wanted.run in (row["run_id"], row["name"]))
        wanted.run = next(known, runs[0]["run_id"])

    def draw(self) -> None:
        wanted = self.wanted
        kinds = {"": "Two answers at a time: which is better?", "1": "One answer at a time: is it right?"}
        with parts.stack().style("max-width: 40rem"):
            shown = {row["run_id"]: _said(row) for row in self.runs}
            parts.Choice("Evaluation, newest first", shown, wanted.run, self._choose_run)
            name = parts.field("Your name, which is kept with your verdicts", "text", "", self._named, "change")
            name.mark("reviewer").props('maxlength="100" autocomplete="name"')
            name.on("vnode-mounted", lambda event: self._named(str(event.args or "")), js_handler=_NAME)
            name.on("keyup.enter", self._begin)
            parts.Words("What to review")
            ui.radio(kinds, value="1" if wanted.one else "", on_change=lambda event: self._choose_kind(event.value))
            with ui.element("details").props("open" if wanted.methods else ""):
                parts.Words("Choose methods", "summary")
                parts.hint(_METHODS)
                self.methods = parts.stack(0.25)
            self._draw_methods()
            parts.hint(_ORDER)
            self.count = parts.later(self._progress, _draw_progress, "Counting what is left")
            parts.button("Begin or continue", self._begin, "").style("min-height: 3rem")

    async def _named(self, name: str) -> None:
        self.wanted.reviewer = name.strip()
        await self.count()

    async def _choose_kind(self, kind: str) -> None:
        self.wanted.one = kind == "1"
        await self.count()

    async def _choose_run(self, run: str) -> None:
        self.wanted.run, self.wanted.methods = run, []
        self._draw_methods()
        await self.count()

    def _draw_methods(self) -> None:
        async def ticked(_: Any) -> None:
            self.wanted.methods = [box.text for box in boxes if box.value]
            await self.count()

        names = next(row["methods"] for row in self.runs if row["run_id"] == self.wanted.run)
        with parts.anew(self.methods):
            boxes = [ui.checkbox(name, value=name in self.wanted.methods, on_change=ticked) for name in names]

    def _progress(self) -> ReviewProgress | None:
        return self.wanted.session(self.site).progress if self.wanted.reviewer else None

    def _begin(self) -> None:
        wanted = self.wanted
        if wanted.reviewer:
            one = "1" if wanted.one else ""
            go("/review", run=wanted.run, reviewer=wanted.reviewer, one=one, method=wanted.methods)
        else:
            parts.refuse("Give your name first.")


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
    said = f"Reviewed: {progress.reviewed:,} of {progress.items:,}, {progress.items - progress.reviewed:,} left"
    return f"{said}; {progress.alike:,} more have the same answer of both." if progress.alike else f"{said}."


class Desk:
    """A session as one browser sees it. `item`: what it shows; None at the end."""

    item: ReviewItem | None

    def __init__(self, site: Site, session: ReviewSession) -> None:
        self.site, self.session = site, session
        self.verdicts = session.keys
        self._alone, self._is_busy, self._shown, self._began = Lock(), False, 0, 0.0

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
        item = self.item
        if key in (_CONTEXTS, _GOLD) and item:
            await (self._toggle_contexts(item) if key == _CONTEXTS else self._show_gold(item))
        elif key in (_CONTEXTS, _GOLD) or (item is None and key != BACK):
            return
        else:
            seconds = time.monotonic() - self._began
            said = await parts.reading(lambda: self._press(key, item, seconds))
            ui.run_javascript("document.querySelector('.desk').scrollIntoView()")
            self._show(said or ("Skipped." if key == SKIP else f"Kept: {self.verdicts[key]}." if key != BACK else ""))

    def _press(self, key: str, item: ReviewItem | None, seconds: float) -> str:
        """Press a key of the session, if what it has come to is what the reviewer saw: a press whose page had given it
        up as too slow may have been done meanwhile."""
        with self._alone:
            if self.session.current is not item:
                return "Your earlier key press was slow, but it counts."
            return self.session.press(key, seconds)

    def _show(self, said: str) -> None:
        """Draw what the session has come to."""
        self.item = item = self.session.current
        progress = self.session.progress
        self._shown += 1
        self._began = time.monotonic()
        self.root.props["data-shown"] = str(self._shown)
        self.bar.props(f"max={progress.items} value={progress.reviewed}")
        where = f"Question {self.session.place:,} of {progress.items:,}." if item else "That was the last one."
        self.status.text = f"{said} {where} {in_words(progress)}".strip()
        self.contexts: list[ui.element] = []
        self._is_open = False
        for key, button in self.buttons.items():
            button.set_enabled(key == BACK or item is not None)
        self.buttons[_CONTEXTS].props("aria-expanded=false")
        with parts.anew(self.place):
            self._draw(item) if item else self._end(progress)

    def _draw(self, item: ReviewItem) -> None:
        with ui.element("div").classes("question").props('role="heading" aria-level="2"'):
            parts.long_text(item.question)
        if (verdict := self.session.verdict(item)) is not None:
            parts.hint(f"Your verdict so far: {verdict}. Another key changes it.")
        self.gold = ui.element("div")
        with ui.element("div").classes("answers"):
            for number, answer in enumerate(item.answers, 1):
                with ui.element("section").classes("answer"):
                    parts.Words("Answer" if len(item.answers) == 1 else f"Answer {number}", "h3")
                    parts.long_text(answer.text.strip())
                    self.contexts.append(ui.element("div"))

    def _end(self, progress: ReviewProgress) -> None:
        left = progress.items - progress.reviewed
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
                    parts.passage(source.title, source.text, source.kept)


_LARGEST = 20_000_000
"""Bytes of a file of reviews."""


def labels(site: Site, run: str) -> None:
    """Draw what the labels of a run say, the way to its other figures, and its reviews as CSV, out and in."""
    parts.heading("What the labels say so far")
    again = parts.later(lambda: site.store.labels(run), _draw, "Reading labels")
    parts.links(("All figures of this evaluation", results(run=run)), ("The whole report", report_path(run)))
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
    for each in verdicts(found):
        parts.grid(f"{each.heads[2].capitalize()}, by judge and people", each)
    for sentence in sentences(found):
        ui.label(sentence).classes("about text")
