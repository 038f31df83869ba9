"""The page Overview, and the page of a generation that waits there until a person has decided."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from nicegui.testing import User

import vitalfew as vf
from tests.pages.test_corpora import sited
from tests.support.paging import rows_of, see, visit
from vitalfew.storage import generations, runs
from vitalfew.storage.generations import GateFigure, GateRecord
from vitalfew.storage.runs import Run


def _wait(store: vf.Store) -> None:
    """Add a second generation to the index `towns`, which a gate holds."""
    named = runs.find_index(store.place, "towns")
    built = replace(named, artifacts={role: name for role, name in named.artifacts.items() if role != "bm25"})
    generations.record(store.place, built, promoted=False)
    figure = GateFigure("passages", "passage_recall@10", 0.02, 40, 0.75, 0.75, 0.0, -0.09, 0.09, "in doubt", 300)
    record = GateRecord(1, "terms", "Generation 2 of towns is in doubt.", "20261127-030000-abc", 0, (figure,))
    generations.judge(store.place, "towns", 2, "in doubt", record)


def _ran(store: vf.Store, name: str, ago: timedelta, state: runs.State) -> None:
    began = datetime.now(UTC) - ago
    error = "OSError: no room" if state == "failed" else ""
    run = Run(f"{began:%Y%m%d-%H%M%S}-abcdef", "index_corpus", name, {}, began.isoformat(), state, began.isoformat())
    runs.import_run(store.place, replace(run, error=error))


def test_what_an_operator_looks_at_first(own: vf.Store) -> None:
    _wait(own)
    hours = timedelta(hours=1)
    _ran(own, "rivers", 2 * hours, "failed")
    _ran(own, "old", 24 * 30 * hours, "failed")
    _ran(own, "repeated", 4 * hours, "failed")
    _ran(own, "repeated", 3 * hours, "completed")
    found = own.overview()
    (served,), (waiting,), (failed,) = found.served, found.waiting, found.failed
    assert (served.name, served.generation, served.passages) == ("towns", 1, own.describe()["passages"].item())
    assert (waiting.generation, waiting.verdict) == (2, "in doubt")
    assert (failed.name, failed.error) == ("rivers", "OSError: no room")
    paid = own.sql("SELECT sum(usd) FROM costs WHERE started >= now() - INTERVAL 24 HOUR").item()
    assert found.usd == pytest.approx(paid or 0.0)


def test_a_generation_waits_until_it_is_declined(own: vf.Store) -> None:
    _wait(own)
    _ran(own, "rivers", timedelta(hours=2), "failed")
    site = sited(own.place)

    async def look(user: User) -> None:
        (row,) = await rows_of(user, "Waiting for a person")
        assert (row["verdict"], row["=verdict"]) == ("in doubt", "waits")
        assert row["_index"].endswith("/corpora?index=towns&generation=2")
        (row,) = await rows_of(user, "Failed runs")
        assert (row["about"], row["why"]) == ("rivers", "OSError: no room")

    async def decline(user: User) -> None:
        await user.should_see("Searches find generation 1, not this one.")
        await user.should_see("0.750 before, 0.750 now; difference +0.000, 95 % interval -0.090 to +0.090")
        await user.should_see("No document changed.")
        user.find("Decline…").click()
        user.find("Why (kept with the decision)").type("The mills are missing")
        user.find(marker="confirm").click()
        await user.should_see("Declined")
        first, _ = await rows_of(user, "Decisions")
        assert (first["decision"], first["note"]) == ("declined", "The mills are missing")

    visit(site, "/", look)
    visit(site, "/corpora?index=towns&generation=2", decline)
    see(site, "/", "Nothing waits for you.")
    assert generations.find(own.place, "towns", 2).verdict == "declined"
