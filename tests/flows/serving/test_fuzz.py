"""Requests that a fuzzer makes from the server's own description."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.serving import PATIENCE, Running, experiment, served
from vitalfew.flows.serving.application import application

pytestmark = pytest.mark.slow

CASES = 400
ADDRESSES = [
    ("/search", "POST"),
    ("/refine", "POST"),
    ("/v1/rerank", "POST"),
    ("/answer", "POST"),
    ("/v1/chat/completions", "POST"),
]
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
KNOWN = {"model": "sentences", "refiner": "cut"}
"""Names that a fuzzer does not find."""
MESSAGE = {"role": "user", "content": "Who founded the town of Velmar?"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    file = experiment(tmp_path_factory.mktemp("fuzzed"))
    with Running(lambda hosts: application([served(file, "sentences")], hosts=hosts)) as server:
        yield server.ready()


def fuzzed(running: Running, path: str, method: str, mode: GenerationMode, cases: int) -> set[int]:
    """Send that many cases, valid or not, and return the statuses of the responses, every one of which is described."""
    schema = schemathesis.openapi.from_url(f"{running.address}/openapi.json")
    statuses: set[int] = set()

    @settings(max_examples=cases, database=None, suppress_health_check=[*HealthCheck])
    @given(case=schema[path][method].as_strategy(generation_mode=mode))
    def sent(case: Any) -> None:
        if mode is GenerationMode.POSITIVE and isinstance(case.body, dict):
            case.body.update({name: value for name, value in KNOWN.items() if name in case.body})
            case.body.get("messages", []).append(MESSAGE)
        response = case.call_and_validate(checks=CHECKS, timeout=PATIENCE)  # a server that hangs ends the test
        statuses.add(response.status_code)

    sent()
    return statuses


@pytest.mark.parametrize("mode", [*GenerationMode])
@pytest.mark.parametrize(("path", "method"), ADDRESSES)
def test_no_request_breaks_the_server(running: Running, path: str, method: str, mode: GenerationMode) -> None:
    statuses = fuzzed(running, path, method, mode, CASES // (2 * len(ADDRESSES)))
    assert (200 in statuses) or mode is GenerationMode.NEGATIVE, statuses
    with running.client() as client:
        assert client.post("/answer", json={"question": "Who?"}).status_code == 200


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/{model}", "/health", "/ready", "/metrics"])
def test_no_address_without_a_body_breaks_the_server(running: Running, path: str) -> None:
    assert fuzzed(running, path, "GET", GenerationMode.POSITIVE, 20) <= {200, 404}
