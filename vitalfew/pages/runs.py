"""Follow a run on the page Corpora and indexes: its state, progress, log and verdict; cancel it, start it again."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from nicegui import ui

from vitalfew.flows.re_encode import UNCHANGED
from vitalfew.flows.server.deployed import LINES, NEVER_BEGAN, FlowRunNow, Followed, NoFlowRun
from vitalfew.library.generation import IndexGeneration
from vitalfew.pages import generation, parts
from vitalfew.pages.addresses import corpora, go, results
from vitalfew.pages.parts import utc
from vitalfew.pages.site import Site
from vitalfew.storage.runs import IndexNotFound

EVERY = 2.0
"""Seconds between two looks at a run."""
LAST = 4
"""Looks at a run that has ended: the last lines of its log come later than its state."""
KEPT = "Finished work is kept: start the same run again, and it continues where this one ended."


def in_words(run: FlowRunNow) -> str:
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
    """A run on the page, which is looked at until it has ended. `older`: pages of the log before the last one; `left`:
    looks at a run that has ended; `shown`: what a place shows now."""

    def __init__(self, site: Site, run: str) -> None:
        self.site, self.id = site, run
        self.older, self.left = 0, LAST
        self.shown: dict[ui.element, Any] = {}

    def draw(self) -> None:
        self.head = parts.stack(0.5).props('role="status"')
        self.took = ui.label("").classes("hint")
        self.buttons = parts.row().style("align-items: baseline")
        self.results = parts.stack(0.5)
        parts.heading("Progress")
        self.stages = parts.stack(0.5)
        parts.heading("Log, the latest line first (times in UTC)")
        with parts.row():
            self.older_button = parts.button("Earlier lines", lambda: self._turn(1), "outline dense")
            self.newer_button = parts.button("Later lines", lambda: self._turn(-1), "outline dense")
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
                    self._end()
                else:
                    parts.hint("This page refreshes every few seconds.")
            return
        self._show(found)
        if found.run.is_final:
            self.left -= 1
            if self.left <= 0:
                self._end()

    def _end(self) -> None:
        self.timer.interval = 86_400.0  # a browser that connects again activates it
        self.timer.deactivate()

    def _show(self, found: Followed) -> None:
        run = found.run
        self.log.text = "\n".join(reversed(found.log)) or "There are no lines yet."
        self.older_button.set_visibility(len(found.log) == LINES)
        self.newer_button.set_visibility(self.older > 0)
        if run.began and run.message != NEVER_BEGAN:
            seconds = ((run.ended or datetime.now(UTC)) - run.began).total_seconds()
            took = "1 second" if round(seconds) == 1 else f"{seconds:,.0f} seconds"
            self.took.text = f"It took {took}." if run.ended else f"{took} so far."
        self._draw(self.head, (run, in_words(run)), lambda: self._draw_head(run))
        self._draw(self.stages, found.stages, lambda: _draw_stages(found))
        self._draw(self.buttons, run, lambda: self._draw_buttons(run))
        self._draw(self.results, (run, found.reports), lambda: self._draw_results(found))

    def _draw(self, place: ui.element, shows: Any, draw: Callable[[], None]) -> None:
        """Draw a place again if it is to show something else than it does."""
        if place not in self.shown or self.shown[place] != shows:
            self.shown[place] = shows
            with parts.anew(place):
                draw()

    def _draw_head(self, run: FlowRunNow) -> None:
        began = f", {utc(run.began or run.due)}" if run.began or run.due else ""
        parts.retitle(f"{run.flow} {run.about or run.name}{began}")
        parts.Words(in_words(run), "div").classes(parts.tone(run.state) or parts.tone(run.kind))
        if run.message and run.kind in ("failed", "crashed", "completed"):
            parts.Words(run.message, "div").classes("text" if run.kind == "completed" else "problem")

    def _draw_buttons(self, run: FlowRunNow) -> None:
        if not run.is_final and run.kind != "cancelling":
            what = "It never begins." if run.is_waiting else f"Its workers end. {KEPT}"
            parts.deciding(
                "Cancel", f"Cancel {run.flow} {run.about}?", what, "Cancel the run",
                lambda _: self.site.deployed.cancel(self.id), lambda _: self.look(), with_note=False,
            )  # fmt: skip
        if run.kind == "paused":
            then = "The run goes on within seconds: it promotes, and runs on_promote if its corpus has one."
            self._decision("Promote", True, f"Searches find the new generation. {then}")
            self._decision("Decline", False, "Searches keep using the current generation.")
        if run.kind in ("failed", "crashed", "cancelled") and run.flow:
            parts.button("Start it again", lambda: self._again(run))
        parts.link("The same run in Prefect's pages", f"/runs/flow-run/{run.id}")

    def _decision(self, verb: str, is_approved: bool, what: str) -> None:
        parts.deciding(
            verb, f"{verb} it?", what, f"{verb} it",
            lambda note: self.site.deployed.decide(self.id, is_approved, note), lambda _: self.look(),
        )  # fmt: skip

    def _draw_results(self, found: Followed) -> None:
        run = found.run
        for report in found.reports:
            parts.link(f"Results of the evaluation {report}", results(run=report))
        if run.kind in ("completed", "paused") and run.flow in ("index-corpus", "re-encode") and run.about:
            parts.link(f"The index {run.about}", corpora(index=run.about))
            if run.message == UNCHANGED:
                parts.hint("Nothing has changed, so nothing got worse.")
            elif run.flow == "re-encode":
                parts.later(lambda: self._newest(run.about), _draw_newest)

    def _newest(self, name: str) -> IndexGeneration | None:
        """The newest generation of an index; None where there is no index."""
        try:
            return self.site.store.generation(name)
        except IndexNotFound:
            return None

    async def _turn(self, pages: int) -> None:
        self.older = max(0, self.older + pages)
        await self.look()

    async def _again(self, run: FlowRunNow) -> None:
        given = run.parameters.get("parameters") or {}
        if new := await parts.asked(lambda: self.site.deployed.start(run.flow, given)):
            go("/corpora", run=new)


def _draw_stages(found: Followed) -> None:
    """One bar for all stages that have begun, and a line for each."""
    if not found.stages:
        parts.hint("No stage has begun. None will, if nothing has changed.")
        return
    percents, lines = [percent for percent, _ in found.stages], [line for _, line in found.stages]
    said = f"{sum(percent >= 100 for percent in percents)} of the {len(lines)} stages that have begun are done"
    bar = ui.element("progress").props(f"max=100 value={sum(percents) / len(percents):.1f}")
    bar.props["aria-label"] = said
    parts.hint(f"{said}:")
    for line in lines:
        parts.Words(line, "div").classes("text")
    if found.run.flow == "evaluate" and len({line.partition(":")[0] for line in lines}) < len(lines):
        parts.hint(
            "A stage that is listed twice ran for both halves of the questions. Settings are chosen on the development "
            "half; the figures are from the test half."
        )


def _draw_newest(found: IndexGeneration | None) -> None:
    if found:
        generation.summary(found)
        address = corpora(index=found.record.name, generation=found.record.number)
        parts.link("What changed, and who decided", address)
