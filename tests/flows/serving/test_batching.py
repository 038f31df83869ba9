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


def test_a_batch_is_bounded_in_requests_and_characters_but_holds_one_and_is_of_one_task() -> None:
    own, record = line(characters=100, requests=2)
    sizes = (("a", 500), ("b", 60), ("c", 40), ("d", 1), ("e", 1), ("f", 1))
    futures = [own.submit("a", item, size) for item, size in sizes] + submitted(own, "g", task="b")
    own.start()
    assert results(futures) == [*"ABCDEFG"]
    assert record.batches == [["a"], ["b", "c"], ["d", "e"], ["f"], ["g"]]
    own.close()


def test_one_requests_fault_is_not_the_others() -> None:
    own, _ = line()
    good, bad, fine = submitted(own, "a", "bad", "c")
    own.start()
    assert results([good, fine]) == ["A", "C"]
    with pytest.raises(ValueError, match="bad"):
        bad.result(PATIENCE)
    own.close()
