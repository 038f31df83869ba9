"""Labels of people beside a judge: means by both, shares of wins with ties, and how far reviewers agree."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from vitalfew.tasks.reports.statistics.agreement import GivenVerdict, ReviewersAgreement, agreement
from vitalfew.tasks.reports.statistics.bootstrap import Interval
from vitalfew.tasks.reports.statistics.prediction_powered import PoweredInterval, powered_means
from vitalfew.tasks.reports.statistics.shares import over_all

Tables = tuple[NDArray[np.float64], NDArray[np.float64]]
QUESTIONS = 400
SIMULATIONS = 4000  # of which a share of 0.95 has a standard error of 0.0035
TRUTH = 0.7


def judged(generator: np.random.Generator, truth: NDArray[np.bool_], right: tuple[float, float]) -> NDArray[np.float64]:
    """Verdicts that are right in such shares of the right and of the wrong answers."""
    drawn = generator.random(truth.shape)
    return np.where(truth, drawn < right[0], drawn >= right[1]).astype(np.float64)


def only(labels: int, table: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Labels on the first questions: these are as random as any, because questions are drawn independently."""
    human = table.astype(np.float64)
    human[:, labels:] = np.nan
    return human


def held(intervals: list[Interval], truth: float) -> float:
    return float(np.mean([each.low <= truth <= each.high for each in intervals if each.low is not None]))


def width(interval: Interval) -> float:
    assert interval.low is not None
    assert interval.high is not None
    return interval.high - interval.low


def assert_covers(results: list[PoweredInterval], truth: float, errors: float) -> None:
    """`errors`: of the judge, among the labels. With hardly any, intervals are wider than they need be."""
    assert 0.93 <= held([each.labels for each in results], truth) <= 0.97
    assert 0.93 <= held([each.both for each in results], truth) <= (0.97 if errors >= 3 else 0.995)
    assert all(width(each.both) <= width(each.labels) for each in results)


@pytest.mark.parametrize("labels", [30, 300])
@pytest.mark.parametrize(
    ("accuracy", "right"),
    [
        (0.6, (0.6, 0.6)),
        (0.95, (0.95, 0.95)),
        (0.95, (1.0, 1 - 0.05 / (1 - TRUTH))),  # all its errors are wrong answers that it calls right
    ],
)
def test_intervals_of_both_hold_the_truth_in_95_percent_and_are_narrower(
    accuracy: float, right: tuple[float, float], labels: int
) -> None:
    generator = np.random.default_rng(1)
    truth = generator.random((SIMULATIONS, QUESTIONS)) < TRUTH
    results = powered_means(judged(generator, truth, right), only(labels, truth))
    assert_covers(results, TRUTH, labels * (1 - accuracy))
    narrower = np.mean([width(each.both) / width(each.labels) for each in results])
    best = math.sqrt(1 - (2 * accuracy - 1) ** 2 * (1 - labels / QUESTIONS))  # of a judge that errs on both sides
    assert narrower == pytest.approx(best, abs=0.15)


@st.composite
def tables(draw: st.DrawFn) -> Tables:
    """Verdicts and labels of some methods, some missing, graded or right and wrong; at least 10 labels per row."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m, n = draw(st.integers(1, 3)), draw(st.integers(10, 80))
    human = generator.random((m, n)) ** draw(st.sampled_from([0.1, 1.0, 5.0]))
    judge = np.where(generator.random((m, n)) < draw(st.floats(0, 1)), human, generator.random((m, n)))
    if draw(st.booleans()):
        human, judge = human.round(), judge.round()
    human[:, draw(st.integers(10, n)) :] = np.nan
    judge[generator.random((m, n)) < draw(st.sampled_from([0.0, 0.2, 1.0]))] = np.nan
    return judge, human


@given(tables())
@settings(max_examples=50, deadline=None)
def test_both_is_never_wider_than_the_labels_and_follows_the_formula(given: Tables) -> None:
    judge, human = given
    for row, each in enumerate(powered_means(judge, human)):
        own, labels = each.both, each.labels
        assert width(own) <= width(labels)
        assert 0 <= (own.low or 0) <= (own.mean or 0) <= (own.high or 0) <= 1
        assert (labels.low or 0) <= (labels.mean or 0) <= (labels.high or 0)
        known = judge[row][~np.isnan(judge[row])]
        verdicts = np.where(np.isnan(judge[row]), known.mean() if known.size else 0.5, judge[row])
        formula = each.weight * verdicts.mean() + np.nanmean(human[row] - each.weight * verdicts)
        assert own.mean == pytest.approx(np.clip(formula, 0, 1))
        assert labels.mean == pytest.approx(np.nanmean(human[row]))


def test_bad_input_is_refused() -> None:
    good = np.full((1, 20), 0.5)
    with pytest.raises(ValueError, match=r"shapes \(1, 20\) and \(1, 19\): use NaN"):
        powered_means(good, good[:, 1:])
    with pytest.raises(ValueError, match="labels must lie between 0 and 1, got 0"):
        powered_means(good, np.append(good[:, 1:], [[2.0]], axis=1))


def test_ties_draw_the_mean_to_a_half_and_the_ends_with_it() -> None:
    whole = over_all(Interval(0.8, 0.7, 0.9, 40), 60)
    assert whole.mean == pytest.approx(0.5 + 0.4 * 0.3)
    assert whole.questions == 100
    assert whole.low is not None
    assert whole.high is not None
    assert 0.04 < whole.high - whole.mean < 0.06  # 0.4 · 0.1, and a little for the share of ties
    assert whole.mean - whole.low == pytest.approx(whole.high - whole.mean)
    assert over_all(Interval(0.8, 0.7, 0.9, 40), 0) == Interval(pytest.approx(0.8), *map(pytest.approx, (0.7, 0.9)), 40)


def test_intervals_hold_the_truth() -> None:
    """People prefer the first of two methods in 60 % of the questions on which these differ, which are 40 % of all."""
    labels = 60
    rng, chances, share, held = np.random.default_rng(labels), (0.6, 0.1, 0.3), 0.4, []
    truth = 0.5 + share * (chances[0] + chances[1] / 2 - 0.5)
    for _ in range(400):
        differing = int(rng.binomial(200, share))
        human = np.full((1, differing), np.nan)
        human[0, :labels] = rng.choice([1, 0.5, 0], p=chances, size=min(labels, differing))
        both = powered_means(np.full_like(human, np.nan), human)[0].both
        own = over_all(replace(both, questions=differing), 200 - differing)
        assert own.low is not None
        assert own.high is not None
        held.append(own.low <= truth <= own.high)
    assert np.mean(held) >= 0.92


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


@pytest.mark.parametrize("rows", [(), ("1212",), ("12..", "..12")])
def test_items_that_nobody_shares_have_no_alpha(rows: tuple[str, ...]) -> None:
    assert agreement(read(*rows)) == ReviewersAgreement(None, 0, 0, 0, "no item has verdicts from two reviewers")


def test_two_verdicts_of_a_reviewer_on_an_item_are_refused() -> None:
    twice = [*read("12", "12"), GivenVerdict("reviewer 0", "item 1", "1")]
    with pytest.raises(ValueError, match="reviewer 0 gives more than one verdict on item 1: keep the one that counts"):
        agreement(twice)
