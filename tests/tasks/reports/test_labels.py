"""Labels of people beside a judge: means by both, shares of wins with ties, and how far reviewers agree."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from vitalfew.tasks.reports.statistics.agreement import GivenVerdict, ReviewersAgreement, agreement
from vitalfew.tasks.reports.statistics.bootstrap import Interval
from vitalfew.tasks.reports.statistics.prediction_powered import over_all, powered_means

QUESTIONS = 400
SIMULATIONS = 4000  # of which a share of 0.95 has a standard error of 0.0035
TRUTH = 0.7


def judged(generator: np.random.Generator, truth: NDArray[np.bool_], right: tuple[float, float]) -> NDArray[np.float64]:
    """Verdicts that are right in such shares of the right and of the wrong answers."""
    drawn = generator.random(truth.shape)
    return np.where(truth, drawn < right[0], drawn >= right[1]).astype(np.float64)


def held(intervals: list[Interval], truth: float) -> float:
    return float(np.mean([each.low <= truth <= each.high for each in intervals if each.low is not None]))


def width(interval: Interval) -> float:
    assert interval.low is not None
    assert interval.high is not None
    return interval.high - interval.low


@pytest.mark.parametrize("labels", [30, 300])
@pytest.mark.parametrize(
    ("accuracy", "right"),
    [
        (0.95, (0.95, 0.95)),
        (0.95, (1.0, 1 - 0.05 / (1 - TRUTH))),  # all its errors are wrong answers that it calls right
    ],
)
def test_intervals_of_both_hold_the_truth_in_95_percent_and_are_narrower(
    accuracy: float, right: tuple[float, float], labels: int
) -> None:
    generator = np.random.default_rng(1)
    truth = generator.random((SIMULATIONS, QUESTIONS)) < TRUTH
    human = truth.astype(np.float64)
    human[:, labels:] = np.nan  # the first are as random as any: questions are drawn independently
    results = powered_means(judged(generator, truth, right), human)
    most = 0.97 if labels * (1 - accuracy) >= 3 else 0.995  # wider than need be where the judge hardly errs
    assert 0.93 <= held([each.labels for each in results], TRUTH) <= 0.97
    assert 0.93 <= held([each.both for each in results], TRUTH) <= most
    shares = [width(each.both) / width(each.labels) for each in results]
    assert max(shares) <= 1
    best = math.sqrt(1 - (2 * accuracy - 1) ** 2 * (1 - labels / QUESTIONS))  # of a judge that errs on both sides
    assert np.mean(shares) == pytest.approx(best, abs=0.15)


def test_ties_draw_the_mean_to_a_half_and_the_ends_with_it() -> None:
    whole = over_all(Interval(0.8, 0.7, 0.9, 40), 60)
    assert (whole.mean, whole.questions) == (pytest.approx(0.5 + 0.4 * 0.3), 100)
    assert width(whole) == pytest.approx(2 * 0.05, abs=0.02)  # 0.4 · 0.1 each way, and a little for the share of ties
    assert over_all(Interval(0.8, 0.7, 0.9, 40), 0) == Interval(pytest.approx(0.8), *map(pytest.approx, (0.7, 0.9)), 40)


def read(*rows: str) -> list[GivenVerdict]:
    """A row per reviewer, a sign per item; a dot is a gap."""
    return [
        GivenVerdict(f"reviewer {row}", f"item {place}", sign)
        for row, signs in enumerate(rows)
        for place, sign in enumerate(signs)
        if sign != "."
    ]


@pytest.mark.parametrize(
    ("rows", "alpha", "items", "verdicts"),
    [
        (("0100000010", "1110010000"), 0.095, 10, 20),  # section A: two values
        (("aabbdcccedda", "babbbccceddd"), 0.692, 12, 24),  # section B: names
        (("123321412...", "1233224125.3", ".3332342251.", "12332441251."), 0.743, 11, 40),  # section C: gaps
    ],
)
def test_krippendorffs_worked_examples(rows: tuple[str, ...], alpha: float, items: int, verdicts: int) -> None:
    own = agreement(read(*rows))
    assert own.alpha == pytest.approx(alpha, abs=0.0005)
    assert (own.items, own.verdicts, own.reviewers, own.reason) == (items, verdicts, len(rows), None)


def test_items_that_nobody_shares_have_no_alpha() -> None:
    assert agreement(read("12..", "..12")) == ReviewersAgreement(
        None, 0, 0, 0, "no item has verdicts from two reviewers"
    )
