"""Settings that are chosen on development questions: as by a grid over them, without the test questions, of which alone
the report is."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import evaluating
from tests.support.evaluating import parameters, run, values
from tests.support.indexing import sql
from vitalfew.configs.evaluation import Chosen, Evaluate, Questions
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import LoadConfig
from vitalfew.flows.pipelines.evaluate import Evaluated
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.load import Load
from vitalfew.tasks.report import read_report
from vitalfew.tasks.reports.shown.sections import folded

ALPHAS = [1.0, 0.3, 0.0]
CHOICE: dict[str, Any] = {
    "index": "test",
    "generate": {"generator": "tests.support.fakes:FirstWords"},
    "retrieve": {"top_k": 5},
    "choose": {"retrieve.alpha": ALPHAS, "on": "development", "by": "answer_recall@5"},
    "baseline": "naive",
    "methods": {
        "none": {"retrieve": None},
        "naive": {"retrieve": {"retriever": "passage"}},
        "pareto": {"retrieve": {"retriever": "core_context"}},
    },
}


def chosen(outcome: Evaluated) -> Chosen:
    choice = Evaluate.model_validate(outcome.run.config).chosen
    assert choice
    return choice


def questions_file(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return f"jsonl:{path}?question=question&answers=answers&id=id"


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Evaluated]:
    """A store with an evaluation that chose alpha."""
    store = evaluating.copied(evaluating.searchable(), tmp_path_factory.mktemp("choice") / "store")
    return store, run(store, CHOICE)


def test_to_choose_is_to_run_the_grid_by_hand(evaluated: tuple[Path, Evaluated]) -> None:
    store, outcome = evaluated
    by_hand = {
        **CHOICE,
        "choose": None,
        "questions": {"half": "development"},
        "retrieve": {"top_k": 5, "alpha": ALPHAS},
    }
    grid = run(store, by_hand)
    figures = {alpha: values(store, grid, f"pareto alpha={alpha}")["answer_recall@5"] for alpha in ALPHAS}
    assert {tried.values["retrieve.alpha"]: tried.figure for tried in chosen(outcome).tried} == figures
    best = max(ALPHAS, key=lambda alpha: figures[alpha] or 0.0)  # of equal values the first
    (taken,) = (tried.values for tried in chosen(outcome).tried if tried.taken)
    assert taken == {"retrieve.alpha": best}
    of_test = {**CHOICE, "choose": None, "questions": {"half": "test"}, "retrieve": {"top_k": 5, "alpha": best}}
    again = run(store, of_test)
    assert {m.artifact for m in again.manifests} == again.reused == {m.artifact for m in outcome.manifests}


def test_the_report_is_of_test_questions_alone_and_says_what_was_chosen(evaluated: tuple[Path, Evaluated]) -> None:
    store, outcome = evaluated
    development = outcome.development
    assert development
    assert (development.run.name, outcome.run.name) == ("trial/development", "trial")
    assert chosen(outcome).run == development.run.run_id
    tested = outcome.methods["pareto"]["score"].artifact
    tried = [stages["score"].artifact for stages in development.methods.values()]
    ids, *of_development = (
        {row[0] for row in sql(store, f"SELECT question_id FROM scores WHERE fingerprint = '{name.partition('/')[2]}'")}
        for name in (tested, *tried)
    )
    assert all(not ids & own for own in of_development)
    assert ids | of_development[0] == {row[0] for row in sql(store, "SELECT question_id FROM questions")}
    assert [*development.methods] == [f"pareto alpha={alpha}" for alpha in ALPHAS]  # nothing else is multiplied
    assert [*outcome.methods] == ["none", "naive", "pareto"]
    report = read_report(store, outcome.run)
    assert report.asked.questions == len(ids)
    captions = [grid.caption for section in folded(report) for grid in section.grids]
    told = f"Chosen by answer recall@5 on {len(of_development[0])} development questions"
    assert any(caption.startswith(told) for caption in captions)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(
        st.sampled_from(["development/1", "test/2", "development/x", "testing", "", "q7"]), min_size=1, max_size=40
    ),
    where=st.sampled_from([None, "source_id LIKE '%/%'", "len(text) % 2 = 0"]),
)  # fmt: skip
def test_the_halves_are_the_questions(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], where: str | None
) -> None:
    """Each question is in one half, the same in any company; a data set's own halves are kept where it has both."""
    folder = tmp_path_factory.mktemp("halves")
    rows = [{"question": f"What is {'n' * (n % 3)} {n}?", "answers": ["x"], "id": name} for n, name in enumerate(names)]
    load = Load(folder, (questions_file(folder / "q.jsonl", rows),), LoadConfig())
    load.run("run")
    asked: dict[str | None, dict[int, str]] = {}
    for half in (None, "development", "test"):
        ask = Ask(folder, load.artifact, Questions.model_validate({"half": half, "where": where, "batch": 7}))
        try:
            manifest = ask.run("run")
        except InputError:
            asked[half] = {}
            continue
        read = [row for record in manifest.shards for row in ask.artifact.read(record.shard).to_pylist()]
        asked[half] = {row["question_id"]: row["source_id"] for row in read}
    assert asked["development"] | asked["test"] == asked[None]
    assert not asked["development"].keys() & asked["test"].keys()
    own = {name.split("/")[0] for name in asked[None].values()}
    if own == {"development", "test"}:
        for half in own:
            assert {name.split("/")[0] for name in asked[half].values()} == {half}


def test_several_settings_are_tried_together_and_what_is_given_is_not_chosen(store: Path) -> None:
    both = {**CHOICE, "choose": {"retrieve.alpha": [0.3, 1.0], "by": "answer_recall@5"}}
    several = parameters(store, both, choose={"retrieve": {"top_k": [2, 5]}})  # as --set choose.retrieve.top_k=[2,5]
    assert several.choose
    assert [(option.of, *option.values.values()) for option in several.choose.options] == [
        ("naive", 2), ("naive", 5), ("pareto", 2, 0.3), ("pareto", 2, 1.0), ("pareto", 5, 0.3), ("pareto", 5, 1.0)
    ]  # fmt: skip
    assert parameters(store, CHOICE, retrieve={"alpha": 0.5}).choose is None


@pytest.mark.parametrize(
    ("given_settings", "error", "message"),
    [
        ({"choose": {"by": "acuracy"}}, ConfigError, r"choose\.by = acuracy.*accuracy, exact_match"),
        ({"questions": {"half": "test"}}, ConfigError, r"questions\.half.*choose=null"),
        ({"questions": {"sample": 5}}, InputError, r"need at least 10 development questions, got 5.*choose=null"),
    ],
)
def test_what_cannot_be_chosen_is_said_with_a_remedy(
    store: Path, given_settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"(?s){message}"):
        run(store, CHOICE, **given_settings)
