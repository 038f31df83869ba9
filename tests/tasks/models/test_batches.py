"""Batches that a process with several cores reads at once."""

from threading import get_ident

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitalfew.tasks.models.batches import computed


@given(st.lists(st.integers(), max_size=9), st.integers(1, 4))
def test_results_come_in_order_and_this_thread_does_the_first(items: list[int], threads: int) -> None:
    found = [*computed(lambda item: (-item, get_ident()), items, threads)]
    assert [value for value, _ in found] == [-item for item in items]
    assert {thread for _, thread in found[:1]} <= {get_ident()}
    assert threads > 1 or {thread for _, thread in found} <= {get_ident()}


def test_an_error_of_a_batch_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        [*computed(lambda item: 1 // item, [1, 1, 0], 2)]
