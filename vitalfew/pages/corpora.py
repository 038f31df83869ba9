"""The page Corpora and indexes: what there is, when it was encoded, and buttons that start the work.

`?index=NAME` shows an index, with `&generation=NUMBER` one of its generations; `?run=ID` follows a run, and
`?start=DEPLOYMENT` is the form of one.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import polars as pl
from nicegui import ui

from vitalfew.flows.server.deployed import FlowRunNow
from vitalfew.pages import one_index, parts, runs, starting
from vitalfew.pages.addresses import CORPORA, index
from vitalfew.pages.parts import Shown, figure, numbers, states, texts, utc
from vitalfew.pages.runs import run_address
from vitalfew.pages.site import Site
from vitalfew.pages.verdict import Verdict

_STYLE = """
.code { font-family: ui-monospace, monospace; font-size: 0.85rem; line-height: 1.5; margin: 0; padding: 0.75rem;
  background: color-mix(in srgb, currentColor 7%, transparent); border-radius: 4px }
.q-table th { overflow-wrap: break-word }
.q-table td { min-width: 5.5rem }
.log { max-height: 28rem; overflow: auto }
summary { padding: 0.5rem 0 }
.body--dark .field input { color-scheme: dark }
progress { width: 100%; max-width: 40rem; accent-color: #1d4ed8 }
"""


def view(given: Mapping[str, str]) -> str:
    """The title of a view; empty for the lists of what there is."""
    if "run" in given:
        return f"Run {given['run']}"  # until it is read
    if "start" in given:
        return starting.STARTS[given["start"]].title if given["start"] in starting.STARTS else "No such form"
    if "index" not in given:
        return ""
    name = f"Index {given['index']}"
    if "generation" in given:
        return f"{name}, generation {given['generation']}"
    return f"{name}: rows not used ({given['reason']})" if "reason" in given else name


def draw(site: Site) -> None:
    ui.add_css(_STYLE)
    asked = ui.context.client.request.query_params
    if "run" in asked:
        runs.Following(site, asked["run"]).draw()
    elif "start" in asked:
        starting.draw(site, asked["start"])
    elif "generation" in asked and "index" in asked:
        Verdict(site, asked["index"], asked["generation"]).draw()
    elif "reason" in asked and "index" in asked:
        one_index.draw_rejected(site, asked["index"], asked["reason"])
    elif "index" in asked:
        one_index.IndexPage(site, asked["index"]).draw()
    else:
        _overview(site)


def _overview(site: Site) -> None:
    with ui.element("div").classes("row"):
        for deployment, start in starting.STARTS.items():
            parts.link(f"{start.title}…", f"{CORPORA}?start={deployment}", "action")
    parts.heading("Indexes")
    parts.later(site.store.describe, _indexes)
    parts.heading("Corpora")
    about = "A corpus is a file of settings next to the store, corpora/NAME.yaml. Re-encoding brings its index up to "
    "date."
    parts.hint(about)
    parts.later(lambda: _corpora(site), _corpora_table)
    parts.heading("Scheduled")
    parts.later(site.deployed.planned, _planned, "Asking Prefect")
    parts.heading("Last runs")
    parts.later(site.deployed.recent, _recent, "Asking Prefect")


def _indexes(frame: pl.DataFrame) -> None:
    columns = (
        Shown("name", "index", link=lambda row: index(row["name"])),
        *numbers(figure(), generation="generation now"),
        Shown("verdict", "gate on the latest", lambda value: value or "none decided", is_state=True),
        *numbers(utc, made_at="made (UTC)"),
        *numbers(figure(), passages="passages", sentences="sentences"),
        *texts(encoder="encoder", context="context vector"),
        *numbers(figure(1), megabytes="size (MB)"),
        Shown("datasets", "data sets", lambda names: ", ".join(names or ()), sortable=False),
    )
    shown = frame.with_columns(megabytes=pl.col("bytes") / 1e6)
    parts.frame_table("Indexes", columns, shown, "name", nothing="There is no index yet: index a corpus, above.")


def _corpora(site: Site) -> pl.DataFrame:
    """The corpora with the next and the last run of every one, and what their gates said."""
    frame = site.store.corpora(site.corpora)
    planned, recent = site.deployed.planned(), site.deployed.recent()
    verdicts = _verdicts(site)
    rows = []
    for row in frame.to_dicts():
        own = "re-encode", row["name"]
        last = next((run for run in recent if (run.flow, run.about) == own and run.kind != "cancelled"), None)
        row |= {"last": last.began, "result": last.state, "run": last.id} if last else {"result": "", "run": ""}
        row["next"] = next((run.due for run in planned if (run.flow, run.about) == own), None)
        row |= {"verdict": verdicts.get(row["name"]), "act": "Re-encode…"}
        row |= {"when": cron_in_words(row["cron"], row["timezone"]), "gate": _gate_in_words(row)}
        rows.append(row)
    kinds: dict[str, Any] = dict.fromkeys(("verdict", "act", "result", "run", "when", "gate"), pl.String)
    times: dict[str, Any] = dict.fromkeys(("next", "last"), pl.Datetime("us", "UTC"))
    return pl.DataFrame(rows, schema={**dict[str, Any](frame.schema), **times, **kinds})


def _verdicts(site: Site) -> dict[str, str]:
    """The verdicts of gates on the newest generations of the indexes, by name."""
    try:
        return {row["name"]: row["verdict"] or "" for row in site.store.describe().iter_rows(named=True)}
    except FileNotFoundError:  # there is no store yet, which the part above says
        return {}


def _corpora_table(frame: pl.DataFrame) -> None:
    columns = (
        Shown("name", "corpus and index", link=_corpus_address),
        *states(result="last result"),
        Shown("act", "", link=_form_address, sortable=False),
        Shown("last", "last run (UTC)", utc, number=True, link=lambda row: run_address(row["run"])),
        Shown("next", "next run (UTC)", utc, number=True),
        Shown("when", "schedule", sortable=False),
        Shown("gate", "if it gets worse", sortable=False),
        Shown("datasets", "data sets", lambda names: ", ".join(names or ()), sortable=False),
    )
    parts.frame_table("Corpora", columns, frame, "name", nothing="There is no corpus.")


def _form_address(row: Mapping[str, Any]) -> str:
    return f"{CORPORA}?start=re-encode&corpus={quote(row['name'])}"


def _corpus_address(row: Mapping[str, Any]) -> str:
    """The page of a corpus's index; the form that makes one where there is none yet."""
    return _form_address(row) if row["verdict"] is None else index(row["name"])


def _gate_in_words(row: Mapping[str, Any]) -> str:
    if row["error"]:
        return f"the file cannot be read: {row['error']}"
    if not row["gate"]:
        return "no gate: nothing would notice"
    newest = f"; the newest generation: {row['verdict']}" if row["verdict"] else ""
    return f"its gate notices a loss beyond {row['margins']}{newest}"


_DAYS = {str(number): day for number, day in enumerate(
    ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"))}  # fmt: skip


def cron_in_words(cron: str | None, timezone: str | None) -> str:
    """A schedule in words, where it is by the day or the week; else as it is written."""
    if not cron:
        return "on demand"
    match = re.fullmatch(r"(\d{1,2}) (\d{1,2}) \* \* (\*|[0-7])", cron.strip())
    if not match:
        return f"cron {cron} ({timezone})"
    minute, hour, day = match.groups()
    often = "every day" if day == "*" else f"every {_DAYS[day]}"
    return f"{often} at {int(hour):02}:{int(minute):02} ({timezone})"


def _frame(found: Sequence[FlowRunNow]) -> pl.DataFrame:
    rows = [
        {
            "id": run.id, "flow": run.flow, "about": run.about or run.name, "state": run.state,
            "due": run.due, "began": run.began, "by": "its schedule" if run.by_cron else "a person",
            "seconds": (run.ended - run.began).total_seconds() if run.ended and run.began else None,
        }
        for run in found
    ]  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


_ABOUT = Shown("about", "corpus, index or experiment", link=lambda row: run_address(row["id"]))


def _planned(found: Sequence[FlowRunNow]) -> None:
    if not found:
        parts.hint("Nothing is scheduled. The form Re-encode can start a run once, at a set time, or on a schedule.")
        return
    due = numbers(utc, due="begins (UTC)")
    columns = (_ABOUT, *texts(flow="what"), *states(state="state"), *due, *texts(by="planned by"))
    parts.frame_table("Scheduled runs", columns, _frame(found), "due")
    parts.hint("Open a run to cancel it.")


def _recent(found: Sequence[FlowRunNow]) -> None:
    if not found:
        parts.hint("No run was started here yet. Runs of the command line are not listed here.")
        return
    columns = (
        _ABOUT,
        *states(state="state"),
        *texts(flow="what"),
        *numbers(utc, began="began (UTC)"),
        *numbers(figure(), seconds="seconds"),
        *texts(by="started by"),
    )
    parts.frame_table("Last runs", columns, _frame(found), "began", True)
