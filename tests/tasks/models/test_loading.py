"""The clock of batches stands still while a model is loaded."""

import time
from functools import cached_property

from vitalfew.tasks.models.loading import clock, loading


class Model:
    @cached_property
    @loading()
    def network(self) -> str:
        time.sleep(0.02)
        return self.tokenizer

    @cached_property
    @loading()
    def tokenizer(self) -> str:
        time.sleep(0.03)
        return "loaded"


def test_loading_takes_no_time_of_a_batch() -> None:
    whole, began, model = time.perf_counter(), clock(), Model()
    assert model.network == "loaded"
    time.sleep(0.01)
    assert time.perf_counter() - whole >= 0.06
    assert 0.01 <= clock() - began < 0.03
