"""An index on the page Corpora and indexes: its generations over time, the verdict on the latest, rejects, costs, runs.

A generation has a page of its own (`generation`)."""

from typing import Any

import polars as pl

from vitalfew.pages import generation, parts, publishing
from vitalfew.pages.addresses import corpora, link
from vitalfew.pages.parts import Shown, Slice, cut, figure, numbers, states, texts, usd, utc
from vitalfew.pages.site import Site
from vitalfew.storage import generations
from vitalfew.storage.generations import Generation
from vitalfew.storage.runs import INDEXING


class IndexPage:
    def __init__(self, site: Site, name: str) -> None:
        self.site, self.name = site, name

    def draw(self) -> None:
        name = self.name
        parts.links(
            ("Ask it", link("/ask", index=name)),
            ("Start an evaluation on it…", corpora(start="evaluate", index=name)),
            ("Re-encode its corpus…", corpora(start="re-encode", corpus=name)),
            kind="action",
        )
        self.said = parts.stack().props('role="status"')
        self.load = parts.later(self._read, self._show)  # all the rest is drawn below, once it is there

    def _read(self) -> tuple[dict[str, Any] | None, pl.DataFrame, int | None, str]:
        """The index as its name stands, None where its artifacts are gone; all its generations; the one that a rollback
        leads to; whether on_promote has run."""
        history = self.site.store.timeline(self.name)  # raises IndexNotFound
        rows = self.site.store.describe().filter(pl.col("name") == self.name).to_dicts()
        before = self.site.store.index(self.name).named.before
        there = history.filter(~pl.col("removed"))["generation"].to_list()
        earlier = before[-1] if before and before[-1] in there else None
        return rows[0] if rows else None, history, earlier, publishing.known(self.site, self.name)

    def _show(self, read: tuple[dict[str, Any] | None, pl.DataFrame, int | None, str]) -> None:
        store, name = self.site.store, self.name
        now, history, earlier, published = read
        if now:
            size = (
                f"{now['passages'] or 0:,} passages, {now['sentences'] or 0:,} sentences, {now['bytes'] / 1e6:,.1f} MB"
            )
            settings = f"encoder {now['encoder']}, context vectors {now['context']}, index type {now['type']}"
            made = f"generation {now['generation']}, made {utc(now['made_at'])} UTC from {', '.join(now['datasets'])}"
            parts.Words(f"Searches find {made}: {size}; {settings}.", "div").classes("text")
        if published:
            parts.Words(published, "div").classes("text")
        parts.heading("Generations")
        _generations(name, history)
        if earlier:
            self._roll_back(history, earlier, publishing.AFTER if published else "")
        latest = "Did the latest one get worse?"
        parts.section(latest, lambda: store.generation(name), generation.summary)
        parts.section(
            "Rows that were not used, by reason", lambda: store.reject_reasons(name), lambda rows: _reasons(name, rows)
        )
        parts.section("What it took to make it", lambda: store.index_costs(name), _costs)
        parts.section("Runs that made it", lambda: store.runs().filter(flow=INDEXING, name=name), _runs)

    def _roll_back(self, history: pl.DataFrame, earlier: int, after: str) -> None:
        now = history.filter("current")["generation"].to_list()
        current = f"generation {now[0]}" if now else "the present one"
        parts.deciding(
            "Roll back",
            f"Roll back {self.name}?",
            f"Searches, evaluations and servers that name {self.name} find generation {earlier}, which was current "
            f"before {current}. Nothing is encoded. It holds until another generation is built or promoted.{after}",
            "Roll back",
            lambda note: generations.rollback(self.site.place, self.name, note, "page"),
            self._rolled_back,
            self.said,
        )

    async def _rolled_back(self, found: Generation | None) -> None:
        if found:
            with self.said:
                parts.Words(f"{found.name} points at generation {found.number} now.", "div").classes("text")
                place = parts.stack()
            await self.load()
            await publishing.publish(self.site, self.name, place)
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
        with parts.row("beside"):
            for column, unit in plots.items():
                line = {"type": "line", "name": unit, "data": history[column].to_list(), "connectNulls": True}
                parts.chart(f"{unit} by generation", places, unit, [line], height=12)
    rows = [
        {
            **row,
            "state": "removed" if row["removed"] else "current" if row["current"] else "",
            "decided": f"{row['decided']} by {row['decided_by']}" if row["decided"] else "",
        }
        for row in history.to_dicts()
    ]
    columns = (
        Shown("generation", "generation", link=lambda row: corpora(index=name, generation=row["generation"])),
        *states(state="state", decided="decided"),
        *states(verdict="verdict of the gate"),
        *numbers(figure(), documents="documents", passages="passages"),
        *numbers(figure(3), value="the gate's first metric"),
        *numbers(utc, made_at="made (UTC)"),
        Shown("datasets", "data sets", lambda names: ", ".join(names or ()), sortable=False),
    )
    parts.table("Generations", columns, rows, "generation", True)


def _reasons(name: str, frame: pl.DataFrame) -> None:
    columns = (
        Shown("reason", "reason", link=lambda row: corpora(index=name, reason=row["reason"])),
        *numbers(figure(), rows="rows"),
        Shown("example", "for example", cut),
        *texts(stage="stage"),
    )
    parts.table("Reasons", columns, frame, "rows", True, "Every row was used.")


def draw_rejected(site: Site, name: str, reason: str) -> None:
    """Draw the rows that an index does not have, for a reason."""
    parts.link(f"The index {name}", corpora(index=name))
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
    parts.table("Costs", columns, frame, nothing="Its costs are not known.", is_sortable=False)
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
    parts.table("Runs", columns, shown, "started", True, "No run of this store has made it.")
