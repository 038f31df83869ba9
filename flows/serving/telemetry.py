"""Traces of requests for OpenTelemetry, by its conventions for generative AI: a span for every request.

A span says which configuration answered, tokens, seconds by step and the status; it has no question and no answer. It
belongs to the trace that the client's header `traceparent` names. Where to send them and how is in the variables that
OpenTelemetry defines (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME, …).
"""

import os
from collections.abc import Mapping
from typing import Any

from vitalfew.configs.installing import install_command
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.serving.recording import RequestRecord

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
OPERATIONS = {
    "/answer": "chat",
    "/v1/chat/completions": "chat",
    "/search": "retrieval",
    "/refine": "refine",
    "/v1/rerank": "rerank",
}
"""The operations of addresses; the last two have no name in the conventions. An agent's is execute_tool."""


class Tracing:
    """Sends spans in batches, by a separate thread; what cannot be sent is lost, with a warning in the log."""

    def __init__(self) -> None:
        """Raises ConfigError where the packages are missing."""
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise ConfigError(
                f"{ENDPOINTS[0]} is set, and its packages are missing: {install_command('otel')}"
            ) from None
        name = os.environ.get("OTEL_SERVICE_NAME", "vitalfew")
        self.provider = TracerProvider(resource=Resource.create({"service.name": name}), shutdown_on_exit=False)
        self.provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self.tracer = self.provider.get_tracer("vitalfew")

    def ended(self, record: RequestRecord) -> None:
        """Make the span of a request that has ended."""
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        began = int(record.received.timestamp() * 1e9)
        parent = TraceContextTextMapPropagator().extract({"traceparent": record.traceparent})
        span = self.tracer.start_span(
            _name(record), parent, SpanKind.SERVER, attributes=_attributes(record), start_time=began
        )
        if record.status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end(began + int(record.seconds * 1e9))

    def close(self) -> None:
        """Send what waits, and end."""
        self.provider.shutdown()


def tracing() -> Tracing | None:
    """Tracing, where the environment names an endpoint. Raises ConfigError."""
    return Tracing() if any(os.environ.get(name) for name in ENDPOINTS) else None


def _operation(record: RequestRecord) -> str:
    return "execute_tool" if record.tool else OPERATIONS[record.path]


def _name(record: RequestRecord) -> str:
    return f"{_operation(record)} {record.tool or record.configuration or ''}".strip()


def _attributes(record: RequestRecord) -> Mapping[str, Any]:
    found = record.answer
    steps = {f"vitalfew.seconds.{step}": seconds for step, seconds in found.seconds.items()} if found else {}
    attributes = {
        "http.request.method": "POST",
        "http.route": record.path,
        "http.response.status_code": record.status,
        "error.type": str(record.status) if record.status >= 400 else None,
        "gen_ai.operation.name": _operation(record),
        "gen_ai.provider.name": "vitalfew",
        "gen_ai.request.model": record.configuration,
        "gen_ai.response.model": record.configuration if record.status < 400 else None,
        "gen_ai.tool.name": record.tool or None,
        "gen_ai.usage.input_tokens": found.prompt_tokens if found else None,
        "gen_ai.usage.output_tokens": found.completion_tokens if found else None,
        "vitalfew.tokens_saved": found.tokens_saved if found else None,
        "vitalfew.fingerprint": record.fingerprint,
        "vitalfew.hits": len(record.hits),
        "vitalfew.request_id": record.request_id,
        **steps,
    }
    return {name: value for name, value in attributes.items() if value is not None}
