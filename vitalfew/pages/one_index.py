"""An index on the page Corpora and indexes: its generations over time, the verdict on the latest, rejects, costs, runs.

A generation has a page of its own (`verdict`)."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import polars as pl
from nicegui import ui

from vitalfew.flows.server.guard import PAGES as ROOT
from vitalfew.library.index import Index
from vitalfew.pages import parts, verdict
from vitalfew.pages.addresses import CORPORA, index
from vitalfew.pages.parts import Shown, Slice, confirmed, cut, figure, numbers, states, texts, usd, utc
from vitalfew.pages.site import Site
from vitalfew.storage.runs import INDEXING


class IndexPage:
    """`now`: the index as its name stands, None where its artifacts are gone; `history`: all its generations;
    `earlier`: the one that a rollback leads to."""

    now: dict[str, Any] | None
    history: pl.DataFrame
    earlier: int | None

    def __init__(self, site: Site, name: str) -> None:
        self.site, self.name = site, name

    def draw(self) -> None:
        with ui.element("div").classes("row").style("align-items: baseline"):
            name = quote(self.name)
            parts.link("Ask it", f"{ROOT}/ask?index={name}", "action")
            parts.link("Start an evaluation on it…", f"{CORPORA}?start=evaluate&index={name}", "action")
            parts.link("Re-encode its corpus…", f"{CORPORA}?start=re-encode&corpus={name}", "action")
        self.said = parts.stack().props('role="status"')
        self.load = parts.later(self._read, lambda _: self._show())  # all the rest is drawn below, once it is there

    def _read(self) -> None:
        self.history = self.site.store.timeline(self.name)  # raises IndexNotFound
        rows = self.site.store.describe().filter(pl.col("name") == self.name).to_dicts()
        before = self.site.store.index(self.name).named.before
        there = self.history.filter(~pl.col("removed"))["generation"].to_list()
        self.now = rows[0] if rows else None
        self.earlier = before[-1] if before and before[-1] in there else None

    def _show(self) -> None:
        store, name = self.site.store, self.name
        if now := self.now:
            size = f"{now['passages'] or 0:,} passages, {now['sentences'] or 0:,} sentences"
            size += f", {now['bytes'] / 1e6:,.1f} MB"
            settings = f"encoder {now['encoder']}, context vectors {now['context']}, index type {now['type']}"
            made = f"generation {now['generation']}, made {utc(now['made_at'])} UTC from {', '.join(now['datasets'])}"
            parts.Words(f"Searches find {made}: {size}; {settings}.", "div").classes("text")
        parts.heading("Generations")
        _generations(name, self.history)
        if self.earlier:
            ui.button("Roll back…", on_click=self._roll_back).props("outline no-caps").style("align-self: start")
        parts.heading("Did the latest one get worse?")
        parts.later(lambda: verdict.read(self.site, name), verdict.summary)
        parts.heading("Rows that were not used, by reason")
        parts.later(lambda: store.reject_reasons(name), lambda frame: _reasons(name, frame))
        parts.heading("What it took to make it")
        parts.later(lambda: store.index_costs(name), _costs)
        parts.heading("Runs that made it")
        parts.later(lambda: store.runs().filter(flow=INDEXING, name=name), _runs)

    def _roll_back(self) -> None:
        now = self.history.filter("current")["generation"].to_list()
        current = f"generation {now[0]}" if now else "the present one"
        confirmed(
            f"Roll back {self.name}?",
            f"Searches, evaluations and servers that name {self.name} find generation {self.earlier}, which was "
            f"current before {current}. Nothing is encoded. It holds until another generation is built or promoted.",
            "Roll back",
            lambda note: self._do(lambda: self.site.store.rollback(self.name, note=note, by="page")),
            with_note=True,
        )

    async def _do(self, act: Callable[[], Index]) -> None:
        if found := await parts.asked(act, self.said):
            with parts.anew(self.said):
                now = f"{found.name} points at generation {found.named.generation} now."
                parts.Words(now, "div").classes("text")
        await self.load()


def _generations(name: str, history: pl.DataFrame) -> None:
    """A plot of the generations over time, and the table of them."""
    parts.hint(
        "Every finished build is a generation, and the index name points at one of them. Open another one to see what "
        "changes, or to promote it. Promoting encodes nothing again; search servers switch within seconds."
    )
    if len(history) > 1:
        places = [f"{row['generation']}: {row['made_at']:%m-%d}" for row in history.iter_rows(named=True)]
        metric = next(iter(history["metric"].drop_nulls()), "")
        plots = {"documents": "documents", "passages": "passages"} | ({"value": metric} if metric else {})
        with ui.element("div").classes("beside"):
            for column, unit in plots.items():
                line = {"type": "line", "name": unit, "data": history[column].to_list(), "connectNulls": True}
                parts.chart(f"{unit} by generation", places, unit, [line], height=12)
    removed, current = pl.lit("removed"), pl.lit("current")
    state = pl.when("removed").then(removed).when("current").then(current).otherwise(pl.lit(""))
    decided = (
        pl.when(pl.col("decided") != "").then(pl.format("{} by {}", "decided", "decided_by")).otherwise(pl.lit(""))
    )
    columns = (
        Shown("generation", "generation", link=lambda row: index(name, generation=row["generation"])),
        *states(state="state", decided="decided"),
        *states(verdict="verdict of the gate"),
        *numbers(figure(), documents="documents", passages="passages"),
        *numbers(figure(3), value="the gate's first metric"),
        *numbers(utc, made_at="made (UTC)"),
        Shown("datasets", "data sets", lambda names: ", ".join(names or ()), sortable=False),
    )
    shown = history.with_columns(state=state, decided=decided)
    parts.frame_table("Generations", columns, shown, "generation", True)


def _reasons(name: str, frame: pl.DataFrame) -> None:
    columns = (
        Shown("reason", "reason", link=lambda row: index(name, reason=row["reason"])),
        *numbers(figure(), rows="rows"),
        Shown("example", "for example", cut),
        *texts(stage="stage"),
    )
    parts.frame_table("Reasons", columns, frame, "rows", True, "Every row was used.")


def draw_rejected(site: Site, name: str, reason: str) -> None:
    """Draw the rows that an index does not have, for a reason."""
    parts.link(f"The index {name}", index(name))
    columns = (
        *texts(file="file or data set"),
        Shown("offset", "line or record, from 1", number=True),
        Shown("detail", "why", cut),
        *texts(stage="stage"),
    )

    def read(wanted: Slice) -> tuple[list[dict[str, Any]], int]:
        reasons = site.store.reject_reasons(name).filter(pl.col("reason") == reason)
        rows = site.store.rejects(name, reason, limit=wanted.limit, offset=wanted.offset)
        return [_with_file(row) for row in rows.to_dicts()], int(reasons["rows"].sum())

    parts.table("Rejects", columns, read, nothing="There are no such rows.", is_sortable=False)


def _with_file(row: dict[str, Any]) -> dict[str, Any]:
    """A rejected row with its file: of a folder, the reason begins with its name."""
    name, colon, detail = row["detail"].partition(": ")
    is_named = colon and " " not in name and row["source"].startswith("folder:")
    return row | ({"file": name, "detail": detail} if is_named else {"file": row["source"]})


def _costs(frame: pl.DataFrame) -> None:
    columns = (
        *texts(stage="stage", model="model"),
        *numbers(figure(), rows="rows", tokens="tokens (of the model)"),
        *numbers(figure(1), wall_seconds="seconds of work", cpu_seconds="CPU seconds"),
        *numbers(usd, usd="USD"),
    )
    parts.frame_table("Costs", columns, frame, nothing="Its costs are not known.", is_sortable=False)
    if len(frame):
        tokens, seconds, dollars = (frame[name].sum() for name in ("tokens", "wall_seconds", "usd"))
        parts.hint(
            f"In all: {tokens:,} tokens, {seconds:,.1f} seconds of all workers together, and {usd(float(dollars))} "
            "USD at the prices in prices.yaml. Only parts of the present index count."
        )


def _runs(frame: pl.DataFrame) -> None:
    seconds = (pl.col("ended") - pl.col("started")).dt.total_milliseconds() / 1000
    columns = (
        Shown("started", "began (UTC)", utc),
        *states(state="state"),
        *numbers(figure(1), seconds="seconds"),
        Shown("error", "why it failed", cut),
        *texts(run_id="run"),
    )
    shown = frame.with_columns(seconds=seconds)
    parts.frame_table("Runs", columns, shown, "started", True, "No run of this store has made it.")
