"""A clock that stands still while this thread loads a model: what a question takes, whoever comes first.

Models are loaded by the first batch that needs them. What loads one is marked `@loading()`, and what times batches
reads `clock`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from time import perf_counter, process_time


class _Loaded(local):
    """Seconds that this thread has spent on loading, and the process meanwhile on all processors."""

    seconds = 0.0
    cpu_seconds = 0.0


_loaded = _Loaded()


@contextmanager
def loading() -> Iterator[None]:
    """The block, or the function, loads a model. One that is loaded within another's loading counts once."""
    before, began = (_loaded.seconds, _loaded.cpu_seconds), (perf_counter(), process_time())
    try:
        yield
    finally:
        _loaded.seconds = before[0] + perf_counter() - began[0]
        _loaded.cpu_seconds = before[1] + process_time() - began[1]


def clock() -> float:
    """Seconds since some moment, without those in which this thread loaded models."""
    return perf_counter() - _loaded.seconds


def cpu_clock() -> float:
    """Seconds of all processors that this process has taken, without those in which this thread loaded models."""
    return process_time() - _loaded.cpu_seconds
