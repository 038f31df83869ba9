"""A context variable that has a value within a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

ValueT = TypeVar("ValueT")


@contextmanager
def within(variable: ContextVar[Any], value: ValueT) -> Iterator[ValueT]:
    """Give this thread's variable a value in the block, and its value before after it."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
