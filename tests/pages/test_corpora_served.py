"""Deployments of a real `vitalfew ui`, as the page Corpora and indexes starts and follows them."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.indexing import index
from tests.support.prefect_ui import Ui, wait
from vitalfew.flows.server.deployed import NEVER_BEGAN, Deployed, NoFlowRun, StartRefused

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    folder = tmp_path_factory.mktemp("corpora")
    (folder / "corpora").mkdir()
    settings = "encode: {encoder: 'tests.support.fakes:HashEncoder'}\nworkers: 1\n"
    (folder / "corpora" / "towns.yaml").write_text(
        f"datasets: ['synthetic:passages=60,questions=10,seed=3']\n{settings}"
    )
    index(folder / "store", name="demo")
    made = Ui(folder / "store")
    made.start()
    yield made
    assert made.end()[1] == []


@pytest.fixture
def deployed(ui: Ui, monkeypatch: pytest.MonkeyPatch) -> Deployed:
    """As in the process of the pages, whose settings these are."""
    from prefect.context import refresh_global_settings_context

    monkeypatch.setenv("PREFECT_HOME", str(ui.home))
    monkeypatch.setenv("PREFECT_API_URL", f"{ui.address}/api")
    monkeypatch.setenv("PREFECT_SERVER_API_AUTH_STRING", ui.secret)
    refresh_global_settings_context()
    return Deployed(ui.store)


def test_start_follow_schedule_and_cancel(ui: Ui, deployed: Deployed) -> None:
    run = deployed.start("re-encode", {"corpus": "towns"})
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    planned = deployed.start("re-encode", {"corpus": "towns"}, tomorrow)
    assert [(each.id, each.about, each.flow) for each in deployed.planned() if each.id == planned] == [
        (planned, "towns", "re-encode")
    ]
    assert abs((deployed.follow(planned).run.due or datetime.now(UTC)) - tomorrow) < timedelta(seconds=1)
    deployed.cancel(planned)
    cancelled = deployed.follow(planned).run
    assert (cancelled.kind, cancelled.message) == ("cancelled", NEVER_BEGAN)
    assert planned not in [each.id for each in deployed.planned()]

    wait(lambda: deployed.follow(run).run.is_final, lambda: ui.log("runner"))
    ended = deployed.follow(run)
    assert (ended.run.kind, ended.run.flow, ended.run.about) == ("completed", "re-encode", "towns")
    assert any("encode" in line for _, line in ended.stages)
    wait(lambda: any("encode: done" in line for line in deployed.follow(run).log))
    assert run in [each.id for each in deployed.recent()]
    with pytest.raises(StartRefused, match=r"Prefect refused it: .*parameters\.alpha"):
        deployed.start("evaluate", {"alpha": 2})
    with pytest.raises(NoFlowRun, match="no such run"):
        deployed.follow("00000000-0000-0000-0000-000000000000")
    with pytest.raises(NoFlowRun, match="not the id"):
        deployed.follow("latest")
    assert ui.secret not in ui.log("server") + repr(deployed) + str(os.listdir(Path(ui.store)))
