"""Cases into rows of `scores` and `summaries`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

from vitalfew.configs.evaluation import ScoreConfig
from vitalfew.configs.loading import ConfigError
from vitalfew.storage import schemas
from vitalfew.tasks import score as scoring
from vitalfew.tasks.metrics.base import Answer, Case, Column, PerQuestion, Summary, Values
from vitalfew.tasks.registry import UnknownName

NAMES = ("exact_match", "f1", "passage_recall", "tokens")


def case(output: str, *gold: str) -> Case:
    return Case("Who?", gold, (), (), answer=Answer(output, 10, 2, 0.1))


class Given(PerQuestion):
    """Has one column, and gives the same values whatever it is asked."""

    given: ClassVar[Values] = {"f1": [0.0]}

    def columns(self) -> tuple[Column]:
        return (Column("f1", "another F1"),)

    def score(self, cases: Sequence[Case]) -> Values:
        return self.given


class NoNumber(Given):
    given: ClassVar[Values] = {"f1": [math.nan]}


class Undeclared(Given):
    given: ClassVar[Values] = {"other": [1.0]}


class Longest(PerQuestion):
    """A metric of all answers together."""

    corpus = True

    def columns(self) -> tuple[Column]:
        return (Column("longest", "longest answer", "characters", "lower", ("an answer",)),)

    def score(self, cases: Sequence[Case]) -> Values:
        return {"longest": [None] * len(cases)}

    def summary(self, cases: Sequence[Case]) -> Mapping[str, Summary]:
        lengths = [len(each.answer.text) for each in cases if each.answer]
        return {"longest": Summary(float(max(lengths)), len(cases) - len(lengths))}


class Silent(PerQuestion):
    """Does not say what its columns are."""


CASES = [case("Ada", "Ada"), case("the Ada lamp", "Ada"), case("Bob", "Ada"), case("Eve")]


def test_rows_and_means() -> None:
    metrics = scoring.make_metrics(ScoreConfig(metrics=NAMES, k=(5,)))
    scores = scoring.score_cases(metrics, [4, 5, 6, 7], CASES)
    assert scores.schema == schemas.SCORES
    assert {"question_id": 5, "metric": "f1", "value": pytest.approx(2 / 3)} in scores.to_pylist()
    assert scores.num_rows == 3 + 3 + 0 + 5 * 4
    summaries = scoring.summarise(metrics, scores, 4)
    assert summaries.schema == schemas.SUMMARIES
    rows = {row.pop("metric"): row for row in summaries.to_pylist()}
    assert list(rows)[:3] == ["exact_match", "f1", "passage_recall@5"]
    assert rows["f1"] == {
        "value": pytest.approx((1 + 2 / 3) / 3), "questions": 4, "left_out": 1, "heading": "F1", "unit": "0 to 1",
        "direction": "higher", "needs": ["an answer", "gold answers"], "detail": False,
    }  # fmt: skip
    figures = ("value", "questions", "left_out")
    assert [rows["passage_recall@5"][name] for name in figures] == [None, 4, 4]
    assert [rows["prompt_tokens"][name] for name in figures] == [10, 4, 0]
    assert [rows["prompt_tokens"][name] for name in ("unit", "direction")] == ["tokens", "lower"]


def test_a_metric_of_the_whole_corpus() -> None:
    metrics = scoring.make_metrics(ScoreConfig(metrics=("f1", "tests.tasks.test_score:Longest")))
    scores = scoring.score_cases(metrics, [4, 5, 6, 7], CASES)
    assert set(scores["metric"].to_pylist()) == {"f1"}
    last = scoring.summarise(metrics, scores, 4, CASES).to_pylist()[-1]
    assert last == {
        "metric": "longest", "value": 12, "questions": 4, "left_out": 0, "heading": "longest answer",
        "unit": "characters", "direction": "lower", "needs": ["an answer"], "detail": False,
    }  # fmt: skip
    with pytest.raises(ValueError, match="got 2 cases for 4 questions"):
        scoring.summarise(metrics, scores, 4, CASES[:2])


OWN = "tests.tasks.test_score:"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metrics": ("acuracy",)}, "did you mean 'accuracy'"),
        ({"metrics": ("f1", f"{OWN}Given")}, r"f1 and tests\.tasks\.test_score:Given both give 'f1'"),
        ({"metrics": (f"{OWN}Silent",)}, "Silent does not declare its columns; add a method `columns`, or `shown`"),
        ({"k": (0,)}, r"score\.k.*greater than or equal to 1"),
        ({"metrics": ("f1",), "k": (5,)}, r"unknown setting 'score\.k'(?s:.*)score\.k is a setting of metric .*ndcg"),
    ],
)
def test_metrics_that_cannot_be_used(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((UnknownName, ConfigError), match=message):
        scoring.make_metrics(ScoreConfig(**settings))


@pytest.mark.parametrize(
    ("metric", "cases", "message"),
    [
        ("NoNumber", 1, "NoNumber gave nan"),
        ("Given", 4, "1 values of 'f1' for 4 questions"),
        ("Undeclared", 1, r"gave \['other'\], but declares \['f1'\]"),
    ],
)
def test_values_that_cannot_be(metric: str, cases: int, message: str) -> None:
    metrics = scoring.make_metrics(ScoreConfig(metrics=(OWN + metric,)))
    with pytest.raises(ValueError, match=message):
        scoring.score_cases(metrics, [*range(cases)], CASES[:cases])
