"""Log-odds become probabilities that are as often true as they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitalfew.tasks.raters.calibration import BINS, LogisticLine, calibration_error, reliability


def test_a_fitted_line_is_the_one_that_made_the_truth() -> None:
    draw = np.random.default_rng(2)
    logits = draw.normal(0, 3, 20_000)
    made = LogisticLine(0.5, -1.0)
    truth = draw.random(len(logits)) < [made(logit) for logit in logits]
    found = LogisticLine.fitted(logits.tolist(), truth.tolist())
    assert (found.slope, found.offset) == (pytest.approx(0.5, abs=0.05), pytest.approx(-1, abs=0.05))
    told = np.array([found(logit) for logit in logits])
    assert (
        calibration_error(told, truth) < 0.02 < calibration_error(np.array([LogisticLine()(x) for x in logits]), truth)
    )


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
def test_the_expected_calibration_error_is_the_bins_weighted_distance(rows: list[tuple[float, bool]]) -> None:
    told, truth = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    bins = reliability(told, truth)
    assert len(bins) == BINS
    assert sum(each.size for each in bins) == len(rows)
    expected = 0.0
    for low in range(BINS):
        inside = [row for row in rows if low == min(int(row[0] * BINS), BINS - 1)]
        if inside:
            expected += abs(sum(row[0] for row in inside) - sum(row[1] for row in inside)) / len(rows)
    assert calibration_error(told, truth) == pytest.approx(expected)
