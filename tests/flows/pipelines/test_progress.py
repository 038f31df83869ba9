"""What a stage's progress tells of the nodes of a cluster."""

import logging

import pytest

from vitalfew.flows.pipelines import run as module
from vitalfew.flows.pipelines.run import StageProgress


def test_nodes_at_work_and_their_rows(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(module, "HOOK_EVERY", 0.0)
    monkeypatch.setattr(module, "LOG_EVERY", 0.0)
    told: list[str] = []
    with (
        caplog.at_level(logging.INFO, logger="vitalfew"),
        StageProgress("encode", lambda percent, line: told.append(line)) as progress,
    ):
        progress.expect(2000)
        progress.at_work({"ann/1f09ac", "bob/77e0d2", "eve/b2c110"})
        progress.add(1200, 0, "ann/1f09ac")
        progress.add(300, 0, "bob/77e0d2")
        assert progress.line().endswith(", 3 nodes")
        progress.at_work({"ann/1f09ac", "bob/77e0d2"})  # the third is lost
        assert told[-1].endswith(", 2 nodes (ann/1f09ac 1,200 rows; bob/77e0d2 300 rows; eve/b2c110 0 rows, idle)")
        assert told[-1] in caplog.text
        progress.add(500, 0, "bob/77e0d2")
        progress.at_work(())
    assert told[-1] == "2,000 of 2,000 rows, 3 nodes (ann/1f09ac 1,200 rows; bob/77e0d2 800 rows; eve/b2c110 0 rows)"
