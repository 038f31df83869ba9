"""Stages critique and select in an evaluation: one answer for each context, judged, and one or several chosen."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.evaluating import copied, evaluated
from tests.support.fakes import WordCritic
from tests.support.indexing import sql
from tests.support.shared import indexed
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.pipelines.evaluate import Evaluated
from vitalfew.flows.pipelines.experiments import evaluation
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.raters.base import Judgement, RatedContext
from vitalfew.tasks.report import read_report
from vitalfew.tasks.stage import RowsLost

SETTINGS: dict[str, Any] = {
    "index": "test",
    "questions": {"batch": 6},
    "retrieve": {"retriever": "passage", "top_k": 5},
    "generate": {"generator": "tests.support.fakes:FirstWords", "per_context": True},
    "critique": {"critic": "tests.support.fakes:WordCritic"},
    "methods": {
        "naive": {"generate": {"per_context": False}, "critique": None, "select": None},
        "best": {"select": {"selector": "pareto_ideal"}},
        "set": {"select": {"selector": "pareto_set"}},
        "sum": {"select": {"selector": "weighted_sum"}},
        "mean": {"select": {"selector": "geometric_mean"}},
    },
    "score": {"metrics": ["accuracy", "answer_set", "tokens"]},
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copied(indexed(), tmp_path / "store")


def run(store: Path, **settings: Any) -> Evaluated:
    return evaluated(evaluation("trial", {**SETTINGS, **settings}, {"store": store, "runner": "serial"}))


def rows(store: Path, name: str, method: str, columns: str = "*") -> list[tuple[Any, ...]]:
    return sql(
        store, f"SELECT {columns} FROM {name} JOIN methods USING (fingerprint) WHERE method = '{method}' ORDER BY ALL"
    )


def test_errors_and_scores_that_are_none_lose_no_question(store: Path, tmp_path: Path) -> None:
    questions = ("Will this fail?", "Is this odd?", "Is this awkward?", "Which river rises in the hills?")
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(f'{{"text": "{text}", "gold": ["a word"]}}\n' for text in questions))
    outcome = run(store, questions={"dataset": f"jsonl:{file}?question=text&answers=gold"})
    asked = dict(rows(store, "asked", "best", "text, question_id"))
    parts = ("no answer: the model", "issup = -0.1, isuse = 1.5", "issup = nan", "")
    found = rows(store, "critiques", "best", "question_id, isrel, issup, isuse, geometric_mean, error")
    for text, part in zip(questions, parts, strict=True):
        mine = [row[1:] for row in found if row[0] == asked[text]]
        assert len(mine) == 5
        assert all(part in error for *_, error in mine)
        assert all((value is None) == bool(part) for *scores, _ in mine for value in scores)
    for method in ("best", "set", "sum", "mean"):
        found = rows(store, "answers", method, "question_id, candidate, answers.text, score, answers.error")
        by_question = {question: [row[1:] for row in found if row[0] == key] for question, key in asked.items()}
        assert by_question[questions[0]] == [(0, "", None, "the model has no answer to this")]
        for text in questions[1:3]:
            ((candidate, answer, score, error),) = by_question[text]
            assert (candidate, score, error) == (0, None, "")
            assert answer
        assert by_question[questions[3]][0][2] is not None
    report = {method.name: method for method in read_report(store, outcome.run).methods}
    assert report["set"].error_rows == 1
    assert report["set"].summaries["set_any"].left_out == 1


class ForgetfulCritic(WordCritic):
    """Forgets the last case."""

    def rate(self, batch: Sequence[RatedContext], tick: Tick = no_tick) -> list[Judgement]:
        return super().rate(batch, tick)[:-1]


def test_a_critic_that_forgets_a_case_is_an_error(store: Path) -> None:
    with pytest.raises(RowsLost, match=r"critic .*ForgetfulCritic gave \d+ judgements for \d+ cases"):
        run(store, critique={"critic": "tests.tasks.test_critique:ForgetfulCritic"})


def test_what_does_not_fit_together_is_refused(store: Path) -> None:
    for methods, message in (
        ({"a": {"select": {}, "critique": None}}, r"method a: .*select needs a critique"),
        ({"a": {}}, r"per_context gives several candidates"),
        ({"a": {"generate": None, "select": {}}}, r"critique needs answers, but generate is null"),
    ):
        with pytest.raises((ConfigError, ValueError), match=message):
            run(store, methods=methods)
