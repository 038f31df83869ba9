"""A generation of an index on the page Corpora and indexes: what its gate found, what changed in the corpus, which
questions got worse, and who decided; a person promotes or declines it here."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, Any

import polars as pl
from nicegui import ui

from vitalfew.library.generation import IndexGeneration
from vitalfew.pages import parts, publishing
from vitalfew.pages.addresses import corpora, results
from vitalfew.pages.parts import Shown, cut, figure, numbers, states, texts, utc
from vitalfew.pages.site import Site
from vitalfew.storage import generations
from vitalfew.storage.freshness import moment
from vitalfew.storage.generations import GateFigure

if TYPE_CHECKING:
    from vitalfew.tasks.reports.corpora import CorpusChanges
    from vitalfew.tasks.reports.gating import LostQuestion

_ANSWERS = {
    "promoted": "It did not get worse.",
    "rejected": "It got worse.",
    "in doubt": "There are too few questions to say whether it got worse.",
    "held": "A person must decide.",
    "declined": "A person declined it.",
}


def summary(found: IndexGeneration) -> None:
    """The verdict of a generation's gate in words, and every difference with its interval, drawn."""
    gate, verdict = found.record.gate, found.record.verdict
    if gate is None:
        parts.hint(
            f"No gate has judged generation {found.record.number}. A gate compares a new generation with the one "
            "before it. The form Re-encode shows the gate of a corpus, and can add one."
        )
        return
    with ui.element("div"):
        parts.Words(verdict).classes(parts.tone(verdict))
        by_hand = next((each for each in reversed(found.decisions) if each.is_personal), None)
        answer = _ANSWERS.get(verdict, "")
        if by_hand and by_hand.decision == "promoted":
            answer = f"{by_hand.decider} promoted it, whatever the gate said."
        parts.Words(f", compared with generation {gate.against}. {answer}")
    parts.Words(gate.said.partition(" Searches still use ")[0], "div").classes("text")  # which was so at that time
    for each in gate.figures:
        with ui.element("div").style("max-width: 36rem; width: 100%"):
            parts.Words(_sentence(each), "div").classes("text")
            if each.low is not None or each.high is not None:
                ui.html(_drawn(each), sanitize=False)


def _sentence(each: GateFigure) -> str:
    ends = " to ".join("unknown" if end is None else f"{end:+.3f}" for end in (each.low, each.high))
    means = (each.current, each.candidate, each.difference)
    if None in means:
        return f"{each.metric} of {each.method}: no question has a value."
    before, now, difference = means
    return (
        f"{each.metric} of {each.method}: {before:.3f} before, {now:.3f} now; difference {difference:+.3f}, 95 % "
        f"interval {ends}, accepted loss {each.margin:g}, on {each.questions:,} questions: {each.verdict}."
    )


_WIDTH, _EDGE = 360, 44
"""Of the drawing, in its own units, and what is left free at its sides."""


def _drawn(each: GateFigure) -> str:
    """The interval of a difference beside zero and the accepted loss, as SVG, in which a store's texts are escaped."""
    loss = each.margin if each.direction == "lower" else -each.margin
    known = [end for end in (each.low, each.difference, each.high) if end is not None]
    least, most = min([0.0, loss, *known]), max([0.0, loss, *known])
    scale = (_WIDTH - 2 * _EDGE) / (most - least or 1.0)

    def x(value: float) -> str:
        return f"{_EDGE + (value - least) * scale:.1f}"

    def line(value: float, name: str, side: str, dash: str) -> str:
        at = x(value)
        return (
            f'<line x1="{at}" x2="{at}" y1="16" y2="52" stroke="currentColor" stroke-dasharray="{dash}"/>'
            f'<text x="{at}" y="11" text-anchor="{side}">{name}</text>'
        )

    ends = [end for end in (each.low, each.high) if end is not None]
    ends = ends if len(ends) == 2 else [*ends, least if each.low is None else most]
    sides = ("end", "start") if loss < 0 else ("start", "end")
    labels = "".join(f'<text x="{x(end)}" y="64" text-anchor="middle">{end:+.3f}</text>' for end in sorted(ends))
    return (
        f'<svg viewBox="0 0 {_WIDTH} 68" width="100%" role="img" font-size="10" fill="currentColor" '
        f'aria-label="{escape(_sentence(each))}">{line(loss, f"loss {each.margin:g}", sides[0], "3 3")}'
        f'{line(0.0, "no change", sides[1], "")}<g class="{parts.tone(each.verdict)}" fill="currentColor">'
        f'<line x1="{x(ends[0])}" x2="{x(ends[1])}" y1="34" y2="34" stroke="currentColor" stroke-width="4"/>'
        f'<circle cx="{x(each.difference or 0.0)}" cy="34" r="6"/></g>{labels}</svg>'
    )


class GenerationPage:
    def __init__(self, site: Site, name: str, number: str) -> None:
        self.site, self.name = site, name
        self.number = int(number) if number.isdecimal() else 0

    def draw(self) -> None:
        self.said = parts.stack().props('role="status"')
        site, name = self.site, self.name
        self.load = parts.later(
            lambda: (site.store.generation(name, self.number), publishing.known(site, name)), self._show
        )

    def _show(self, read: tuple[IndexGeneration, str]) -> None:
        found, published = read
        record = found.record
        self._head(found)
        if found.is_current and published:
            parts.Words(published, "div").classes("text")
        self._buttons(found, publishing.AFTER if published else "")
        parts.heading("Did it get worse?")
        summary(found)
        if record.gate and record.gate.run_id:
            parts.link("The evaluation that asked both generations", results(run=record.gate.run_id))
        parts.section("What changed in the corpus", lambda: found.changes, _changes, "Comparing the corpora")
        if record.gate and record.gate.figures:
            parts.heading("Questions that got worse")
            if vanished := max(each.vanished for each in record.gate.figures):
                parts.Words(f"{vanished:,} further questions lost their gold passages, and count as lost:", "div")
                for each in record.gate.figures:
                    if each.current_counted is not None and each.candidate_counted is not None:
                        means = f"{each.current_counted:.3f} before, {each.candidate_counted:.3f} now"
                        parts.Words(f"{each.metric} of {each.method}: {means}.", "div").classes("text")
            parts.later(lambda: found.worsened, _worsened, "Comparing the answers")
        parts.heading("Who decided")
        _decisions(found)

    def _head(self, found: IndexGeneration) -> None:
        record, last = found.record, found.decisions[-1] if found.decisions else None
        with ui.element("div"):
            if found.is_current:
                parts.Words("Current").classes("good")
                parts.Words(": searches find it. ")
            else:
                parts.Words(f"Searches find generation {found.current}, not this one. ")
            if last:
                parts.Words(f"{last.decision.capitalize()}").classes(parts.tone(last.decision))
                parts.Words(f" by {last.decider}, {utc(moment(last.time))} UTC. ").classes("text")
        parts.hint(f"Made {utc(moment(record.made))} UTC from {', '.join(record.config.get('datasets', []))}.")

    def _buttons(self, found: IndexGeneration, after: str) -> None:
        """`after`: what a promotion does further."""
        if found.is_current:
            return
        approval = found.record.gate.approval if found.record.gate else None
        if approval and approval.asked_by and not approval.decision:
            parts.hint(
                "A run waits for this decision. Decide here, or on the run's page. Without a decision the run ends "
                "at its deadline and changes nothing."
            )
            parts.link("The page of the run that asks…", corpora(run=approval.asked_by), "action")
        name, number = self.name, self.number
        with parts.row():
            self._button(
                "Promote",
                f"Searches, evaluations and servers that name {name} find generation {number} instead of "
                f"{found.current}. Nothing is encoded. Roll back, on the page of the index, undoes it.{after}",
                generations.promote,
                self._promoted,
            )
            if found.record.verdict != "declined":
                self._button(
                    "Decline",
                    f"Searches keep using generation {found.current}. No gate will promote this generation or an "
                    "identical build. You can still promote it by hand.",
                    generations.decline,
                    lambda _: self.load(),
                )

    def _button(self, verb: str, what: str, act: Callable[..., Any], after: Callable[[Any], Awaitable[None]]) -> None:
        name, number = self.name, self.number
        parts.deciding(
            verb, f"{verb} generation {number} of {name}?", what, f"{verb} generation {number}",
            lambda note: act(self.site.place, name, number, note=note, by="page"), after, self.said,
        )  # fmt: skip

    async def _promoted(self, promoted: generations.Generation | None) -> None:
        await self.load()
        if promoted:
            await publishing.publish(self.site, self.name, self.said)
            await self.load()


def _changes(found: "CorpusChanges | None") -> None:
    if found is None:
        parts.hint("It is the first generation.")
        return
    rows = found.documents.filter((pl.col("before") != pl.col("kept")) | (pl.col("after") != pl.col("kept")))
    changes = [_change(*counts) for counts in rows.select("before", "after", "kept").iter_rows()]
    rows = rows.with_columns(pl.Series("change", changes, pl.String))
    counted = dict(rows["change"].value_counts().iter_rows())
    documents = [found.documents.filter(pl.col(each) > 0).height for each in ("before", "after")]
    said = ", ".join(
        f"{counted[word]:,} {word}" for word in ("added", "changed", "moved", "removed") if word in counted
    )
    for name, (old, new), more in (
        ("Documents", documents, said),
        ("Passages", found.passages, ""),
        ("Rejected rows", found.rejects, ""),
    ):
        parts.Words(f"{name}: {old:,} → {new:,} ({new - old:+,}){f': {more}' if more else ''}", "div")
    columns = (
        Shown("document", "file or document"),
        *states(change="change"),
        *numbers(figure(), before="passages before", after="passages now", kept="with the same text"),
    )
    parts.table("Documents that changed", columns, rows, nothing="No document changed.")


def _change(before: int, after: int, kept: int) -> str:
    """What happened to a document, by its passages."""
    if before == 0:
        return "added"
    if after > 0:
        return "changed"
    return "moved" if kept > 0 else "removed"


def _worsened(found: "tuple[LostQuestion, ...]") -> None:
    columns = (
        Shown("question", "question", cut),
        *numbers(figure(2), before="before", after="now"),
        *texts(metric="metric", method="method"),
        Shown("found_before", "found before", lambda texts: cut(" | ".join(texts)), sortable=False),
        Shown("found_now", "found now", lambda texts: cut(" | ".join(texts)), sortable=False),
    )
    rows = [asdict(each) for each in found]
    parts.table("Questions that got worse", columns, rows, nothing="No question got worse.")
    if found:
        parts.hint("A tick marks a passage that has the answer. At most 20 are shown, the worst first.")


def _decisions(found: IndexGeneration) -> None:
    columns = (
        *states(decision="decision"),
        *texts(decider="by"),
        *numbers(utc, time="when (UTC)"),
        Shown("instead_of", "searches found", lambda number: f"generation {number}" if number else "none", number=True),
        Shown("note", "why", cut),
    )
    rows = [asdict(each) | {"decider": each.decider, "time": moment(each.time)} for each in reversed(found.decisions)]
    parts.table("Decisions", columns, rows, nothing="No decision yet.", is_sortable=False)
