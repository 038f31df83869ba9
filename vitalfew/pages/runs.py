"""Follow a run on the page Corpora and indexes: its state, progress, log and verdict; cancel it, start it again."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from nicegui import ui

from vitalfew.flows.re_encode import UNCHANGED
from vitalfew.flows.server.deployed import LINES, NEVER_BEGAN, FlowRunNow, Followed, NoFlowRun
from vitalfew.flows.server.guard import PAGES as ROOT
from vitalfew.library.generation import IndexGeneration
from vitalfew.pages import parts, verdict
from vitalfew.pages.addresses import CORPORA, index, results
from vitalfew.pages.parts import confirmed, utc
from vitalfew.pages.site import Site
from vitalfew.storage.runs import IndexNotFound

EVERY = 2.0
"""Seconds between two looks at a run."""
LAST = 4
"""Looks at a run that has ended: the last lines of its log come later than its state."""
KEPT = "Finished work is kept: start the same run again, and it continues where this one ended."


def run_address(run: str) -> str:
    return f"{CORPORA}?run={run}"


def in_words(run: FlowRunNow) -> str:
    """The state of a run in a sentence."""
    match run.kind, run.state:
        case "scheduled", "AwaitingRetry":
            return f"It failed, and starts again at {utc(run.due)} UTC."
        case "scheduled", _ if run.due and run.due > datetime.now(UTC):
            return f"It waits until {utc(run.due)} UTC."
        case (("scheduled" | "pending"), _):
            return "It waits for its turn. Two runs work at a time, and a new one takes some seconds to begin."
        case "running", _:
            return f"It has worked since {utc(run.began)} UTC."
        case "paused", _:
            return "It waits for a person's decision on the new generation."
        case "cancelling", _:
            return "It is being cancelled."
        case "cancelled", _:
            return "It was cancelled before it began." if run.message == NEVER_BEGAN else f"It was cancelled. {KEPT}"
        case "completed", "Completed":
            return f"It finished at {utc(run.ended)} UTC."
        case "completed", state:
            return f"It ended at {utc(run.ended)} UTC, with the result: {state.lower()}."
        case "crashed", _:
            return f"Its process died. {KEPT}"
    return f"It failed. {KEPT}"


class Following:
    """A run on the page, which is looked at until it has ended."""

    def __init__(self, site: Site, run: str) -> None:
        self.site, self.id = site, run
        self.older = 0
        self.left = LAST
        self.shown: dict[ui.element, Any] = {}
        """What the places show."""

    def draw(self) -> None:
        self.head = parts.stack(0.5).props('role="status"')
        self.took = ui.label("").classes("hint")
        self.buttons = ui.element("div").classes("row").style("align-items: baseline")
        self.results = parts.stack(0.5)
        parts.heading("Progress")
        self.stages = parts.stack(0.5)
        parts.heading("Log, the latest line first (times in UTC)")
        with ui.element("div").classes("row"):
            self.older_button = ui.button("Earlier lines", on_click=lambda: self._turn(1))
            self.newer_button = ui.button("Later lines", on_click=lambda: self._turn(-1))
            for button in (self.older_button, self.newer_button):
                button.props("outline dense no-caps")
        self.log = parts.Words("", "pre").classes("text code log").props('tabindex="0" aria-label="Log"')
        with self.head:
            parts.waiting("Asking Prefect")
        self.timer = ui.timer(EVERY, self.look)
        client = ui.context.client
        client.on_disconnect(self.timer.deactivate)
        client.on_connect(self.timer.activate)

    async def look(self) -> None:
        """Read the run, and show what has changed."""
        try:
            found = await parts.reading(partial(self.site.deployed.follow, self.id, self.older))
        except Exception as error:
            self.shown.clear()
            with parts.anew(self.head):
                parts.problem(parts.told(error))
                if isinstance(error, NoFlowRun):
                    self.timer.deactivate()
                    self.left = 0
                else:
                    parts.hint("This page refreshes every few seconds.")
            return
        self._show(found)
        if found.run.is_final:
            self.left -= 1
            if self.left <= 0:
                self.timer.interval = 86_400.0
                self.timer.deactivate()

    def _show(self, found: Followed) -> None:
        lines = [f"{line.at.astimezone(UTC):%H:%M:%S} {_level(line.level)}{line.text}" for line in found.log]
        text = "\n".join(reversed(lines)) or "There are no lines yet."
        if self.log.text != text:
            self.log.text = text
        self.older_button.set_visibility(len(found.log) == LINES)
        self.newer_button.set_visibility(self.older > 0)
        self._show_head(found)
        if self._is_new(self.stages, found.stages):
            self._show_stages(found)
        if self._is_new(self.buttons, found.run):
            self._show_buttons(found.run)
        if self._is_new(self.results, (found.run, found.reports)):
            self._show_results(found)

    def _is_new(self, place: ui.element, now: Any) -> bool:
        """Whether a place is to show something else than it does."""
        is_new = place not in self.shown or self.shown[place] != now
        self.shown[place] = now
        return is_new

    def _show_head(self, found: Followed) -> None:
        run = found.run
        if run.began and run.message != NEVER_BEGAN:
            seconds = ((run.ended or datetime.now(UTC)) - run.began).total_seconds()
            took = "1 second" if round(seconds) == 1 else f"{seconds:,.0f} seconds"
            self.took.text = f"It took {took}." if run.ended else f"{took} so far."
        said = [f"{run.flow} {run.about or run.name}", in_words(run)]
        said += [run.message] if run.message and run.kind in ("failed", "crashed", "completed") else []
        if self._is_new(self.head, said):
            with parts.anew(self.head):
                title, state, *message = said
                began = f", {utc(run.began or run.due)}" if run.began or run.due else ""
                parts.retitle(f"{title}{began}")
                parts.Words(state, "div").classes(parts.tone(run.state) or parts.tone(run.kind))
                for each in message:
                    parts.Words(each, "div").classes("problem" if run.kind in ("failed", "crashed") else "text")

    def _show_buttons(self, run: FlowRunNow) -> None:
        with parts.anew(self.buttons):
            if not run.is_final and run.kind != "cancelling":
                ui.button("Cancel…", on_click=lambda: self._cancel(run)).props("outline no-caps")
            if run.kind == "paused":
                ui.button("Promote…", on_click=lambda: self._decide(run, True)).props("outline no-caps")
                ui.button("Decline…", on_click=lambda: self._decide(run, False)).props("outline no-caps")
            if run.kind in ("failed", "crashed", "cancelled") and run.flow:
                ui.button("Start it again", on_click=lambda: self._again(run)).props("outline no-caps")
            parts.link("The same run in Prefect's pages", f"/runs/flow-run/{run.id}")

    def _show_stages(self, found: Followed) -> None:
        """One bar for all stages that have begun, and a line for each."""
        with parts.anew(self.stages):
            if not found.stages:
                parts.hint("No stage has begun. None will, if nothing has changed.")
                return
            done = sum(stage.percent >= 100 for stage in found.stages)
            share = sum(stage.percent for stage in found.stages) / len(found.stages)
            said = f"{done} of the {len(found.stages)} stages that have begun are done"
            ui.element("progress").props(f"max=100 value={share:.1f}").props["aria-label"] = said
            parts.hint(f"{said}:")
            for stage in found.stages:
                parts.Words(stage.line, "div").classes("text")
            names = [stage.line.partition(":")[0] for stage in found.stages]
            if found.run.flow == "evaluate" and len({*names}) < len(names):
                parts.hint(
                    "A stage that is listed twice ran for both halves of the questions. Settings are chosen on the "
                    "development half; the figures are from the test half."
                )

    def _show_results(self, found: Followed) -> None:
        run = found.run
        with parts.anew(self.results):
            for report in found.reports:
                parts.link(f"Results of the evaluation {report}", results(run=report))
            if run.kind in ("completed", "paused") and run.flow in ("index-corpus", "re-encode") and run.about:
                parts.link(f"The index {run.about}", index(run.about))
                if run.message == UNCHANGED:
                    parts.hint("Nothing has changed, so nothing got worse.")
                elif run.flow == "re-encode":
                    parts.later(lambda: self._newest(run.about), self._show_newest)

    def _newest(self, name: str) -> IndexGeneration | None:
        """The newest generation of an index; None where there is no index."""
        try:
            return verdict.read(self.site, name)
        except IndexNotFound:
            return None

    @staticmethod
    def _show_newest(found: IndexGeneration | None) -> None:
        if found:
            verdict.summary(found)
            parts.link("What changed, and who decided", index(found.record.name, generation=found.record.number))

    async def _turn(self, pages: int) -> None:
        self.older = max(0, self.older + pages)
        await self.look()

    def _cancel(self, run: FlowRunNow) -> None:
        what = "It never begins." if run.is_waiting else f"Its workers end. {KEPT}"
        cancel = partial(self.site.deployed.cancel, self.id)
        confirmed(f"Cancel {run.flow} {run.about}?", what, "Cancel the run", lambda _: self._do(cancel))

    def _decide(self, run: FlowRunNow, is_approved: bool) -> None:
        what = "Searches find the new generation." if is_approved else "Searches keep using the current generation."
        button = "Promote it" if is_approved else "Decline it"
        decide = partial(self.site.deployed.decide, self.id, is_approved)
        confirmed(f"{button}?", what, button, lambda note: self._do(lambda: decide(note)), with_note=True)

    async def _again(self, run: FlowRunNow) -> None:
        given = run.parameters.get("parameters") or {}
        if new := await parts.asked(lambda: self.site.deployed.start(run.flow, given)):
            ui.navigate.to(run_address(new).removeprefix(ROOT))

    async def _do(self, act: Callable[[], None]) -> None:
        await parts.asked(act)
        await self.look()


def _level(level: int) -> str:
    return "ERROR " if level >= 40 else "WARNING " if level >= 30 else ""
