"""Verdicts as metrics, and the rule by which an answer says that it does not know."""

from dataclasses import replace

import pytest

from vitalfew.configs.evaluation import ScoreConfig
from vitalfew.tasks.metrics.base import Answer, Case, Context, Values
from vitalfew.tasks.metrics.tables import make_metrics

NAMES = ("judged_correct", "supported", "abstains")


def values(case: Case) -> Values:
    metrics = make_metrics(ScoreConfig(metrics=NAMES))
    return {name: column for metric in metrics.values() for name, column in metric.score([case]).items()}


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " \n",
        "Unknown.",
        "N/A",
        "No answer",
        "I don't know.",
        "I don\u2019t know",
        "I do not know who built it. The passages are about rivers.",
        "Sorry, we cannot tell from this.",
        "There is not enough information to say.",
        "The passages do not mention who built the mill.",
        "The provided context does not explicitly state this.",
        "This isn't mentioned.",
        "That cannot be determined from the texts.",
        "The question is unanswerable.",
    ],
)
def test_an_answer_that_says_that_it_does_not_know(answer: str) -> None:
    assert values(Case("Who?", (), (), (), answer=Answer(answer, 9, 2, 0.1)))["abstains"] == [1]


@pytest.mark.parametrize(
    "answer",
    [
        "Ada",
        "The Unknown Soldier",
        "I don't know, but it may be Paris.",
        "Although the passages do not mention it, Ada.",
        "Ada. The passages do not mention anybody else.",
        "The prize was not given to Ada.",
        "No",
        "He could not swim.",
        "Nobody knows the trouble I have seen",
    ],
)
def test_an_answer_that_answers(answer: str) -> None:
    assert values(Case("Who?", (), (), (), answer=Answer(answer, 9, 2, 0.1)))["abstains"] == [0]


def test_a_verdict_that_is_missing_is_no_zero() -> None:
    case = Case("Who?", ("Ada",), (), (), contexts=(Context("Ada.", 2),), answer=Answer("Ada", 9, 2, 0.1))
    assert values(case) == {"judged_correct": [None], "supported": [None], "abstains": [0]}
    half = replace(case, verdict=(None, 0.5, None))
    assert values(half) == {"judged_correct": [None], "supported": [0.5], "abstains": [0]}
    failed = replace(half, answer=Answer("", 9, 2, 0.1, "HTTP 500"))
    assert values(failed) == {name: [None] for name in NAMES}
