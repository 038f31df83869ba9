"""A person decides on a new generation: a run of `vitalfew ui` waits, over a restart of the server, and goes on."""

from collections.abc import Iterator

import pytest

from tests.flows.pipelines.test_gate import NAME, current, doubtful, re_encode, write
from tests.support.fakes import ChatServer
from tests.support.indexing import sql
from tests.support.prefect_ui import Ui, wait
from vitalfew.storage import generations

pytestmark = pytest.mark.slow


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


def test_a_run_waits_over_a_restart_and_promotes_what_is_approved(ui: Ui, hook: ChatServer) -> None:
    store = doubtful(ui.store.parent, approve="on_doubt")
    run = ui.run("re-encode", corpus=NAME)
    wait(lambda: ui.state(run)["name"] == "Suspended", lambda: f"{ui.state(run)} {ui.log('runner')}")
    candidate = generations.find(store, NAME)
    assert (candidate.number, candidate.verdict, current(store)) == (2, "in doubt", 1)
    told = [body for _, body, _ in hook.asked]
    assert [(each["state"], f"flow-run/{run}" in each["message"]) for each in told] == [("Suspended", True)]
    wait(lambda: "index.held" in events(ui))  # which a kill at this moment would lose
    ui.kill()
    ui.start()
    assert ui.state(run)["name"] == "Suspended", ui.state(run)
    refused = ui.call(f"/flow_runs/{run}/resume", {"run_input": {"decision": "perhaps"}})
    assert refused["status"] == "REJECT"
    form = {"run_input": {"decision": "promote", "note": "looked at them"}}
    assert ui.call(f"/flow_runs/{run}/resume", form)["status"] == "ACCEPT"
    state = ui.ended(run)
    assert (state["type"], "is promoted: a person approved it: looked at them." in state["message"]) == (
        "COMPLETED",
        True,
    )
    assert current(store) == 2
    assert sql(store, "SELECT DISTINCT generation, verdict, approval FROM gates") == [(2, "promoted", "approved")]
    wait(lambda: events(ui) >= {f"index.{name}" for name in ("held", "promoted")} | {"evaluation.finished"})


def events(ui: Ui) -> set[str]:
    """The kinds of events that the server has received from runs."""
    asked = {"filter": {"event": {"prefix": ["vitalfew."]}}}
    return {each["event"].removeprefix("vitalfew.") for each in ui.call("/events/filter", asked)["events"]}
