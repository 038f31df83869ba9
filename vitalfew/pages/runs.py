"""Follow a run on the page Corpora and indexes: its state, progress, log and verdict; cancel it, start it again."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import polars as pl
from nicegui import ui

from vitalfew.flows.re_encode import UNCHANGED
from vitalfew.flows.server.deployed import LINES, NEVER_BEGAN, FlowRunNow, Followed, NoFlowRun
from vitalfew.flows.server.guard import PAGES as ROOT
from vitalfew.pages import parts
from vitalfew.pages.parts import figure, numbers, texts
from vitalfew.pages.site import Site
from vitalfew.storage.runs import IndexNotFound

EVERY = 2.0
"""Seconds between two looks at a run."""
LAST = 4
"""Looks at a run that has ended: the last lines of its log come later than its state."""
CORPORA = f"{ROOT}/corpora"
KEPT = "Finished work is kept: the same run, started again, goes on where this one ended."


def run_address(run: str) -> str:
    return f"{CORPORA}?run={run}"


def utc(moment: datetime | None) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M") if moment else ""


def in_words(run: FlowRunNow) -> str:
    """The state of a run in a sentence."""
    match run.kind, run.state:
        case "scheduled", "AwaitingRetry":
            return f"It failed, and is tried again at {utc(run.due)} UTC."
        case "scheduled", _ if run.due and run.due > datetime.now(UTC):
            return f"It waits until {utc(run.due)} UTC."
        case (("scheduled" | "pending"), _):
            return "It waits for its turn: two runs work at a time, and a new one takes seconds to begin."
        case "running", _:
            return f"It has worked since {utc(run.began)} UTC."
        case "paused", _:
            return "It waits for a person's decision on the new generation."
        case "cancelling", _:
            return "It is being cancelled."
        case "cancelled", _:
            return "It was cancelled before it began." if run.message == NEVER_BEGAN else f"It was cancelled. {KEPT}"
        case "completed", "Completed":
            return f"It ended well at {utc(run.ended)} UTC."
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
                    parts.hint("This page asks again every few seconds.")
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
                parts.heading(title)
                ui.label(state)
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
            parts.link("All corpora and indexes", CORPORA)

    def _show_stages(self, found: Followed) -> None:
        with parts.anew(self.stages):
            for stage in found.stages:
                parts.Words(stage.line, "label").classes("text")
                ui.element("progress").props(f"max=100 value={stage.percent:.1f}").props["aria-label"] = stage.line
            if not found.stages:
                parts.hint("No stage has begun; where nothing has changed, none does.")
            names = [stage.line.partition(":")[0] for stage in found.stages]
            if found.run.flow == "evaluate" and len({*names}) < len(names):
                parts.hint(
                    "A stage that is listed twice worked for two halves of the questions: first for the development "
                    "half, on which settings are chosen, then for the test half, of which the figures are."
                )

    def _show_results(self, found: Followed) -> None:
        run = found.run
        with parts.anew(self.results):
            for report in found.reports:
                parts.link(f"Results of the evaluation {report}", f"{ROOT}/results?run={report}")
            if run.kind in ("completed", "paused") and run.flow in ("index-corpus", "re-encode") and run.about:
                parts.link(f"The index {run.about}", f"{CORPORA}?index={run.about}")
                if run.message == UNCHANGED:
                    parts.hint("Nothing has changed, so nothing got worse.")
                elif run.flow == "re-encode":
                    parts.later(lambda: self._gates(run.about), lambda found: verdict(*found) if found else None)

    def _gates(self, index: str) -> tuple[pl.DataFrame, Any] | None:
        """The verdicts of gates on an index, and its newest generation; None where there is no index."""
        try:
            return self.site.store.gates(index), self.site.store.history(index)["generation"].max()
        except IndexNotFound:
            return None

    async def _turn(self, pages: int) -> None:
        self.older = max(0, self.older + pages)
        await self.look()

    def _cancel(self, run: FlowRunNow) -> None:
        what = "It never begins." if run.is_waiting else f"Its workers end. {KEPT}"
        cancel = partial(self.site.deployed.cancel, self.id)
        confirmed(f"Cancel {run.flow} {run.about}?", what, "Cancel the run", lambda: self._do(cancel))

    def _decide(self, run: FlowRunNow, is_approved: bool) -> None:
        what = "Searches find the new generation." if is_approved else "Searches go on with the current generation."
        button = "Promote it" if is_approved else "Decline it"
        decide = partial(self.site.deployed.decide, self.id, is_approved)
        confirmed(f"{button}?", what, button, lambda: self._do(decide))

    async def _again(self, run: FlowRunNow) -> None:
        given = run.parameters.get("parameters") or {}
        if new := await parts.asked(lambda: self.site.deployed.start(run.flow, given)):
            ui.navigate.to(run_address(new).removeprefix(ROOT))

    async def _do(self, act: Callable[[], None]) -> None:
        await parts.asked(act)
        await self.look()


def _level(level: int) -> str:
    return "ERROR " if level >= 40 else "WARNING " if level >= 30 else ""


def confirmed(question: str, what: str, button: str, act: Callable[[], Awaitable[None]]) -> None:
    """Ask before something is done. `what`: what it changes."""
    with ui.dialog(value=True) as dialog, ui.card().style("max-width: 36rem"):
        ui.label(question).props('role="heading" aria-level="2"').classes("text").style("font-weight: 600")
        ui.label(what).classes("text")
        with ui.row():

            async def do() -> None:
                dialog.close()
                await act()

            ui.button(button, on_click=do).props("no-caps").mark("confirm")
            ui.button("Leave it as it is", on_click=dialog.close).props("outline no-caps")


_ANSWERS = {
    "promoted": "It did not get worse.",
    "rejected": "It got worse.",
    "in doubt": "Too few questions to say whether it got worse.",
    "held": "Nothing could be compared, or a person is to decide.",
}


def verdict(gates: pl.DataFrame, newest: int) -> None:
    """Say what the gate found about the newest generation of an index, if it has judged that one."""
    rows = gates.filter(pl.col("generation") == newest).to_dicts()
    if not rows:
        parts.hint(
            f"No gate has judged generation {newest}, the newest. A gate compares a new generation with the one before "
            "it; the form of re-encoding says if the corpus has one, and adds one."
        )
        return
    first, compared = rows[0], [row for row in rows if row["metric"] and row["difference"] is not None]
    which = f"Generation {first['generation']} against generation {first['against']}: {first['verdict']}."
    needed = max((row["settled_by"] or 0 for row in rows), default=0)
    settled = f" About {needed:,} questions would settle it." if first["verdict"] == "in doubt" and needed else ""
    said = parts.Words(f"{which} {_ANSWERS.get(first['verdict'], '')}{settled}", "div")
    said.classes("text").style("font-weight: 600")
    for row in compared:
        parts.Words(_sentence(row), "div").classes("text")
    if not compared or first["approval"]:
        parts.Words(first["said"], "div").classes("text")
    if first["left_out"]:
        parts.hint(f"{first['left_out']:,} questions were left out: their passages are not in both corpora.")
    if first["verdict"] != "promoted":
        parts.hint("The gate left searches with the generation before. The page of the index can promote the new one.")


def _sentence(row: Mapping[str, Any]) -> str:
    ends = " to ".join("unknown" if row[end] is None else f"{row[end]:+.3f}" for end in ("low", "high"))
    return (
        f"{row['metric']} of {row['method']}: {row['current']:.3f} before, {row['candidate']:.3f} now; difference "
        f"{row['difference']:+.3f}, 95 % interval {ends}, accepted loss {row['margin']:g}, on {row['questions']:,} "
        f"questions: {row['metric_verdict']}."
    )


def judged(gates: pl.DataFrame, newest: int) -> None:
    """Say what the gate found about the newest generation of an index, above a table of all its figures."""
    verdict(gates, newest)
    if gates.is_empty():
        return
    ends = [pl.col(end).map_elements(lambda value: f"{value:+.3f}", pl.String) for end in ("low", "high")]
    interval = pl.concat_str(ends, separator=" to ").alias("interval")
    columns = (
        *numbers(figure(), generation="generation", against="against generation"),
        *texts(verdict="verdict of the gate", method="method", metric="metric"),
        *numbers(figure(3), current="before", candidate="new"),
        *numbers(lambda value: "" if value is None else f"{value:+.3f}", difference="difference"),
        *texts(interval="95 % interval"),
        *numbers(figure(3), margin="accepted loss"),
        *numbers(figure(), questions="questions"),
        *texts(metric_verdict="verdict on the metric"),
    )
    parts.frame_table("Figures of the gate", columns, gates.with_columns(interval), "generation", True)
