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


def test_bad_input_is_refused() -> None:
    good = np.full((1, 20), 0.5)
    with pytest.raises(ValueError, match=r"shapes \(1, 20\) and \(1, 19\): use NaN"):
        powered_means(good, good[:, 1:])
    with pytest.raises(ValueError, match="labels must lie between 0 and 1, got 0"):
        powered_means(good, np.append(good[:, 1:], [[2.0]], axis=1))
