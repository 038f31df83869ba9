"""The log of a run in Prefect's UI: a line for what a user can correct, a traceback for a bug."""

import logging
from functools import partial
from logging.handlers import BufferingHandler
from types import SimpleNamespace
from typing import Any
from unittest import mock
from uuid import uuid4

import numpy as np
import pytest
from prefect.context import FlowRunContext

from vitalfew.configs.loading import ConfigError, parse_assignments
from vitalfew.flows.errors import LOGGERS, explained
from vitalfew.flows.execute import one_cap
from vitalfew.flows.forms import EvaluateForm
from vitalfew.tasks.models.causal.engines.budget import CapReached, budget_now


@pytest.mark.parametrize("name", LOGGERS)
def test_what_a_user_can_correct_is_a_line_and_a_bug_keeps_its_traceback(name: str) -> None:
    logger, handler = logging.getLogger(name), BufferingHandler(100)
    with mock.patch.object(logger, "handlers", [handler]):  # Prefect's sends lines to the server of a run
        for fails in (partial(parse_assignments, ["nonsense"]), partial(np.zeros(2).reshape, 3)):
            try:
                fails()
            except ValueError:
                logger.exception("Encountered exception during execution")
    line, bug = map(logging.Formatter().format, handler.buffer)
    assert ("nonsense" in line, "\n" in line) == (True, False)
    assert ("Traceback" in bug, "Encountered exception during execution" in bug) == (True, True)


def form(**fields: object) -> EvaluateForm:
    return EvaluateForm.model_validate({"index": "wiki", **fields})


def ended(error: Exception, retries: int) -> Any:
    """What a run of a deployment that raises an error comes to, in the first of its tries."""
    run = SimpleNamespace(id=uuid4(), deployment_id=uuid4(), run_count=1)
    context = SimpleNamespace(flow_run=run, flow=SimpleNamespace(retries=retries))

    def fails(parameters: EvaluateForm) -> None:
        raise error

    with mock.patch.object(FlowRunContext, "get", return_value=context):
        return explained(fails)(form(max_usd=0.5))


def test_a_run_that_reached_its_cap_is_not_tried_again() -> None:
    """A retry would pay once more."""
    told = "All answers are kept: run the same command with --max-usd 0.74 or more to go on"
    state = ended(CapReached(0.49, 0.5, 0.02, told), retries=1)
    assert state.is_failed()
    assert state.message.startswith("the cap of 0.5000 USD is reached: 0.4900 USD are paid")
    assert state.message.endswith("with Max USD 0.74 or more to go on")
    with pytest.raises(ConfigError):
        ended(ConfigError("what may pass"), retries=1)


def test_the_tries_of_a_run_have_one_cap() -> None:
    context = SimpleNamespace(flow_run=SimpleNamespace(id=uuid4()))
    with mock.patch.object(FlowRunContext, "get", return_value=context):
        with one_cap(0.5):
            first = budget_now()
        with one_cap(0.5):
            assert budget_now() is first is not None
        with one_cap(None):
            assert budget_now() is None
