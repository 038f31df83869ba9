"""A plan: built once per run and handed on, asked what it read once, run by any executor; a report computed once."""

import json
import pickle
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from prefect.testing.utilities import prefect_test_harness
from typer.testing import CliRunner

from tests.support.evaluating import copied
from tests.support.indexing import SYNTHETIC, parameters
from tests.support.shared import indexed
from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.cli.main import app
from vitalfew.flows.pipelines import evaluate as evaluation_pipeline
from vitalfew.flows.pipelines import index_corpus as index_pipeline
from vitalfew.flows.pipelines.experiments import evaluation
from vitalfew.flows.pipelines.graph import graph, handed_over
from vitalfew.flows.pipelines.quote import corpus as quoting
from vitalfew.flows.pipelines.run import in_order, run_serially
from vitalfew.storage.artifacts import Artifact, Manifest
from vitalfew.tasks import load
from vitalfew.tasks.stage import Stage

FAKE = ["--set", "encode.encoder=tests.support.fakes:HashEncoder"]
TWO: dict[str, Any] = {
    "index": "test",
    "generate": {"generator": "tests.support.fakes:FirstWords"},
    "methods": {"none": {"retrieve": None}, "naive": {"retrieve": {"retriever": "passage"}}},
}


class Calls:
    """Counts the calls of a function that stays what it is."""

    def __init__(self, function: Any) -> None:
        self.function, self.count = function, 0

    def __call__(self, *given: Any, **named: Any) -> Any:
        self.count += 1
        return self.function(*given, **named)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call it with a module and the name of a function in it, whose calls are counted from then on."""

    def count(module: Any, name: str) -> Calls:
        calls = Calls(getattr(module, name))
        monkeypatch.setattr(module, name, calls)
        return calls

    return count


@pytest.fixture
def flows_here(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Flows run with Prefect, whose stages are done in this process: Ray starts nothing."""
    from vitalfew.flows import evaluate as evaluate_flow
    from vitalfew.flows import index_corpus as index_flow

    for flow in (index_flow, evaluate_flow):
        monkeypatch.setattr(flow, "ray_cluster", lambda execution: nullcontext())
        monkeypatch.setattr(flow, "on_ray", lambda workers, keep=False: run_serially)
    monkeypatch.setattr("vitalfew.flows.cli.terminal.end_at_once_on_interrupt", lambda store: None)
    with prefect_test_harness(server_startup_timeout=120):
        yield


def invoke(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of its own with an index in it."""
    return copied(indexed(), tmp_path / "store")


def trial(store: Path, settings: dict[str, Any] = TWO) -> Evaluate:
    return evaluation("trial", settings, {"store": store, "runner": "serial"})


@pytest.mark.parametrize("runner", ["serial", pytest.param("ray", marks=pytest.mark.slow)])
def test_a_command_builds_its_graph_once_and_computes_its_report_once(
    runner: str, tmp_path: Path, counted: Any, request: pytest.FixtureRequest
) -> None:
    if runner == "ray":
        request.getfixturevalue("flows_here")
    store, file, by = tmp_path / "store", tmp_path / "trial.yaml", ["--runner", runner]
    file.write_text(json.dumps(TWO))
    indexes = counted(index_pipeline, "index_stages")
    opened = counted(load, "parse_dataset")
    invoke("index", SYNTHETIC, "--name", "test", "--store", store, *FAKE, *by)
    assert (indexes.count, opened.count) == (1, 1)
    assert "Nothing to do" in invoke("index", SYNTHETIC, "--name", "test", "--store", store, *FAKE, *by)
    assert (indexes.count, opened.count) == (2, 2)

    built = counted(evaluation_pipeline, "evaluation_stages")
    variants = counted(evaluation_pipeline, "with_indexes")
    read, written = counted(evaluation_pipeline, "read_report"), counted(evaluation_pipeline, "write_report")
    for runs in (1, 2):  # by the flow, and again where there is nothing to do
        assert "naive" in invoke("evaluate", file, "--store", store, *by)
        assert [each.count for each in (built, variants, read, written)] == [runs] * 4


def test_a_quote_builds_samples_and_the_graph_of_the_run_once(
    tmp_path: Path, counted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quoting.files, "free_bytes", lambda store: 10 << 20)  # enough, but not ample: a quote tells
    built = counted(index_pipeline, "index_stages")
    plan = graph(parameters(tmp_path, "synthetic:passages=40,questions=4,seed=3"))
    assert built.count == 1
    plan.room()
    assert built.count == 1 + 4  # the samples, of 4, 4, 16 and all 40 passages
    plan.room()
    assert built.count == 1 + 4  # the quotes are there
    assert not plan.done()


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


def test_what_was_asked_is_not_read_again(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = graph(parameters(store))
    assert plan.done()
    monkeypatch.setattr(Artifact, "manifest", None)  # whoever calls it fails
    assert plan.done()
    assert len(plan.run(never).manifests) == 4


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


def test_a_plan_is_handed_over_for_its_own_parameters_alone(tmp_path: Path) -> None:
    given = parameters(tmp_path)
    plan = graph(given)
    with handed_over(given, plan):
        assert graph(parameters(tmp_path)) is plan
        assert graph(parameters(tmp_path, name="other")) is not plan
    assert graph(given) is not plan


def test_stages_come_after_what_they_read() -> None:
    store = indexed(bm25={"enabled": True})
    plan = graph(parameters(store, bm25={"enabled": True}))
    order = ["load", "split", "encode", "index", "terms", "bm25"]
    assert [stage.name for stage in plan.stages] == order
    assert in_order(reversed(plan.stages))[0][0].name == "load"
    steps = graph(trial(store)).steps
    verbs = ["ask", "encode_questions", "retrieve", "refine", "generate", "score"]
    assert [step[0].name for step in steps] == verbs
    assert [len(step) for step in steps] == [1, 1, 1, 1, 2, 2]


def test_wrong_settings_are_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there are no questions; name an index"):
        graph(evaluation("trial", {"methods": {"none": {"retrieve": None}}}, {"store": tmp_path}))
    assert not (tmp_path / "runs").exists()
