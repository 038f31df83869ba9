"""The flow evaluate as a whole: tables, grids, reuse, reports, bad input, secrets."""

import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from prefect.blocks.system import Secret
from typer.testing import CliRunner

from tests.support import evaluating
from tests.support.evaluating import copied, searchable, values
from tests.support.indexing import contents, index, sql
from tests.support.shared import shared
from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.loading import ConfigError, merged
from vitalfew.flows.cli.main import app
from vitalfew.flows.evaluate import use_secrets
from vitalfew.flows.pipelines.evaluate import Evaluated
from vitalfew.flows.pipelines.experiments import evaluation
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.run import run_serially
from vitalfew.storage.artifacts import Manifest
from vitalfew.storage.runs import IndexNotFound, read_runs
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.report import read_report
from vitalfew.tasks.reports.runs import find_run
from vitalfew.tasks.stage import Stage

FAKE = {"generator": "tests.support.fakes:FirstWords"}
THREE: dict[str, Any] = {
    "index": "test",
    "questions": {"batch": 16},
    "generate": FAKE,
    "retrieve": {"top_k": 5},
    "methods": {
        "none": {"retrieve": None},
        "naive": {"retrieve": {"retriever": "passage"}},
        "pareto": {"retrieve": {"retriever": "core_context"}},
    },
}


@pytest.fixture
def answered(tmp_path: Path) -> Path:
    """A store of its own in which the three methods were evaluated."""
    return copied(shared("evaluated-three", lambda folder: run(copied(searchable(), folder))), tmp_path / "answered")


def parameters(store: Path, settings: dict[str, Any] = THREE, **given: Any) -> Evaluate:
    return evaluating.parameters(store, settings, **given)


def run(store: Path, settings: dict[str, Any] = THREE, **given: Any) -> Evaluated:
    return evaluating.run(store, settings, **given)


def test_three_methods_from_questions_to_a_table(answered: Path) -> None:
    store = answered
    outcome = run(store)
    assert [*outcome.methods["none"]] == ["ask", "generate", "score"]
    pareto = values(store, outcome, "pareto")
    assert 0 < (pareto["passage_recall@5"] or 0) <= 1
    assert values(store, outcome, "none")["passage_recall@5"] is None
    done = CliRunner().invoke(app, ["report", outcome.run.run_id[:15], "--store", str(store)])
    assert (done.exit_code, "pareto" in done.output) == (0, True), done.output
    # the collector keeps what the latest evaluation refers to
    assert CliRunner().invoke(app, ["store", "gc", "--delete", "--store", str(store)]).exit_code == 0
    assert read_report(store, find_run(store, "trial")) == read_report(store, outcome.run)
    # SQL finds a method's rows by its name
    recall = "SELECT avg(value) FROM scores JOIN methods USING (fingerprint) WHERE method = 'pareto'"
    assert sql(store, f"{recall} AND metric = 'passage_recall@5'") == [(pytest.approx(pareto["passage_recall@5"]),)]


def test_hits_are_of_the_corpus_that_was_planned(store: Path) -> None:
    """Another corpus takes the index's name after the plan; the stages are as Ray's workers get them."""
    given = merged(
        THREE, {"methods": {"keywords": {"retrieve": {"retriever": "bm25"}}}, "questions": {"sample": 12, "batch": 8}}
    )
    plan = graph(parameters(store, given))
    planned = {*sql(store, "SELECT passage_id FROM passages")}
    index(store, "synthetic:passages=40,questions=12,seed=8", bm25={"enabled": True})

    def execute(stages: Sequence[Stage], run_id: str) -> list[Manifest]:
        return run_serially([pickle.loads(pickle.dumps(stage)) for stage in stages], run_id)

    outcome = plan.run(execute)
    for method in ("naive", "pareto", "keywords"):
        hits = outcome.methods[method]["retrieve"]
        found = {(row["passage_id"],) for row in hits.read(store, "hits", ["passage_id"]).to_pylist()}
        assert found <= planned, method
    shown = read_report(store, outcome.run).indexes
    assert [(each.name, each.passages) for each in shown] == [("test", 120)]
    # the name stands for the other corpus: an evaluation planned now is of that
    later = run(store, given)
    found = {(row["passage_id"],) for row in later.methods["naive"]["retrieve"].read(store, "hits").to_pylist()}
    assert not found & planned


def test_a_second_run_does_nothing_and_a_grid_only_what_is_new(answered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = answered
    before = contents(store)
    again = run(store)
    assert again.reused == {m.artifact for each in again.methods.values() for m in each.values()}
    assert contents(store) == before
    log = store.parent / "prompts"
    monkeypatch.setenv("VITALFEW_TEST_PROMPTS", str(log))
    swept = run(store, retrieve={"alpha": [0.8, 0.78]})
    assert [*swept.methods] == ["none", "naive", "pareto alpha=0.8", "pareto alpha=0.78"]
    new = {m.stage for m in swept.methods["pareto alpha=0.78"].values() if m.artifact not in swept.reused}
    assert new == {"retrieve", "refine", "generate", "score"}
    assert swept.methods["pareto alpha=0.78"]["encode_questions"].artifact in swept.reused
    # a prompt that another alpha led to as well is not asked again
    (kept,) = sql(
        store,
        "SELECT count(*) FILTER (reused), count(*) FROM candidates JOIN methods USING (fingerprint) "
        "WHERE method = 'pareto alpha=0.78'",
    )
    assert 0 < kept[0] < kept[1]
    assert len(log.read_text().splitlines()) == kept[1] - kept[0]


def test_questions_are_chosen_by_condition_and_seed(store: Path) -> None:
    every = {row[0] for row in sql(store, "SELECT question_id FROM questions")}

    def asked(**questions: Any) -> set[int]:
        alone = {"index": "test", "generate": FAKE, "methods": {"none": {"retrieve": None}}}
        outcome = run(store, alone, questions=questions)
        artifact = outcome.methods["none"]["ask"].artifact.split("/")[1]
        return {row[0] for row in sql(store, f"SELECT question_id FROM asked WHERE fingerprint = '{artifact}'")}

    few, more = asked(sample=5), asked(sample=20)
    assert few < more < every
    assert (len(few), more != asked(sample=20, seed=7)) == (5, True)
    with pytest.raises(InputError, match=r"no question matches it; there are \d+ of synthetic"):
        asked(where="text = 'nothing'")


def test_questions_of_a_data_set_of_their_own(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text('{"text": "Who is it?", "gold": []}\n{"text": "Will this fail?", "gold": ["yes"]}\n')
    outcome = run(store, questions={"dataset": f"jsonl:{file}?question=text&answers=gold"})
    report = read_report(store, outcome.run)
    assert report.asked.questions == 2
    naive = report.methods[1]
    assert naive.error_rows == 1
    assert naive.errors == ("the model has no answer to this",)
    assert naive.summaries["f1"].left_out == 2  # one has no gold answer, one no answer
    assert naive.summaries["f1"].value is None
    # what failed is asked again by the next experiment that asks it, what did not is not
    assert sql(store, "SELECT count(*) FROM candidates WHERE error <> ''")[0][0] == 3


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"retrieve": {"alhpa": 0.5}}, ConfigError, "'retrieve.alhpa'.*did you mean 'retrieve.alpha'"),
        ({"index": "other"}, IndexNotFound, r"no index 'other'.*there are: test"),
    ],
)
def test_bad_settings_are_told_before_anything_runs(
    store: Path, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(store, {**THREE, **settings})
    assert [each.flow for each in read_runs(store)] == ["index_corpus"]


def test_the_key_comes_from_the_environment_or_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str, **_: Any) -> Secret:
        assert name == "openai-api-key"
        return Secret(value="from the block")

    monkeypatch.setattr(Secret, "load", load)
    served = {"generator": "openai", "model": "a", "base_url": "http://127.0.0.1:1/v1"}
    answering = evaluation("trial", {"generate": served, "methods": {"a": {"retrieve": None}}})
    for given, used in (("from the environment", "from the environment"), ("", "from the block")):
        monkeypatch.setenv("OPENAI_API_KEY", given)
        use_secrets(answering)
        assert os.environ["OPENAI_API_KEY"] == used
    monkeypatch.delenv("OPENAI_API_KEY")
    use_secrets(evaluation("trial", {"methods": {"a": {"retrieve": None}}}))
    assert "OPENAI_API_KEY" not in os.environ
