"""An index on the page Corpora and indexes: its generations, what a gate said of them, rejects, costs and runs."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import polars as pl
from nicegui import ui

from vitalfew.flows.server.guard import PAGES as ROOT
from vitalfew.library.index import Index
from vitalfew.pages import parts
from vitalfew.pages.parts import Shown, Slice, cut, figure, numbers, texts, usd
from vitalfew.pages.runs import CORPORA, confirmed, judged, utc
from vitalfew.pages.site import Site


def draw(site: Site, name: str, reason: str | None = None) -> None:
    """Draw an index, or the rows that were not used for a reason."""
    if reason is not None:
        _rejected(site, name, reason)
        return
    parts.Words(f"Index {name}", "h2").classes("text")
    with ui.element("div").classes("row").style("align-items: baseline"):
        parts.link("Ask it", f"{ROOT}/?index={quote(name)}", "action")
        parts.link("Start an evaluation on it…", f"{CORPORA}?start=evaluate&index={quote(name)}", "action")
        parts.link("Re-encode its corpus…", f"{CORPORA}?start=re-encode&corpus={quote(name)}", "action")
        parts.link("All corpora and indexes", CORPORA)
    Generations(site, name).draw()


def _others(site: Site, name: str, newest: Any) -> None:
    """Draw what else is known of an index. `newest`: its newest generation."""
    parts.heading("Did it get worse?")
    parts.later(lambda: site.store.gates(name), lambda gates: judged(gates, newest))
    parts.heading("Rows that were not used, by reason")
    parts.later(lambda: site.store.reject_reasons(name), lambda frame: _reasons(name, frame))
    parts.heading("What it took to make it")
    parts.later(lambda: site.store.index_costs(name), _costs)
    parts.heading("Runs that made it")
    parts.later(lambda: _runs_of(site, name), _runs)


class Generations:
    """The generations of an index, with buttons that make its name stand for another one. `now`: the index as its name
    stands; `history`: all its generations; `earlier`: the one that a rollback leads to."""

    now: dict[str, Any] | None
    history: pl.DataFrame
    earlier: int | None

    def __init__(self, site: Site, name: str) -> None:
        self.site, self.name = site, name
        self.chosen = ""

    def draw(self) -> None:
        self.said = parts.stack().props('role="status"')
        self.load = parts.later(self._read, lambda _: self._show())  # all the rest is drawn below, once it is there

    def _read(self) -> None:
        self.history = self.site.store.history(self.name)  # raises IndexNotFound
        rows = self.site.store.describe().filter(pl.col("name") == self.name).to_dicts()
        before = self.site.store.index(self.name).named.before
        there = self.history.filter(~pl.col("removed"))["generation"].to_list()
        self.now = rows[0] if rows else None
        self.earlier = before[-1] if before and before[-1] in there else None

    def _show(self) -> None:
        if now := self.now:
            size = f"{now['passages'] or 0:,} passages, {now['sentences'] or 0:,} sentences"
            size += f", {now['bytes'] / 1e6:,.1f} MB"
            settings = f"encoder {now['encoder']}, context vectors {now['context']}, index type {now['type']}"
            made = f"generation {now['generation']}, made {utc(now['made_at'])} UTC from {', '.join(now['datasets'])}"
            parts.Words(f"{size}; {settings}. Searches find {made}.", "div").classes("text")
        parts.heading("Generations")
        parts.hint(
            "Every finished build is a generation. The name stands for one of them; to let it stand for another "
            "encodes nothing, and servers follow within seconds."
        )
        _generations(self.history)
        self._buttons()
        _others(self.site, self.name, self.history["generation"].max())

    def _buttons(self) -> None:
        rows = self.history.filter(~pl.col("removed") & ~pl.col("current")).sort("generation", descending=True)
        if not len(rows):
            parts.hint("There is no other generation to change to.")
            return
        numbers = (str(number) for number in rows["generation"])
        made = {number: f"{number}, made {utc(at)} UTC" for number, at in zip(numbers, rows["made_at"], strict=True)}
        self.chosen = next(iter(made))
        with ui.element("div").classes("row"):
            parts.choice("Generation", made, self.chosen, lambda value: setattr(self, "chosen", value))
            ui.button("Promote it…", on_click=self._promote).props("outline no-caps")
            if self.earlier:
                ui.button("Roll back…", on_click=self._roll_back).props("outline no-caps")

    def _promote(self) -> None:
        number = int(self.chosen)
        row = self.history.filter(pl.col("generation") == number).to_dicts()[0]
        gate = f" A gate said of it: {row['verdict']}." if row["verdict"] else " No gate has judged it."
        confirmed(
            f"Promote generation {number} of {self.name}?",
            f"Searches, evaluations and servers that name {self.name} find generation {number} instead of "
            f"{self._current()}.{gate} Nothing is encoded, and Roll back takes it back.",
            f"Promote generation {number}",
            lambda: self._do(lambda: self.site.store.promote(self.name, number)),
        )

    def _roll_back(self) -> None:
        confirmed(
            f"Roll back {self.name}?",
            f"Searches, evaluations and servers that name {self.name} find generation {self.earlier}, which was "
            f"current before {self._current()}. Nothing is encoded. It holds until another generation is built or "
            "promoted.",
            "Roll back",
            lambda: self._do(lambda: self.site.store.rollback(self.name)),
        )

    async def _do(self, act: Callable[[], Index]) -> None:
        if index := await parts.asked(act, self.said):
            with parts.anew(self.said):
                now = f"{index.name} stands for generation {index.named.generation} now."
                parts.Words(now, "div").classes("text")
        await self.load()

    def _current(self) -> str:
        rows = self.history.filter("current")["generation"].to_list()
        return f"generation {rows[0]}" if rows else "the present one"


def _generations(history: pl.DataFrame) -> None:
    state = pl.when("removed").then(pl.lit("removed")).when("current").then(pl.lit("current")).otherwise(pl.lit(""))
    columns = (
        Shown("generation", "generation", number=True),
        *texts(state="state"),
        *numbers(utc, made_at="made (UTC)"),
        Shown("datasets", "data sets", lambda names: ", ".join(names or ()), sortable=False),
        Shown("verdict", "verdict of the gate", lambda value: value or "none decided"),
        Shown("corpus", "fingerprint of the corpus", lambda value: value[:8]),
        Shown("settings", "of the settings", lambda value: value[:8]),
        Shown("run_id", "run"),
    )
    parts.frame_table("Generations", columns, history.with_columns(state=state), "generation", True)


def _reasons(name: str, frame: pl.DataFrame) -> None:
    columns = (
        Shown("reason", "reason", link=lambda row: f"{CORPORA}?index={quote(name)}&reason={quote(row['reason'])}"),
        *texts(stage="stage"),
        *numbers(figure(), rows="rows"),
        Shown("example", "for example", cut),
    )
    parts.frame_table("Reasons", columns, frame, "rows", True, "Every row was used.")


def _rejected(site: Site, name: str, reason: str) -> None:
    parts.Words(f"Rows that index {name} does not have: {reason}", "h2").classes("text")
    parts.link(f"The index {name}", f"{CORPORA}?index={quote(name)}")
    columns = (
        *texts(stage="stage", source="source"),
        Shown("offset", "line or record, from 1", number=True),
        Shown("detail", "why", cut),
    )

    def read(wanted: Slice) -> tuple[list[dict[str, Any]], int]:
        reasons = site.store.reject_reasons(name).filter(pl.col("reason") == reason)
        rows = site.store.rejects(name, reason, limit=wanted.limit, offset=wanted.offset)
        return rows.to_dicts(), int(reasons["rows"].sum())

    parts.table("Rejects", columns, read, nothing="There are no such rows.", is_sortable=False)


def _costs(frame: pl.DataFrame) -> None:
    columns = (
        *texts(stage="stage", model="model"),
        *numbers(figure(), rows="rows", tokens="tokens (of the model)"),
        *numbers(figure(1), wall_seconds="seconds of work", cpu_seconds="CPU seconds"),
        *numbers(usd, usd="USD"),
    )
    parts.frame_table("Costs", columns, frame, nothing="Nothing is known of its costs.", is_sortable=False)
    if len(frame):
        tokens, seconds, dollars = (frame[name].sum() for name in ("tokens", "wall_seconds", "usd"))
        parts.hint(
            f"In all {tokens:,} tokens, {seconds:,.1f} seconds of work of all workers together, and "
            f"{usd(float(dollars))} USD at the prices in prices.yaml, for the parts of which the index consists now."
        )


def _runs_of(site: Site, name: str) -> pl.DataFrame:
    own = site.store.sql("SELECT name, run_id, state, started, ended, error FROM runs WHERE flow = 'index_corpus'")
    seconds = (pl.col("ended") - pl.col("started")).dt.total_milliseconds() / 1000
    return own.filter(pl.col("name") == name).with_columns(seconds=seconds)


def _runs(frame: pl.DataFrame) -> None:
    columns = (
        *texts(run_id="run", state="state"),
        *numbers(utc, started="began (UTC)"),
        *numbers(figure(1), seconds="seconds"),
        Shown("error", "why it failed", cut),
    )
    parts.frame_table("Runs", columns, frame, "started", True, "No run of this store has made it.")
