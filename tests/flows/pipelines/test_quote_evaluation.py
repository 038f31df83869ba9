"""`vitalfew plan` of an evaluation: tokens as they then are, what is there for nothing, and no request to a server."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support import evaluating
from tests.support.damage import flip
from tests.support.evaluating import copied, searchable
from tests.support.indexing import contents, sql
from tests.support.paid import PaidServer
from vitalfew.configs.loading import merged
from vitalfew.flows.cli.main import app
from vitalfew.flows.pipelines.evaluate import EvaluationPlan
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.quote import evaluation, trial
from vitalfew.flows.pipelines.quote.evaluation import MethodQuote, QuotedEvaluation, quote_evaluation
from vitalfew.flows.pipelines.quote.questions import speeds
from vitalfew.storage.runs import IndexNotFound
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.generate import Generate
from vitalfew.tasks.rate import Critique
from vitalfew.tasks.retrieve import Retrieve

FAKE = {"generator": "tests.support.fakes:FirstWords"}
SETTINGS: dict[str, Any] = {
    "index": "test",
    "questions": {"batch": 16},
    "generate": FAKE,
    "retrieve": {"top_k": 5},
    "methods": {
        "none": {"retrieve": None},
        "naive": {"retrieve": {"retriever": "passage"}},
        "again": {"retrieve": {"retriever": "passage"}, "refine": {"max_words": 100_000}},
        "several": {
            "generate": {"per_context": True},
            "critique": {"critic": "tests.support.fakes:WordCritic"},
            "select": {},
        },
    },
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of its own with an index in it."""
    return copied(searchable(), tmp_path / "store")


@pytest.fixture(scope="module")
def quoted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, QuotedEvaluation]:
    """A store with an index in it, and the quote of an evaluation of it; the quotes lie in the store."""
    store = copied(searchable(), tmp_path_factory.mktemp("quoted") / "store")
    return store, quote_evaluation(planned(store))


@pytest.fixture(scope="module")
def paid_for(quoted: tuple[Path, QuotedEvaluation], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That store once it was evaluated too."""
    store = copied(quoted[0], tmp_path_factory.mktemp("paid") / "store")
    evaluating.run(store, SETTINGS)
    return store


@pytest.fixture
def server() -> Iterator[PaidServer]:
    with PaidServer() as server:
        yield server


def planned(store: Path, settings: Mapping[str, Any] = SETTINGS, **given: Any) -> EvaluationPlan:
    plan = graph(evaluating.parameters(store, settings, **given))
    assert isinstance(plan, EvaluationPlan)
    return plan


def by_method(quoted: QuotedEvaluation, part: int = 0) -> dict[str, MethodQuote]:
    return {row.method: row for row in quoted.parts[part].methods}


def ledger(store: Path, stage: str) -> list[tuple[int, int]]:
    return sql(store, f"SELECT quoted_tokens, tokens FROM ledger WHERE stage = '{stage}' AND tokens > 0")


def test_a_quote_is_near_what_is_then_paid(quoted: tuple[Path, QuotedEvaluation], paid_for: Path) -> None:
    store, made = paid_for, quoted[1]
    rows = by_method(made)
    questions = made.parts[0].questions
    assert [rows[name].prompts for name in rows] == [questions, questions, 0, 5 * questions]
    assert rows["several"].critic_tokens == pytest.approx(7 * 5 * questions, rel=0.1)
    assert rows["again"].tokens == 0  # the prompts of naive, which are asked once
    pairs = [pair for stage in (Generate.name, Critique.name, "encode_questions") for pair in ledger(store, stage)]
    assert len(pairs) == 5
    assert all(quoted_tokens == pytest.approx(tokens, rel=0.1) for quoted_tokens, tokens in pairs)
    stages = {stage for (stage,) in sql(store, "SELECT stage FROM ledger")}
    assert {"ask", "retrieve", "refine", "generate", "critique", "select", "score"} <= stages
    shown = CliRunner().invoke(app, ["costs", "trial", "--store", str(store)])
    assert "Quoted → actual" in shown.output


def test_a_second_run_is_quoted_by_the_answers_of_the_first(store: Path) -> None:
    settings = {**SETTINGS, "methods": {name: SETTINGS["methods"][name] for name in ("naive", "several")}}
    evaluating.run(store, settings, questions={"sample": 20})
    quoted = quote_evaluation(planned(store, settings, questions={"sample": 20, "seed": 7}))
    assert any("as in earlier answers" in basis for basis in quoted.bases)
    evaluating.run(store, settings, questions={"sample": 20, "seed": 7})
    for stage in (Generate.name, Critique.name):
        pairs = ledger(store, stage)
        assert sum(pair[0] for pair in pairs) == pytest.approx(sum(pair[1] for pair in pairs), rel=0.25)


def test_a_quote_rests_on_no_damaged_file(store: Path) -> None:
    settings = {**SETTINGS, "methods": {"naive": SETTINGS["methods"]["naive"]}}
    evaluating.run(store, settings, questions={"sample": 20})
    known = speeds(store)
    for path in [*store.glob("candidates/*/*.parquet"), *store.glob("costs/*/*.parquet")]:
        flip(path)
    assert {*speeds(store).items()} <= {*known.items()}
    quoted = quote_evaluation(planned(store, settings, questions={"sample": 20, "seed": 7}))
    assert not any("as in earlier answers" in basis for basis in quoted.bases)


def test_a_plan_leaves_nothing_in_the_store_but_quotes(quoted: tuple[Path, QuotedEvaluation]) -> None:
    def there(store: Path) -> set[Path]:
        files = (path.relative_to(store) for path in store.rglob("*") if path.is_file())
        return {path for path in files if path.parts[0] != "quotes"}

    store, _ = quoted
    assert [*store.glob("quotes/*")]
    assert there(store) == there(searchable())
    assert contents(store) == contents(searchable())


def test_what_is_finished_costs_nothing(paid_for: Path, tmp_path: Path) -> None:
    store, told = copied(paid_for, tmp_path / "store"), list[str]()
    quoted = quote_evaluation(planned(store), told.append)
    assert all(row.there and not row.tokens for row in quoted.methods)
    assert quoted.wall_seconds == 0
    assert not told  # nothing is tried
    # the same prompts under another method: nothing is asked
    other = merged(SETTINGS, {"methods": {"naive": {"refine": {"max_words": 90_000}}}})
    row = by_method(quote_evaluation(planned(store, other), told.append))["naive"]
    assert (row.there, row.prompts, row.tokens) == (False, 0, 0)
    tried = {text.partition(":")[0] for text in told}
    assert {"refine", "generate", "score"} <= tried
    assert not tried & {"encode_questions", "retrieve"}  # their rows are in the store


def test_a_trial_takes_a_share_of_the_run(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no seconds to spend, two questions are answered after the first, and others get contexts where that is
    quick."""
    monkeypatch.setattr(trial, "LEAST", 0.0)
    monkeypatch.setattr(evaluation, "SECONDS", 0.0)
    told: list[str] = []
    quoted = quote_evaluation(planned(store), told.append)
    assert [text for text in told if text.startswith("select")] == ["select: 1 question", "select: 2 questions"]
    assert "retrieve: 32 questions" in told
    assert [row.prompts for row in quoted.methods] == [45, 45, 0, 225]


def test_shards_that_are_done_cost_nothing(store: Path) -> None:
    """A run that was killed after two of its shards, of 16 questions each."""
    settings = {**SETTINGS, "methods": {"naive": SETTINGS["methods"]["naive"]}}
    whole = by_method(quote_evaluation(planned(store, settings)))["naive"]
    plan = planned(store, settings)
    stages = plan.by_method["naive"]
    for name in ("ask", "encode_questions", Retrieve.name, "refine"):
        stages[name].run("before")
    generate = stages[Generate.name]
    generate.run_preparation("before", lambda rows, tokens: None)
    generate.open()
    for shard in (0, 1):
        generate.run_shard(shard, "before", lambda rows, tokens: None)
    row = by_method(quote_evaluation(planned(store, settings)))["naive"]
    assert row.prompts == whole.prompts - 32
    assert row.tokens_in == pytest.approx(whole.tokens_in * row.prompts / whole.prompts, rel=0.01)


def test_a_run_that_was_killed_before_its_scores_is_quoted(store: Path) -> None:
    """Its answers are selected, so that only scores are left."""
    settings = {**SETTINGS, "methods": {"several": SETTINGS["methods"]["several"]}}
    stages = planned(store, settings).by_method["several"]
    for name, stage in stages.items():
        if name != "score":
            stage.run("before")
    told: list[str] = []
    (row,) = quote_evaluation(planned(store, settings), told.append).methods
    assert (row.prompts, row.tokens) == (0, 0)
    assert {text.partition(":")[0] for text in told} == {"ask", "score"}


def paid(server: PaidServer, judged: bool = True) -> dict[str, Any]:
    generate = {"generator": "openai", "model": "tiny", "base_url": server.url, "max_tokens": 40, "temperature": 0}
    judge = {"critic": "judge", "engine": "openai", "model": "tiny", "base_url": server.url}
    return merged(
        SETTINGS,
        {
            "generate": generate,
            "methods": {"again": {"refine": {"max_words": 20}}, "several": {"critique": judge if judged else {}}},
        },
    )


def test_a_server_is_sent_nothing(store: Path, server: PaidServer) -> None:
    quoted = quote_evaluation(planned(store, paid(server)))
    assert not server.asked
    rows = by_method(quoted)
    assert rows["naive"].tokens_out == 40 * rows["naive"].prompts  # the most that it may cost
    assert rows["several"].critic_tokens > 3 * rows["several"].prompts
    assert any("nothing was sent to tiny" in basis and "max_tokens=40" in basis for basis in quoted.bases)
    assert any("the time of openai:tiny is unknown" in basis for basis in quoted.bases)


def test_a_server_that_was_asked_before_is_quoted_by_its_own_counts(store: Path, server: PaidServer) -> None:
    settings = paid(server, judged=False)
    evaluating.run(store, settings, questions={"sample": 12})
    requests = len(server.prompts())
    quoted = quote_evaluation(planned(store, settings, questions={"sample": 12, "seed": 7}))
    assert len(server.prompts()) == requests
    assert any("characters per token (as in earlier prompts)" in basis for basis in quoted.bases)
    evaluating.run(store, settings, questions={"sample": 12, "seed": 7})
    pairs = ledger(store, Generate.name)
    assert len(pairs) == 4
    assert all(quoted_tokens == pytest.approx(tokens, rel=0.25) for quoted_tokens, tokens in pairs)


CHOICE: dict[str, Any] = {
    **SETTINGS,
    "choose": {"retrieve.top_k": [2, 6], "on": "development", "by": "answer_recall@5"},
    "methods": {"none": {"retrieve": None}, "pareto": {}},
}


def test_a_choice_is_quoted_with_both_halves(store: Path) -> None:
    quoted = quote_evaluation(planned(store, CHOICE))
    assert quoted.is_open
    assert [part.name for part in quoted.parts] == ["trial/development", "trial"]
    few, many = (row.tokens_in for row in quoted.parts[0].methods)
    assert few < many
    per_question = by_method(quoted, 1)["pareto"].tokens_in / quoted.parts[1].questions
    assert per_question == pytest.approx(many / quoted.parts[0].questions, rel=0.15)  # the dearer one
    evaluating.run(store, CHOICE)
    pairs = ledger(store, Generate.name)
    assert len(pairs) == 4
    assert all(quoted_tokens == pytest.approx(tokens, rel=0.15) for quoted_tokens, tokens in pairs)
    again = quote_evaluation(planned(store, CHOICE))
    assert not again.is_open
    assert all(row.there for row in again.methods)


def test_what_cannot_be_evaluated_is_not_quoted(store: Path) -> None:
    with pytest.raises(IndexNotFound, match="no index 'other'"):
        planned(store, {**SETTINGS, "index": "other"})
    with pytest.raises(InputError, match="no question matches it"):
        quote_evaluation(planned(store, questions={"where": "false"}))
    with pytest.raises(InputError, match="development questions"):
        quote_evaluation(planned(store, CHOICE, questions={"sample": 3}))


@pytest.mark.parametrize("questions", [1, 5])
def test_fewer_questions_than_a_trial_takes(store: Path, questions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then all of them are tried, and the quote is exact, if there is time for them, however busy the machine is."""
    monkeypatch.setattr("vitalfew.flows.pipelines.quote.trial.LEAST", 300.0)
    rows = by_method(quote_evaluation(planned(store, questions={"sample": questions})))
    evaluating.run(store, SETTINGS, questions={"sample": questions})
    assert rows["naive"].prompts == questions
    assert all(one == other for one, other in ledger(store, Generate.name))


def test_the_command(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "methods:\n  naive RAG: {retrieve: {retriever: passage}}\n"
        "generate: {generator: 'tests.support.fakes:FirstWords'}\n"
    )
    options = ["--store", str(store), "--runner", "serial"]
    shown = CliRunner().invoke(app, ["plan", str(file), "--index", "test", *options])
    assert shown.exit_code == 0, shown.output
    assert "naive RAG" in shown.output
    assert "With 1 worker (serial)" in shown.output
    assert "Planning" not in shown.output  # progress is for terminals
    for arguments, said in [
        (["quickstrat"], "did you mean 'quickstart'"),
        (["quickstart", "--index", "none"], "no index 'none'"),
        (["quickstart", "other", "--index", "test"], "one experiment"),
    ]:
        refused = CliRunner().invoke(app, ["plan", *arguments, *options])
        assert refused.exit_code == 1
        assert said in " ".join(refused.output.split())
