"""Two runs of one corpus at the same time."""

import threading
from pathlib import Path

import pytest

from tests.support.indexing import index, parameters, reused
from tests.support.prefect_ui import wait
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.run import Outcome
from vitalfew.storage.runs import recorded_run


def test_a_run_says_for_which_run_it_waits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    load, *_ = graph(parameters(tmp_path)).stages
    outcomes: list[Outcome] = []
    second = threading.Thread(target=lambda: outcomes.append(index(tmp_path, name="second")))
    with recorded_run(tmp_path, "index-corpus", "first", {}, [load.artifact.name]) as first, load.artifact.locked():
        second.start()
        told = f"load: waits for the run first ({first.run_id}), which works on the same passages"
        wait(lambda: told in caplog.messages, 30, lambda: caplog.text)
        assert outcomes == []
    second.join(60)
    assert outcomes[0].run.state == "completed"
    assert caplog.text.count("waits for") == 1


def test_a_run_that_waits_for_nobody_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    index(tmp_path)
    assert reused(index(tmp_path)) >= {"load", "split", "encode", "index"}
    assert "waits for" not in caplog.text
