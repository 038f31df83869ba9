"""Errors that a user can correct, as Prefect's UI shows them: one sentence in the words of the form, no traceback.

Everything else is a bug, and keeps its traceback in the log of the run.
"""

import logging
from collections import Counter
from collections.abc import Callable
from functools import wraps
from traceback import walk_tb
from typing import ParamSpec, TypeVar, cast
from uuid import UUID

from prefect.context import FlowRunContext
from prefect.exceptions import FailedRun
from prefect.states import Failed

from vitalfew.flows.forms import Form
from vitalfew.storage.runs import IndexNotFound
from vitalfew.tasks.models.causal.engines.budget import CapReached

logger = logging.getLogger("vitalfew")

P = ParamSpec("P")
R = TypeVar("R")
LOGGERS = ("prefect.flow_runs", "prefect.task_runs")
"""Prefect's logs of runs."""
_tries: Counter[UUID] = Counter()
"""The failures of this process, by run."""


def explanation(error: BaseException) -> str | None:
    """The message of an error that the user can correct; None for a bug."""
    if isinstance(error, IndexNotFound | OSError):
        return str(error)
    if isinstance(error, ValueError):
        modules = (type(error).__module__, _raised_in(error))
        if any(module.startswith("vitalfew.") for module in modules):
            return str(error)
    return None


def _raised_in(error: BaseException) -> str:
    """The module that raised an error: what another library complains about is not written for users."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return str(frames[-1].f_globals.get("__name__", "")) if frames else ""


def explained(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate the function of a flow: a run of a deployment that a user can correct fails with a sentence. A program
    that calls the flow gets the error."""

    @wraps(function)
    def run(*given: P.args, **named: P.kwargs) -> R:
        try:
            return function(*given, **named)
        except Exception as error:
            message, left = explanation(error), _retries_left()
            if left and isinstance(error, CapReached):
                left = 0  # Prefect repeats only what raises, and no try may pay what this one may not
            if left:
                logger.warning("This attempt failed and is retried, whatever the reason. Finished shards are kept.")
            if left != 0 or message is None:
                raise
            form = next((each for each in (*given, *named.values()) if isinstance(each, Form)), None)
            return cast(R, Failed(message=form.in_words(message) if form else message))

    return run


def _retries_left() -> int | None:
    """The retries left for this run of a deployment, or None outside a deployment."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None or context.flow_run.deployment_id is None:
        return None
    _tries[context.flow_run.id] += 1
    retries = context.flow.retries if context.flow else 0
    earlier = max(context.flow_run.run_count, 1) - 1  # when this process began with its first try
    return max(0, (retries or 0) + 1 - earlier - _tries[context.flow_run.id])


def _shorten(record: logging.LogRecord) -> bool:
    """A filter of Prefect's logs of runs: what the user can correct is one line, once."""
    error = record.exc_info[1] if record.exc_info else None
    message = explanation(error) if error else None
    is_last = record.getMessage().startswith("Engine execution exited")  # the run's state has said it
    if is_last and (message is not None or isinstance(error, FailedRun)):
        return False
    if message is not None:
        record.msg, record.args, record.exc_info = message, None, None
    return True


for _name in LOGGERS:
    logging.getLogger(_name).addFilter(_shorten)
