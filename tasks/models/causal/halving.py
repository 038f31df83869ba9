"""A failed batch is retried in halves, down to the one row that makes it fail."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.causal.engines.base import Completion, EngineUnavailable, failed

logger = logging.getLogger("vitalfew")

RowT = TypeVar("RowT")
ResultT = TypeVar("ResultT")


def halved(
    run: Callable[[Sequence[RowT]], list[ResultT]],
    rows: Sequence[RowT],
    give_up: Callable[[Exception, Sequence[RowT]], list[ResultT] | None],
) -> list[ResultT]:
    """Return `run(rows)`; if it raises, the results of both halves, unless `give_up` raises or has the results."""
    try:
        return run(rows)
    except Exception as error:
        results = give_up(error, rows)
    if results is not None:
        return results
    # Outside the handler, so that the traceback no longer holds the batch's memory.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    middle = len(rows) // 2
    return halved(run, rows[:middle], give_up) + halved(run, rows[middle:], give_up)


def in_halves(
    run: Callable[[Sequence[int]], list[Completion]], rows: Sequence[int], prompt_tokens: Sequence[int]
) -> list[Completion]:
    """Return `run(rows)`; if it raises, the results of both halves, and for a single prompt a row with the error.

    Whatever the failure, out of memory or a fault of the model, the other prompts are still answered.
    """

    def give_up(error: Exception, some: Sequence[int]) -> list[Completion] | None:
        if isinstance(error, ConfigError | EngineUnavailable):
            raise error  # a fault of the engine, not of a prompt
        reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        logger.warning("%d prompts failed together: %s", len(some), reason)
        return [failed(f"the model failed: {reason}", prompt_tokens[some[0]])] if len(some) == 1 else None

    return halved(run, rows, give_up)


_told: set[str] = set()
"""Warnings that this process gave already."""


def while_memory_lasts(run: Callable[[Sequence[RowT]], list[ResultT]], rows: Sequence[RowT]) -> list[ResultT]:
    """Return `run(rows)`; out of memory, the results of both halves. Raises other errors, and the error of one row."""

    def give_up(error: Exception, some: Sequence[RowT]) -> None:
        # PyTorch has no exception class for a CPU that is out of memory.
        is_memory = isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
        if len(some) == 1 or not is_memory:
            raise error
        if "memory" not in _told:
            _told.add("memory")
            logger.warning(
                "%d rows together do not fit into memory: these rows and later ones are read in halves", len(some)
            )

    return halved(run, rows, give_up)
