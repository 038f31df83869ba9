"""A clock that stands still while this thread loads a model: what a question takes, whoever comes first.

Models are loaded by the first batch that needs them. What loads one is marked `@loading()`, and what times batches
reads `clock`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from time import perf_counter


class _Loaded(local):
    """Seconds that this thread has spent on loading."""

    seconds = 0.0


_loaded = _Loaded()


@contextmanager
def loading() -> Iterator[None]:
    """The block, or the function, loads a model. One that is loaded within another's loading counts once."""
    before, began = _loaded.seconds, perf_counter()
    try:
        yield
    finally:
        _loaded.seconds = before + perf_counter() - began


def clock() -> float:
    """Seconds since some moment, without those in which this thread loaded models."""
    return perf_counter() - _loaded.seconds
