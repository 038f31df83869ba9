"""A plan: built once per run and handed on, asked what it read once, run by any executor; a report computed once."""

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.evaluating import copied
from tests.support.indexing import parameters
from tests.support.shared import indexed
from vitalfew.configs.evaluation import Evaluate
from vitalfew.flows.pipelines.experiments import evaluation
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.run import run_serially
from vitalfew.storage.artifacts import Manifest
from vitalfew.tasks.stage import Stage

TWO: dict[str, Any] = {
    "index": "test",
    "generate": {"generator": "tests.support.fakes:FirstWords"},
    "methods": {"none": {"retrieve": None}, "naive": {"retrieve": {"retriever": "passage"}}},
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of its own with an index in it."""
    return copied(indexed(), tmp_path / "store")


def trial(store: Path, settings: dict[str, Any] = TWO) -> Evaluate:
    return evaluation("trial", settings, {"store": store, "runner": "serial"})


def test_a_plan_is_asked_and_run(tmp_path: Path) -> None:
    plan = graph(parameters(tmp_path))
    assert [stage.name for stage in plan.missing()] == ["load", "split", "encode", "index"]
    plan.room()
    assert not plan.done()
    outcome = plan.run(run_serially)
    assert plan.done()
    assert [manifest.stage for manifest in outcome.manifests] == ["load", "split", "encode", "index"]
    assert outcome.new() == outcome.manifests
    again = graph(parameters(tmp_path))
    assert again.done()
    assert again.run(never).new() == []


def never(stages: Sequence[Stage], run_id: str) -> list[Manifest]:
    raise AssertionError(f"{stages} were done before")


def test_a_damaged_artifact_is_noticed_by_the_next_plan(store: Path) -> None:
    next(store.glob("vectors/*/00001.parquet")).unlink()
    plan = graph(parameters(store))
    assert [stage.name for stage in plan.missing()] == ["encode"]
    assert [manifest.stage for manifest in plan.run(run_serially).new()] == ["encode"]


def test_plans_travel(store: Path) -> None:
    for plan in (graph(parameters(store)), graph(trial(store))):
        there = plan.done()
        copy = pickle.loads(pickle.dumps(plan))
        assert [stage.artifact for stage in copy.stages] == [stage.artifact for stage in plan.stages]
        assert copy.done() == there
    assert copy.run(run_serially).report.report.methods[1].name == "naive"
