"""A line of requests before one thread."""

from collections.abc import Sequence

import pytest

from tests.support.serving import PATIENCE
from vitalfew.flows.serving.batching import Bounds, WaitingLine


def upper(items: Sequence[str]) -> list[str]:
    """A task that fails for a batch with "bad"."""
    if "bad" in items:
        raise ValueError("bad")
    return [item.upper() for item in items]


def test_one_requests_fault_is_not_the_others() -> None:
    line = WaitingLine({"a": upper}, Bounds())
    good, bad, fine = (line.submit("a", item, 1) for item in ("a", "bad", "c"))
    line.start()
    assert [good.result(PATIENCE), fine.result(PATIENCE)] == ["A", "C"]
    with pytest.raises(ValueError, match="bad"):
        bad.result(PATIENCE)
    line.close()
