"""Ratings against the gold passages: figures worked out by hand, and what leaves a question out."""

from dataclasses import replace

import pytest

from vitalfew.configs.evaluation import ScoreConfig
from vitalfew.tasks.generators.base import Rating
from vitalfew.tasks.metrics.base import Answer, Case, Context
from vitalfew.tasks.registry import make


def case(gold: int, *ratings: tuple[float, bool]) -> Case:
    """A question with a context from each of the passages 1, 2, … and their ratings."""
    contexts = tuple(Context("", 0, passages=(passage,)) for passage in range(1, len(ratings) + 1))
    rated = tuple(Rating(rank, score, kept, 9) for rank, (score, kept) in enumerate(ratings, 1))
    return Case("Who?", (), (gold,), (), contexts=contexts, answer=Answer("Ada", 9, 1, 0.1, ratings=rated))


def figures(*cases: Case) -> dict[str, float | None]:
    metric = make(ScoreConfig(metrics=("assessment",)), "score")
    return {name: summary.value for name, summary in metric.summary(cases).items()}


def test_figures_of_two_questions() -> None:
    found = figures(case(1, (0.9, True), (0.6, True)), case(2, (0.2, False), (0.6, False)))
    # relevant: .9 (kept), .6 (dropped); others: .6 (kept), .2 (dropped)
    assert found["rating_auc"] == pytest.approx((1 + 1 + 0.5 + 1) / 4)
    assert (found["rating_f1_1"], found["rating_f1_0"], found["rating_f1"]) == (0.5, 0.5, 0.5)


def test_what_cannot_be_judged_is_left_out() -> None:
    whole = case(1, (0.9, True), (0.1, False))
    without = (
        replace(whole, gold_passages=()),
        replace(whole, contexts=None),
        replace(whole, answer=Answer("", 9, 0, 0.1, error="too long")),
        replace(whole, answer=Answer("Ada", 9, 1, 0.1)),
    )
    metric = make(ScoreConfig(metrics=("assessment",)), "score")
    summary = metric.summary([whole, *without])["rating_auc"]
    assert (summary.value, summary.left_out) == (1.0, 4)
    assert figures(*without)["rating_auc"] is None
