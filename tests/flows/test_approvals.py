"""A person decides on a new generation: a run of `vitalfew ui` waits, over a restart of the server, and goes on."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.flows.pipelines.test_gate import NAME, current, doubtful, re_encode, write
from tests.support.fakes import ChatServer, Reply
from tests.support.indexing import sql
from tests.support.prefect_ui import Ui, wait
from vitalfew.storage import generations

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def hook() -> Iterator[ChatServer]:
    with ChatServer(lambda path, body, attempt: Reply({})) as server:
        yield server


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory, hook: ChatServer) -> Iterator[Ui]:
    """`vitalfew ui` of a corpus with a gate, whose index has one generation."""
    folder = tmp_path_factory.mktemp("approvals")
    re_encode(write(folder))
    served = Ui(
        folder / "store",
        VITALFEW_WEBHOOK=f"{hook.url}/x",
        VITALFEW_RETRY_SECONDS="1",
        PREFECT_SERVER_SERVICES_PAUSE_EXPIRATIONS_LOOP_SECONDS="1",
    )
    served.start()
    yield served
    if served.works():
        served.end()


def suspended(ui: Ui) -> str:
    """A run that has come to wait for a person."""
    run = ui.run("re-encode", corpus=NAME)
    wait(lambda: ui.state(run)["name"] == "Suspended", 240, lambda: f"{ui.state(run)} {ui.log('runner')}")
    return run


def answered(ui: Ui, run: str, decision: str, note: str) -> Any:
    """The run's last state after a person has filled the form."""
    told = ui.call(f"/flow_runs/{run}/resume", {"run_input": {"decision": decision, "note": note}})
    assert told["status"] == "ACCEPT", told
    return ui.ended(run, 240)


def test_a_run_waits_over_a_restart_and_promotes_what_is_approved(ui: Ui, hook: ChatServer) -> None:
    store = doubtful(ui.store.parent, approve="on_doubt")
    run = suspended(ui)
    candidate = generations.find(store, NAME)
    assert (candidate.number, candidate.verdict, current(store)) == (2, "in doubt", 1)
    told = [body for _, body, _ in hook.asked]
    assert [(each["state"], f"flow-run/{run}" in each["message"]) for each in told] == [("Suspended", True)]
    other = ui.run("re-encode", corpus=NAME)  # the night after: it does not ask a second time
    assert ui.ended(other, 240)["message"].startswith("Unchanged: Generation 2 of towns is in doubt")
    ui.kill()
    ui.start()
    assert ui.state(run)["name"] == "Suspended", ui.state(run)
    refused = ui.call(f"/flow_runs/{run}/resume", {"run_input": {"decision": "perhaps"}})
    assert refused["status"] == "REJECT"
    state = answered(ui, run, "promote", "looked at them")
    assert (state["type"], "is promoted: a person approved it: looked at them." in state["message"]) == (
        "COMPLETED",
        True,
    )
    assert current(store) == 2
    assert sql(store, "SELECT DISTINCT generation, verdict, approval FROM gates") == [(2, "promoted", "approved")]
    wait(lambda: events(ui) >= {f"index.{name}" for name in ("held", "promoted")} | {"evaluation.finished"}, 60)


def events(ui: Ui) -> set[str]:
    """The kinds of events that the server has received from runs."""
    asked = {"filter": {"event": {"prefix": ["vitalfew."]}}}
    return {each["event"].removeprefix("vitalfew.") for each in ui.call("/events/filter", asked)["events"]}


def test_what_is_declined_is_not_searched(ui: Ui) -> None:
    before = current(ui.store)
    store = doubtful(ui.store.parent, approve="always")
    write_more(ui, 1)
    ui.call(f"/flow_runs/{suspended(ui)}/set_state", {"state": {"type": "CANCELLED"}, "force": True})
    state = answered(ui, suspended(ui), "decline", "")  # what was cancelled is asked again
    assert (state["name"], current(store)) == ("Rejected", before)
    assert "is rejected: a person declined it. A search still finds" in state["message"]


def write_more(ui: Ui, houses: int) -> None:
    """Add a passage to the corpus, so that its next generation is a new one."""
    path = ui.store.parent / "passages.jsonl"
    more = {"id": f"village{houses}", "text": f"A village of {houses} houses."}
    path.write_text(path.read_text() + json.dumps(more) + "\n")
