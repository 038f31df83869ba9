"""The page Overview: what is served, what waits for a person, what failed, and what the last day cost."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from nicegui import ui

from vitalfew.flows.server.deployed import NoPrefect
from vitalfew.library.overview import DAYS, Overview, Waiting
from vitalfew.pages import parts
from vitalfew.pages.addresses import corpora, link
from vitalfew.pages.parts import Shown, ago, cut, figure, numbers, states, texts, utc
from vitalfew.pages.site import Site
from vitalfew.storage.freshness import Freshness, moment
from vitalfew.storage.runs import Run


def draw(site: Site) -> None:
    parts.links(
        ("Ask a question", link("/ask")),
        ("Index a corpus…", corpora(start="index-corpus")),
        ("Re-encode a corpus…", corpora(start="re-encode")),
        ("Start an evaluation…", corpora(start="evaluate")),
        ("Runs and schedules (Prefect)", "/deployments"),
        kind="action",
    )

    def drawn(found: Overview) -> None:
        _waiting(found.waiting)
        _served(found.served)
        parts.heading("The last 24 hours")
        work = f"{found.seconds:,.0f} seconds of work, {parts.usd(found.usd)} USD (machine and servers)."
        ui.label(f"{parts.count(found.runs, 'run')}: {work}")
        parts.link("All costs", link("/costs"))
        failed = f"Failed in the last {DAYS} days"
        parts.section(failed, lambda: _failures(site, found.failed), _failed, "Asking Prefect")

    parts.later(site.store.overview, drawn)


def _waiting(waiting: Sequence[Waiting]) -> None:
    def generation(row: Mapping[str, Any]) -> str:
        return corpora(index=row["index"], generation=row["generation"])

    columns = (
        Shown("index", "index", link=generation),
        *states(verdict="verdict"),
        Shown("generation", "generation", link=generation, number=True),
        *numbers(ago, made="made"),
        Shown("said", "why", cut),
    )
    rows = [asdict(each) | {"verdict": each.verdict or "not judged yet"} for each in waiting]
    parts.heading("Waiting for a person")
    parts.table("Waiting for a person", columns, rows, nothing="Nothing waits for you.", is_sortable=False)


def _served(served: Sequence[Freshness]) -> None:
    columns = (
        Shown("name", "index", link=lambda row: corpora(index=row["name"])),
        *states(state="state"),
        *numbers(ago, made="made", indexed="last encoded"),
        *numbers(figure(), passages="passages"),
    )
    rows = [asdict(each) | {"state": _state(each)} for each in served]
    parts.heading("What searches find")
    parts.table("What searches find", columns, rows, nothing="There is no index yet.", is_sortable=False)
    for each in served:
        if each.error:
            parts.problem(each.error)


def _state(each: Freshness) -> str:
    if each.error:
        return "damaged"
    return "removed" if each.passages is None else f"served: generation {each.generation}"


def _failures(site: Site, failed: Sequence[Run]) -> list[dict[str, Any]]:
    """The failed runs of the store, and those that Prefect has started; one that both know is listed once."""
    try:
        known = site.deployed.recent()
    except NoPrefect:  # a server of its own, which may be busy; the store's runs are there all the same
        known = []
    since = datetime.now(UTC) - timedelta(days=DAYS)
    rows: list[dict[str, Any]] = [
        {"about": run.about or run.name, "flow": run.flow, "state": run.kind, "began": run.began, "why": run.message,
         "run": run.id, "ended": run.ended or run.began}
        for run in known
        if run.kind in ("failed", "crashed") and run.began and run.began >= since
    ]  # fmt: skip
    spans = [(row["began"], row["ended"]) for row in rows]
    for own in failed:
        began = moment(own.started)
        if not any(begin <= began <= end for begin, end in spans):
            row = {"about": own.name or own.run_id, "flow": own.flow, "state": own.state, "began": began}
            rows.append({**row, "why": own.error, "run": "", "ended": None})
    return rows


def _failed(rows: Sequence[Mapping[str, Any]]) -> None:
    columns = (
        Shown("about", "index or experiment", link=lambda row: corpora(run=row["run"]) if row["run"] else ""),
        *states(state="state"),
        *texts(flow="what"),
        *numbers(utc, began="began (UTC)"),
        Shown("why", "why", cut),
    )
    parts.table("Failed runs", columns, rows, "began", True, "No run failed.")
