"""The log of a run in Prefect's UI: a line for what a user can correct, a traceback for a bug."""

import logging
from collections.abc import Iterator
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
from vitalfew.flows.forms import EvaluateForm, IndexForm, ReEncode, Source
from vitalfew.tasks.models.causal.engines.cap import CapReached, purse_now


@pytest.fixture(params=LOGGERS)
def log(request: pytest.FixtureRequest) -> Iterator[tuple[logging.Logger, BufferingHandler]]:
    logger, handler = logging.getLogger(request.param), BufferingHandler(100)
    with mock.patch.object(logger, "handlers", [handler]):  # Prefect's sends lines to the server of a run
        yield logger, handler


def shown(log: tuple[logging.Logger, BufferingHandler], message: str, error: Exception) -> list[str]:
    """What the log shows of an error."""
    logger, handler = log
    logger.error(message, exc_info=error)
    return [logging.Formatter().format(record) for record in handler.buffer]


def raised(cause: object, *given: object) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        cause(*given)  # type: ignore[operator]
    return caught.value


def test_what_a_user_can_correct_is_a_line(log: tuple[logging.Logger, BufferingHandler]) -> None:
    error = raised(parse_assignments, ["nonsense"])
    (line,) = shown(log, "Encountered exception during execution", error)
    assert line == str(error)
    assert "nonsense" in line


def test_a_bug_keeps_its_traceback(log: tuple[logging.Logger, BufferingHandler]) -> None:
    error = raised(np.zeros(2).reshape, 3)
    (line,) = shown(log, "Encountered exception during execution", error)
    assert "Traceback" in line
    assert "Encountered exception during execution" in line


def form(**fields: object) -> EvaluateForm:
    return EvaluateForm.model_validate({"index": "wiki", **fields})


@pytest.mark.parametrize(
    ("fields", "message", "told"),
    [
        ({"questions": "jsonl:/no/q.jsonl?text=a"}, "/no/q.jsonl is lost.", "Questions: /no/q.jsonl is lost."),
        ({}, "run it with `--set a.b=[1]`, or not", "run it with `a.b=[1]` in More, or not"),
        ({"alpha": 0.5}, "retrieve.alpha: an index of units", "Alpha: an index of units"),
    ],
)
def test_errors_are_in_the_words_of_the_form(fields: dict[str, object], message: str, told: str) -> None:
    assert form(**fields).in_words(message) == told


def test_errors_of_other_forms() -> None:
    made = IndexForm(name="x", sources=(Source(format="jsonl", path="/no/a.jsonl?text=body"),))
    assert made.in_words("/no/a.jsonl does not exist") == "Sources: /no/a.jsonl does not exist"
    assert ReEncode(corpus="towns").in_words("unknown corpus 'towns'") == "Corpus: unknown corpus 'towns'"


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
            first = purse_now()
        with one_cap(0.5):
            assert purse_now() is first is not None
        with one_cap(None):
            assert purse_now() is None
