"""How much a critic's judgements leave to choose."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitalfew.tasks.selectors.fronts import Critiqued, front_sizes, rank_correlations


def matrix(f1: list[float], f2: list[float], usable: list[bool] | None = None) -> Critiqued:
    """One question, whose ISUSE and ISSUP are F1."""
    one, two = np.array([f1]), np.array([f2])
    flags = np.array([usable or [True] * len(f1)])
    return Critiqued(two, one, one, np.full_like(one, np.nan), np.arange(len(f1))[None], flags)


def test_objectives_that_agree_leave_one_and_opposite_ones_leave_all() -> None:
    rising, falling = [0.1, 0.2, 0.6, 0.9], [0.8, 0.5, 0.3, 0.1]
    assert (front_sizes(matrix(rising, rising))[0], rank_correlations(matrix(rising, rising))[0]) == (
        1,
        pytest.approx(1),
    )
    assert (front_sizes(matrix(rising, falling))[0], rank_correlations(matrix(rising, falling))[0]) == (
        4,
        pytest.approx(-1),
    )


def test_what_is_not_usable_does_not_count() -> None:
    some = matrix([0.1, 0.9, 0.2], [0.1, 0.9, 0.05], [True, False, True])
    assert (front_sizes(some)[0], rank_correlations(some)[0]) == (2, pytest.approx(-1))
    none = matrix([0.1, 0.9], [0.1, 0.9], [False, False])
    assert np.isnan([front_sizes(none)[0], rank_correlations(none)[0]]).all()
    assert np.isnan(rank_correlations(matrix([0.5, 0.5], [0.1, 0.9])))


SCORES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=8)


@given(SCORES)
def test_a_front_has_one_to_all_candidates_and_a_correlation_is_within_one(rows: list[tuple[float, float]]) -> None:
    some = matrix([row[0] for row in rows], [row[1] for row in rows])
    assert 1 <= front_sizes(some)[0] <= len(rows)
    found = rank_correlations(some)[0]
    assert np.isnan(found) or abs(found) <= 1 + 1e-9
