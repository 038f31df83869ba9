"""The page Corpora and indexes: what there is, an index, the forms, and a run that is followed."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from nicegui import ui
from nicegui.testing import User

from tests.support.evaluating import copied
from tests.support.indexing import index
from tests.support.paging import rows_of, see, until, visit
from tests.support.shared import shared
from vitalfew.flows.server import deployed as prefect
from vitalfew.flows.server.deployed import FlowRunNow, Followed, logged
from vitalfew.pages import runs
from vitalfew.pages.site import Site
from vitalfew.storage import generations
from vitalfew.storage.generations import GateFigure, GateRecord

HOSTILE = "<img src=x onerror=alert(1)> \u202eevil"
BEGAN = datetime(2026, 11, 27, 3, tzinfo=UTC)


def flow_run(number: int, state: str = "Completed", kind: str = "completed", **changed: Any) -> FlowRunNow:
    """A run of `re-encode` for the corpus `towns`, which took a minute."""
    when = {"due": BEGAN, "began": BEGAN, "ended": BEGAN + timedelta(seconds=60) if kind == "completed" else None}
    about = {"flow": "re-encode", "name": "towns", "parameters": {"parameters": {"corpus": "towns"}}}
    given = {"state": state, "kind": kind, "message": "", "by_cron": False, **when, **about, **changed}
    return FlowRunNow(id=f"00000000-0000-0000-0000-{number:012}", **given)


class FakeDeployed:
    """Stands in for `Deployed`, without Prefect's server. `runs`: by their ids; `answers`: false while that does not
    answer."""

    def __init__(self, *runs: FlowRunNow) -> None:
        self.runs = {run.id: run for run in runs}
        self.started: list[tuple[str, Mapping[str, Any], datetime | None]] = []
        self.decided: list[tuple[bool, str]] = []
        self.answers = True
        self.lines: list[str] = []
        self.looks = 0

    def start(self, deployment: str, given: Mapping[str, Any], at: datetime | None = None) -> str:
        self.started.append((deployment, given, at))
        run = flow_run(100 + len(self.started), "Scheduled", "scheduled", began=None, due=at, flow=deployment)
        self.runs[run.id] = run
        return run.id

    def follow(self, run: str, older: int = 0) -> Followed:
        self.looks += 1
        stages = ((40.0, "encode: 2 of 5 shards"),)
        return Followed(self._run(run), stages, ("20261127-030000-abc",), (*self.lines,))

    def cancel(self, run: str) -> None:
        self.runs[run] = replace(self._run(run), state="Cancelled", kind="cancelled", ended=BEGAN)

    def decide(self, run: str, is_approved: bool, note: str = "") -> None:
        self.decided.append((is_approved, note))

    def planned(self) -> list[FlowRunNow]:
        return [run for run in self._known().values() if run.is_waiting]

    def recent(self) -> list[FlowRunNow]:
        return [run for run in self._known().values() if not run.is_waiting]

    def _known(self) -> dict[str, FlowRunNow]:
        if not self.answers:
            raise prefect.NoPrefect("Prefect's server does not answer (ConnectError); try again")
        return self.runs

    def _run(self, run: str) -> FlowRunNow:
        if run not in self._known():
            raise prefect.NoFlowRun("Prefect has no such run: it was deleted, or its address is not complete")
        return self.runs[run]


def _made(folder: Path) -> None:
    """Corpora, and the index `towns` with two generations, of which a gate has judged the second."""
    (folder / "corpora").mkdir(parents=True)
    rows = [{"title": f"Town {n}", "text": f"Town {n} has a mill. It was built in {1700 + n}."} for n in range(8)]
    (folder / "towns.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in [*rows, *rows[:2], {"title": HOSTILE}])
    )
    source = f"datasets: ['jsonl:{folder / 'towns.jsonl'}']\n"
    (folder / "corpora" / "free.yaml").write_text(source)
    (folder / "corpora" / "broken.yaml").write_text("datasets: [\n")
    for kind in ("flat", "sq8"):
        index(folder / "store", f"jsonl:{folder / 'towns.jsonl'}", name="towns", index={"type": kind})
    (folder / "corpora" / "towns.yaml").write_text(f"{source}cron: '0 3 * * *'\ngate: {{}}\n")
    figure = GateFigure("passages", "passage_recall@10", 0.02, 40, 0.75, 0.5, -0.25, -0.4, -0.1, "worse", None)
    record = GateRecord(1, "terms", "Generation 2 of towns is rejected.", "20261127-030000-abc", 3, (figure,))
    generations.judge(folder / "store", "towns", 2, "rejected", record)


def sited(store: Path, *runs: FlowRunNow) -> Site:
    """The pages of a store, with a stand-in for Prefect."""
    made = Site(store)
    made.__dict__["deployed"] = FakeDeployed(*runs)
    return made


@pytest.fixture
def towns(tmp_path: Path) -> Site:
    """A copy, to write to."""
    folder = shared("pages-corpora", _made)
    copied(folder / "corpora", tmp_path / "corpora")
    return sited(copied(folder / "store", tmp_path / "store"))


def fake(site: Site, *runs: FlowRunNow) -> FakeDeployed:
    """Its stand-in, which knows these runs, too."""
    deployed: Any = site.deployed
    deployed.runs |= {run.id: run for run in runs}
    return deployed


def test_what_there_is(towns: Site) -> None:
    tonight = flow_run(2, "Scheduled", "scheduled", began=None, due=BEGAN + timedelta(days=1), by_cron=True)
    fake(towns, flow_run(1, "Rejected"), tonight)

    async def act(user: User) -> None:
        (made,) = await rows_of(user, "Indexes")
        assert (made["name"], made["passages"], made["generation"], made["verdict"]) == ("towns", "8", "2", "rejected")
        corpora = {row["name"]: row for row in await rows_of(user, "Corpora")}
        assert corpora["towns"]["when"] == "every day at 03:00 (UTC)"
        assert (corpora["towns"]["next"], corpora["towns"]["last"]) == ("2026-11-28 03:00", "2026-11-27 03:00")
        assert "passage_recall@10: 0.02; the newest generation: rejected" in corpora["towns"]["gate"]
        assert "no gate" in corpora["free"]["gate"]
        assert "not readable as YAML" in corpora["broken"]["gate"]
        assert corpora["free"]["_name"].endswith("?start=re-encode&corpus=free")
        assert [row["about"] for row in await rows_of(user, "Scheduled runs")] == ["towns"]
        assert [(row["state"], row["seconds"]) for row in await rows_of(user, "Last runs")] == [("Rejected", "60")]

    visit(towns, "/corpora", act)


def test_promote_and_roll_back(towns: Site) -> None:
    async def promote(user: User) -> None:
        await user.should_see("Searches find generation 2, not this one.")
        user.find("Promote…").click()
        await user.should_see("find generation 1 instead of 2")
        user.find("Why (kept with the decision)").type("The mills are wrong")
        user.find(marker="confirm").click()
        await user.should_see("Current")
        assert [row["note"] for row in await rows_of(user, "Decisions")] == ["The mills are wrong", ""]

    async def roll_back(user: User) -> None:
        await rows_of(user, "Generations")
        user.find("Roll back…").click()
        await user.should_see("find generation 2, which was current before generation 1")
        user.find(marker="confirm").click()
        await user.should_see("towns points at generation 2 now")

    visit(towns, "/corpora?index=towns&generation=1", promote)
    visit(towns, "/corpora?index=towns", roll_back)


def test_re_encode_at_a_time(towns: Site) -> None:
    later = datetime.now(UTC) + timedelta(hours=9)

    async def act(user: User) -> None:
        await user.should_see("Choose a corpus, to see")
        user.find(kind=ui.button, content="Start").click()
        await user.should_see("Corpus: choose one")
        user.find("Corpus").trigger("change", "free")
        await user.should_see("This corpus has no gate")
        user.find("Corpus").trigger("change", "demo")
        await user.should_see("which came with the product, to")
        user.find("Corpus").trigger("change", "towns")
        await user.should_see("95 % interval of every difference")
        (when,) = user.find(kind=ui.radio).elements
        with user:
            when.value = "at"
        user.find("Date and time").trigger("input", ["2026-11-28T03:00", later.isoformat()])
        await user.should_see(f"That is {later:%Y-%m-%d %H:%M} UTC")
        user.find(kind=ui.button, content="Schedule").click()
        await until(lambda: fake(towns).started)

    visit(towns, "/corpora?start=re-encode", act)
    ((deployment, given, at),) = fake(towns).started
    assert (deployment, given, at) == ("re-encode", {"corpus": "towns"}, later)


def test_a_gate_and_a_schedule_are_saved_from_the_form(towns: Site) -> None:
    file = towns.place.parent / "corpora" / "free.yaml"
    before = file.read_text()

    async def act(user: User) -> None:
        await user.should_see("Add the gate")
        user.find(marker="Loss").trigger("input", "1.5")
        await user.should_see("1.5 accepts any loss")
        user.find(marker="Loss").trigger("input", "0.05")
        await user.should_see(f"The button adds the marked lines to {file}")
        user.find("Add the gate").click()
        await user.should_see(f"Saved. {file} now reads:")
        await user.should_see("This corpus has a gate")
        assert file.read_text() == f"{before}gate:\n  margins: {{passage_recall@10: 0.05}}\n"
        (when,) = user.find(kind=ui.radio).elements
        with user:
            when.value = "cron"
        await user.should_see("Save the schedule")
        await user.should_not_see("Start")
        user.find("Save the schedule").click()
        await user.should_see("This corpus has a schedule")

    visit(towns, "/corpora?start=re-encode&corpus=free", act)
    assert file.read_text().endswith("cron: 0 3 * * *\ntimezone: UTC\n")
    assert not fake(towns).started


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("evaluate&index=towns&more=cook.it%3D1", "unknown setting 'cook'"),
        ("index-corpus", "Sources: give at least one data set"),
        ("cook", "there are: index-corpus, re-encode, evaluate"),
    ],
)
def test_a_form_says_what_is_wrong(towns: Site, form: str, said: str) -> None:
    async def act(user: User) -> None:
        if form != "cook":
            await user.should_see("Now")
            user.find(kind=ui.button, content="Start").click()
        await user.should_see(said)

    visit(towns, f"/corpora?start={form}", act)
    assert not fake(towns).started


def test_a_run_is_followed_to_its_end(towns: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "EVERY", 0.05)
    works = flow_run(1, "Running", "running")
    deployed = fake(towns, works)
    deployed.lines.append(logged(BEGAN, 40, HOSTILE))

    async def act(user: User) -> None:
        await user.should_see("It has worked since 2026-11-27 03:00 UTC")
        await user.should_see("encode: 2 of 5 shards")
        await user.should_see(f"03:00:00 ERROR {HOSTILE}")
        deployed.answers = False
        await user.should_see("This page refreshes")
        deployed.answers = True
        deployed.runs[works.id] = replace(
            works, state="Rejected", kind="completed", ended=BEGAN + timedelta(seconds=75)
        )
        await user.should_see("with the result: rejected")
        await user.should_see("It took 75 seconds")
        await user.should_see("It got worse.")
        looks = -1
        while looks != deployed.looks:  # it looks a few times more, and then no more
            looks = deployed.looks
            await asyncio.sleep(0.3)

    visit(towns, f"/corpora?run={works.id}", act)


def test_cancel_start_again_and_decide(towns: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "EVERY", 0.05)
    asks, works = flow_run(1, "Suspended", "paused"), flow_run(2, "Running", "running")
    deployed = fake(towns, asks, works)

    async def decide(user: User) -> None:
        await user.should_see("waits for a person's decision")
        user.find("Decline…").click()
        await user.should_see("Searches keep using the current generation.")
        user.find("Why (kept with the decision)").type("The guides are missing")
        user.find(marker="confirm").click()
        await until(lambda: deployed.decided == [(False, "The guides are missing")])

    async def cancel(user: User) -> None:
        await user.should_see("Cancel…")
        user.find("Cancel…").click()
        user.find(marker="confirm").click()
        await user.should_see("Start it again")
        await user.should_see("It was cancelled. Finished work is kept")
        user.find("Start it again").click()
        await until(lambda: deployed.started)

    visit(towns, f"/corpora?run={asks.id}", decide)
    visit(towns, f"/corpora?run={works.id}", cancel)
    assert deployed.started == [("re-encode", {"corpus": "towns"}, None)]
    see(towns, "/corpora?run=00000000-0000-0000-0000-000000000009", "Prefect has no such run")


def test_a_run_that_replaces_texts_by_others_is_warned_of(towns: Site) -> None:
    file = towns.place.parent / "corpora" / "towns.yaml"
    file.unlink()  # it is a link to the file of all tests
    file.write_text("datasets: [python_manual]\nindex: {type: flat}\n")
    said = "Index towns was made from jsonl:"
    see(towns, "/corpora?start=re-encode&corpus=towns", said, "this corpus is python_manual", "index type: sq8 → flat")
