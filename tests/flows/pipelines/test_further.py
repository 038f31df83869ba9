"""Stages of a user's own in an evaluation: their place, their settings, their tables in SQL."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.evaluating import evaluated
from tests.support.indexing import index, sql
from vitalfew.flows.cli.main import app
from vitalfew.flows.pipelines.evaluate import Evaluated
from vitalfew.flows.pipelines.experiments import evaluation

FIRST, LONGEST = "tests.support.further:First", "tests.support.further:Longest"
SETTINGS: dict[str, Any] = {
    "index": "test",
    "retrieve": {"retriever": "passage", "top_k": 4},
    "generate": {"generator": "tests.support.fakes:FirstWords"},
    "methods": {"none": {"retrieve": None}, "all": {}, "few": {"stages": {FIRST: {"keep": 2}}}},
    "stages": {LONGEST: {}},
    "score": {"metrics": ["tokens"]},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("store")
    index(store, "synthetic:passages=60,questions=20,seed=3")
    return store


def run(store: Path) -> Evaluated:
    return evaluated(evaluation("trial", SETTINGS, {"store": store, "runner": "serial"}))


def test_stages_have_their_place_and_the_next_read_what_they_wrote(store: Path) -> None:
    outcome = run(store)
    assert "longest" not in outcome.methods["none"]
    assert [*outcome.methods["few"]][-5:] == ["refine", "first", "generate", "longest", "score"]
    contexts = "SELECT method, max(value) FROM scores JOIN methods USING (fingerprint) WHERE metric = 'contexts'"
    assert dict(sql(store, f"{contexts} AND methods.run_id = '{outcome.run.run_id}' GROUP BY 1")) == {
        "all": 4,
        "few": 2,
    }
    assert not run(store).new()
    # A table that no list has is a view with its comments.
    longest = "SELECT max(tokens) FROM longest JOIN methods USING (fingerprint) WHERE method = 'all'"
    evidence = "SELECT max(tokens) FROM evidence JOIN methods USING (fingerprint) WHERE method = 'all'"
    assert sql(store, longest) == sql(store, evidence) != [(None,)]
    shown = CliRunner().invoke(app, ["tables", "longest", "--store", str(store)]).output
    assert "the longest context of a question" in shown
