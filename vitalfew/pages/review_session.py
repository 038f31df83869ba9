"""The session of the page Review: a question, one answer or two, and the keys of `vitalfew review`.

A press names the drawing that it answers, as the browser saw it: a second press on the same one is void, and so is one
while the first is under way. Whatever a key does is done by the store's session, in a thread. Names of methods stay on
the server until all is reviewed.
"""

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
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

_CONTEXTS, _GOLD = "c", "g"
_OTHERS = {SKIP: "skip", BACK: "back", _CONTEXTS: "contexts", _GOLD: "gold answers"}
_SHOWN = 'document.querySelector("[data-shown]")?.dataset.shown'
_PRESSED = f"""event => event.action === "keydown" && !event.ctrlKey && !event.altKey && !event.metaKey
  && emit({{key: event.key, shown: {_SHOWN}}})"""
_CLICKED = f"event => event.detail > 1 || emit({{key: KEY, shown: {_SHOWN}}})"
_STYLE = """
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
        ui.add_css(_STYLE)
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
                return "An earlier press was slow, and counts.", self._read()
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
        skipped = f" {left:,} are skipped: open this page again to be asked again." if left else ""
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
        parts.hint("Neither a judge nor a person has said anything of these answers yet.")
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
