"""The page Corpora and indexes: what there is, when it was encoded, and buttons that start the work.

`?index=NAME` shows an index, with `&generation=NUMBER` one of its generations; `?run=ID` follows a run, and
`?start=DEPLOYMENT` is the form of one.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from vitalfew.flows.server.deployed import FlowRunNow
from vitalfew.pages import generation, indexes, parts, runs, starting
from vitalfew.pages.addresses import corpora
from vitalfew.pages.parts import Shown, figure, numbers, states, texts, utc
from vitalfew.pages.site import Site, View


def view(given: Mapping[str, str]) -> View | None:
    """A view with its title; None for the lists of what there is."""
    match given:
        case {"run": run}:
            return f"Run {run}", lambda site: runs.Following(site, run).draw()  # until it is read
        case {"start": start}:
            title = starting.STARTS[start].title if start in starting.STARTS else "No such form"
            return title, lambda site: starting.draw(site, start)
        case {"index": name, "generation": number}:
            title = f"Index {name}, generation {number}"
            return title, lambda site: generation.GenerationPage(site, name, number).draw()
        case {"index": name, "reason": reason}:
            title = f"Index {name}: rows not used ({reason})"
            return title, lambda site: indexes.draw_rejected(site, name, reason)
        case {"index": name}:
            return f"Index {name}", lambda site: indexes.IndexPage(site, name).draw()
    return None


def draw(site: Site) -> None:
    parts.links(*((f"{start.title}…", corpora(start=name)) for name, start in starting.STARTS.items()), kind="action")
    parts.section("Indexes", site.store.describe, _indexes)
    parts.heading("Corpora")
    parts.hint(
        "A corpus is a file of settings next to the store, corpora/NAME.yaml. Re-encoding brings its index up to date."
    )
    parts.later(lambda: _corpora(site), _corpora_table)
    parts.section("Scheduled", site.deployed.planned, _planned, "Asking Prefect")
    parts.section("Last runs", site.deployed.recent, _recent, "Asking Prefect")


_DATASETS = Shown("datasets", "data sets", lambda names: ", ".join(names or ()), sortable=False)


def _indexes(frame: pl.DataFrame) -> None:
    columns = (
        Shown("name", "index", link=lambda row: corpora(index=row["name"])),
        *numbers(figure(), generation="generation now"),
        Shown("verdict", "gate on the latest", lambda value: value or "none decided", is_state=True),
        *numbers(utc, made_at="made (UTC)"),
        *numbers(figure(), passages="passages", sentences="sentences"),
        *texts(encoder="encoder", context="context vector"),
        *numbers(figure(1), megabytes="size (MB)"),
        _DATASETS,
    )
    shown = frame.with_columns(megabytes=pl.col("bytes") / 1e6)
    parts.table("Indexes", columns, shown, "name", nothing="There is no index yet: index a corpus, above.")


def _corpora(site: Site) -> list[dict[str, Any]]:
    """The corpora with the next and the last run of every one, and what their gates said."""
    planned, recent = site.deployed.planned(), site.deployed.recent()
    try:
        verdicts = {row["name"]: row["verdict"] or "" for row in site.store.describe().iter_rows(named=True)}
    except FileNotFoundError:  # there is no store yet, which the part above says
        verdicts = {}
    rows = []
    for row in site.store.corpora(site.corpora).to_dicts():
        own = "re-encode", row["name"]
        last = next((run for run in recent if (run.flow, run.about) == own and run.kind != "cancelled"), None)
        row |= {"last": last and last.began, "result": last.state if last else "", "run": last.id if last else ""}
        row["next"] = next((run.due for run in planned if (run.flow, run.about) == own), None)
        row |= {"verdict": verdicts.get(row["name"]), "act": "Re-encode…"}
        row |= {"when": cron_in_words(row["cron"], row["timezone"])}
        rows.append({**row, "gate": _gate_in_words(row)})
    return rows


def _corpora_table(rows: Sequence[Mapping[str, Any]]) -> None:
    def form(row: Mapping[str, Any]) -> str:
        return corpora(start="re-encode", corpus=row["name"])

    def page(row: Mapping[str, Any]) -> str:
        """Of a corpus's index; the form that makes one where there is none yet."""
        return form(row) if row["verdict"] is None else corpora(index=row["name"])

    columns = (
        Shown("name", "corpus and index", link=page),
        *states(result="last result"),
        Shown("act", "", link=form, sortable=False),
        Shown("last", "last run (UTC)", utc, number=True, link=lambda row: corpora(run=row["run"])),
        *numbers(utc, next="next run (UTC)"),
        Shown("when", "schedule", sortable=False),
        Shown("gate", "if it gets worse", sortable=False),
        _DATASETS,
    )
    parts.table("Corpora", columns, rows, "name", nothing="There is no corpus.")


def _gate_in_words(row: Mapping[str, Any]) -> str:
    if row["error"]:
        return f"the file cannot be read: {row['error']}"
    if not row["gate"]:
        return "no gate: nothing would notice"
    newest = f"; the newest generation: {row['verdict']}" if row["verdict"] else ""
    return f"its gate notices a loss beyond {row['margins']}{newest}"


_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def cron_in_words(cron: str | None, timezone: str | None) -> str:
    """A schedule in words, where it is by the day or the week; else as it is written."""
    if not cron:
        return "on demand"
    match = re.fullmatch(r"(\d{1,2}) (\d{1,2}) \* \* (\*|[0-7])", cron.strip())
    if not match:
        return f"cron {cron} ({timezone})"
    minute, hour, day = match.groups()
    often = "every day" if day == "*" else f"every {_DAYS[int(day)]}"
    return f"{often} at {int(hour):02}:{int(minute):02} ({timezone})"


def _rows(found: Sequence[FlowRunNow]) -> list[dict[str, Any]]:
    return [
        {
            "id": run.id, "flow": run.flow, "about": run.about or run.name, "state": run.state,
            "due": run.due, "began": run.began, "by": "its schedule" if run.by_cron else "a person",
            "seconds": (run.ended - run.began).total_seconds() if run.ended and run.began else None,
        }
        for run in found
    ]  # fmt: skip


_ABOUT = Shown("about", "corpus, index or experiment", link=lambda row: corpora(run=row["id"]))


def _planned(found: Sequence[FlowRunNow]) -> None:
    due = numbers(utc, due="begins (UTC)")
    columns = (_ABOUT, *texts(flow="what"), *states(state="state"), *due, *texts(by="planned by"))
    nothing = "Nothing is scheduled. The form Re-encode can start a run once, at a set time, or on a schedule."
    parts.table("Scheduled runs", columns, _rows(found), "due", nothing=nothing)
    if found:
        parts.hint("Open a run to cancel it.")


def _recent(found: Sequence[FlowRunNow]) -> None:
    columns = (
        _ABOUT,
        *states(state="state"),
        *texts(flow="what"),
        *numbers(utc, began="began (UTC)"),
        *numbers(figure(), seconds="seconds"),
        *texts(by="started by"),
    )
    nothing = "No run was started here yet. Runs of the command line are not listed here."
    parts.table("Last runs", columns, _rows(found), "began", True, nothing)
