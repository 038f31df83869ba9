"""A failed batch is retried in halves, down to the one prompt that makes it fail."""

import logging
from collections.abc import Callable, Sequence

import torch

from configs.loading import ConfigError
from tasks.models.engines.base import Completion, EngineUnavailable, failed

logger = logging.getLogger("vitalfew")


def in_halves(
    run: Callable[[Sequence[int]], list[Completion]], rows: Sequence[int], prompt_tokens: Sequence[int]
) -> list[Completion]:
    """`run(rows)`; if it raises, the results of both halves, and for a single prompt a row with the error.

    Whatever the failure, out of memory or a fault of the model, the other prompts are still answered.
    """
    try:
        return run(rows)
    except (ConfigError, EngineUnavailable):
        raise  # a fault of the engine, not of a prompt
    except Exception as error:
        reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        logger.warning("%d prompts failed together: %s", len(rows), reason)
    # Outside the handler, so that the traceback no longer holds the batch's memory.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if len(rows) == 1:
        return [failed(f"the model failed: {reason}", prompt_tokens[rows[0]])]
    middle = len(rows) // 2
    return in_halves(run, rows[:middle], prompt_tokens) + in_halves(run, rows[middle:], prompt_tokens)
