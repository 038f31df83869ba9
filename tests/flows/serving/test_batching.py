"""A line of requests before one thread."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.serving import PATIENCE
from vitalfew.flows.serving.batching import Bounds, WaitingLine


class Recorder:
    """A task that notes its batches, and fails for "bad"."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def __call__(self, items: Sequence[str]) -> list[str]:
        self.batches.append(list(items))
        if "bad" in items:
            raise ValueError("bad")
        return [item.upper() for item in items]


def line(**bounds: Any) -> tuple[WaitingLine, Recorder]:
    record = Recorder()
    return WaitingLine({"a": record, "b": record}, Bounds(**bounds)), record


def submitted(own: WaitingLine, *items: str, task: str = "a", size: int = 1) -> list[Any]:
    return [own.submit(task, item, size) for item in items]


def results(futures: Sequence[Any]) -> list[str]:
    return [future.result(PATIENCE) for future in futures]


def test_one_requests_fault_is_not_the_others() -> None:
    own, _ = line()
    good, bad, fine = submitted(own, "a", "bad", "c")
    own.start()
    assert results([good, fine]) == ["A", "C"]
    with pytest.raises(ValueError, match="bad"):
        bad.result(PATIENCE)
    own.close()
