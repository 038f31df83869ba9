"""Means by a judge with some labels: coverage in simulations, width, the formula, gaps, few labels, bad input."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from vitalfew.tasks.reports.statistics.bootstrap import Interval
from vitalfew.tasks.reports.statistics.prediction_powered import (
    PoweredInterval,
    powered_differences,
    powered_means,
)

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


@pytest.mark.parametrize("labels", [30, 100, 300])
@pytest.mark.parametrize(
    ("accuracy", "right"),
    [
        (0.6, (0.6, 0.6)),
        (0.8, (0.8, 0.8)),
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


@pytest.mark.parametrize("labels", [30, 100])
@pytest.mark.parametrize("accuracy", [0.6, 0.8, 0.95])
def test_intervals_of_differences_hold_the_truth_in_95_percent(accuracy: float, labels: int) -> None:
    generator = np.random.default_rng(2)
    drawn = generator.random((SIMULATIONS // 2, QUESTIONS))
    sides = [drawn < 0.6, np.where(generator.random(drawn.shape) < 0.6, drawn, generator.random(drawn.shape)) < 0.7]
    (before, baseline), (after, human) = (
        (judged(generator, side, (accuracy, accuracy)), only(labels, side)) for side in sides
    )
    assert_covers(powered_differences(before, baseline, after, human), 0.1, labels * (1 - accuracy))


def test_a_lenient_judge_alone_never_holds_the_truth() -> None:
    generator = np.random.default_rng(3)
    truth = generator.random((200, QUESTIONS)) < 0.5
    results = powered_means(judged(generator, truth, (1.0, 0.6)), only(100, truth))
    assert held([each.judge for each in results], 0.5) == 0
    assert held([each.both for each in results], 0.5) > 0.9


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
@settings(max_examples=150, deadline=None)
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


@given(tables())
@settings(max_examples=50, deadline=None)
def test_right_and_wrong_turned_round_turn_the_intervals(given: Tables) -> None:
    judge, human = given
    for one, other in zip(powered_means(judge, human), powered_means(1 - judge, 1 - human), strict=True):
        assert one.weight == pytest.approx(other.weight)
        for left, right in ((one.both, other.both), (one.labels, other.labels)):
            assert left.mean == pytest.approx(1 - (right.mean or 0))
            assert left.low == pytest.approx(1 - (right.high or 0))


@given(tables(), st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_differences_are_never_wider_than_those_of_labels_and_turn_with_the_sides(given: Tables, seed: int) -> None:
    judge, human = given
    order = np.random.default_rng(seed).permutation(int((~np.isnan(human[0])).sum()))
    baseline = np.concatenate([human[0][order], human[0][len(order) :]])
    for row in range(len(judge)):
        sides = (judge[0], baseline), (judge[row][None], human[row][None])
        one = powered_differences(*sides[0], *sides[1])[0]
        other = powered_differences(judge[row], human[row], judge[:1], baseline[None])[0]
        assert width(one.both) <= width(one.labels)
        assert one.labels.mean == pytest.approx(np.nanmean(human[row] - baseline))
        assert one.both.mean == pytest.approx(-(other.both.mean or 0))
        assert one.both.low == pytest.approx(-(other.both.high or 0))


@given(tables())
@settings(max_examples=50, deadline=None)
def test_a_judge_that_says_the_same_of_all_and_labels_on_all_leave_the_labels(given: Tables) -> None:
    judge, human = given
    for each in powered_means(np.full_like(judge, 0.8), human):
        assert each.weight == 0
        assert each.both == Interval(each.labels.mean, each.labels.low, each.labels.high, judge.shape[1])
    for each in powered_means(judge, np.nan_to_num(human, nan=0.5)):
        assert each.both.mean == pytest.approx(each.labels.mean)
        assert (each.both.low, each.both.high) == (pytest.approx(each.labels.low), pytest.approx(each.labels.high))
        assert each.halved_by is None


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_a_perfect_judge_is_about_labels_on_all_and_a_useless_one_about_the_labels(share: float) -> None:
    generator = np.random.default_rng(4)
    truth = generator.random((1, 4000)) < share
    human, everything = only(400, truth), truth.astype(np.float64)
    perfect = powered_means(everything, human)[0]
    every = powered_means(everything, everything)[0].labels
    assert width(every) <= width(perfect.both) <= 1.2 * width(every)
    assert perfect.weight == pytest.approx(1, abs=0.02)
    useless = powered_means(judged(generator, truth, (0.5, 0.5)), human)[0]
    assert 0.98 * width(useless.labels) <= width(useless.both) <= width(useless.labels)
    assert useless.weight == pytest.approx(0, abs=0.1)


def test_with_many_labels_the_interval_is_the_normal_one_of_the_formula() -> None:
    generator = np.random.default_rng(5)
    human = generator.random((1, 40_000))
    judge = np.clip(human + generator.normal(0.05, 0.1, human.shape), 0, 1)
    human[:, 20_000:] = np.nan
    each = powered_means(judge, human)[0]
    left = human[:, :20_000] - each.weight * judge[:, :20_000]
    half = 1.96 * math.sqrt(each.weight**2 * judge.var() / 40_000 + left.var() / 20_000)
    assert width(each.both) == pytest.approx(2 * half, rel=0.01)


def test_so_many_labels_more_halve_the_interval() -> None:
    truth, judge = (
        np.tile(np.array(list(each)) == "1", (1, 1000)) for each in ("11011010110110101011", "11011011110110101001")
    )
    judge = judge.astype(np.float64)
    before = powered_means(judge, only(200, truth))[0]
    assert before.halved_by is not None
    after = powered_means(judge, only(200 + before.halved_by, truth))[0]
    assert width(after.both) == pytest.approx(width(before.both) / 2, rel=0.03)
    few = powered_means(judge[:, :400], only(200, truth[:, :400]))[0]
    assert few.halved_by is None  # labels on all 400 would not


def test_few_labels_have_means_and_no_interval_and_say_why() -> None:
    human = np.array([[1.0] * 9 + [np.nan] * 21, [np.nan] * 30])
    few, none = powered_means(np.full((2, 30), 0.5), human)
    assert few.labels == Interval(1.0, None, None, 9)
    assert few.both == Interval(1.0, None, None, 30)
    assert few.reason == "too few labels for an interval: 9, and it needs 10"
    assert few.halved_by is None
    assert few.judge.low is not None
    assert none.labels.mean is none.both.mean is None
    assert powered_means(np.empty((1, 0)), np.empty((1, 0)))[0].judge == Interval(None, None, None, 0)


def test_verdicts_on_few_questions_have_no_interval_of_their_own() -> None:
    judge, human = np.full((1, 30), np.nan), np.tile([0.0, 1.0], 15)[None]
    assert powered_means(judge, human)[0].judge == Interval(None, None, None, 0)
    judge[0, :9] = 1
    assert powered_means(judge, human)[0].judge == Interval(1.0, None, None, 9)


def test_a_label_where_the_judge_is_silent_counts() -> None:
    generator = np.random.default_rng(7)
    truth = generator.random((1, 300)) < 0.6
    judge, human = truth.astype(np.float64), only(100, truth)
    judge[:, :30] = np.nan
    each = powered_means(judge, human)[0]
    assert (each.judge.questions, each.labels.questions, each.both.questions) == (270, 100, 300)
    assert width(each.both) < width(each.labels)


def test_bad_input_is_refused() -> None:
    good = np.full((1, 20), 0.5)
    with pytest.raises(ValueError, match=r"shapes \(1, 20\) and \(1, 19\): use NaN"):
        powered_means(good, good[:, 1:])
    with pytest.raises(ValueError, match="labels must lie between 0 and 1, got 0"):
        powered_means(good, np.append(good[:, 1:], [[2.0]], axis=1))
    with pytest.raises(ValueError, match="infinite"):
        powered_means(np.full((1, 20), np.inf), good)
    with pytest.raises(ValueError, match=r"baseline's shape \(19,\) does not fit that of the methods, \(1, 20\)"):
        powered_differences(good[0, 1:], good[0, 1:], good, good)
