"""What a model made of a text is computed once."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitalfew.tasks.models.readings import Memory, Reading, remembered, remembering

REQUESTS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), max_size=8)


@given(st.lists(REQUESTS, min_size=1, max_size=4), st.booleans())
def test_every_request_is_read_once_and_gets_its_own_values(calls: list[list[tuple[str, str]]], keeps: bool) -> None:
    read: list[tuple[str, str]] = []

    def ask(requests: Sequence[tuple[str, str]]) -> None:
        def values(places: Sequence[int]) -> list[Reading]:
            read.extend(requests[place] for place in places)
            return [
                Reading(np.array([ord(one) for one in "".join(requests[place])], np.float32), 2) for place in places
            ]

        found = remembered({"model": "m"}, requests, values)
        assert [own.tolist() for own in found] == [[ord(one) for one in a + b] for a, b in requests]

    if not keeps:  # as where a method is called by itself: within a call
        ask(calls[0])
        assert sorted(read) == sorted({*calls[0]})
        return
    with remembering(Memory()) as memory:
        for requests in calls:
            ask(requests)
    assert sorted(read) == sorted({request for requests in calls for request in requests})
    # Another piece of work finds them, and one of another model does not.
    asked = [*dict.fromkeys(request for requests in calls for request in requests)]
    with remembering(Memory(lambda keys: {key: memory.new[key] for key in keys if key in memory.new})) as later:
        remembered({"model": "m"}, asked, lambda places: pytest.fail("it was read before"))
        assert len(later.recalled) == len(asked)
        remembered({"model": "other"}, asked, lambda places: [Reading(np.zeros(1, np.float32), 1) for _ in places])
    assert len(later.new) == len(asked)
