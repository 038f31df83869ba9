"""Shares of wins with ties that are known: the mean, the ends, coverage in a simulation, and what has no interval."""

from dataclasses import replace

import numpy as np
import pytest

from vitalfew.tasks.reports.statistics.bootstrap import Interval
from vitalfew.tasks.reports.statistics.prediction_powered import powered_means
from vitalfew.tasks.reports.statistics.shares import over_all


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
