"""The figures of GET /metrics, in Prometheus' text format."""

from collections.abc import Mapping
from functools import partial
from operator import attrgetter

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from vitalfew.flows.pipelines.answering import RagAnswer
from vitalfew.flows.serving.configurations import Served
from vitalfew.flows.serving.recording import RequestRecord, RequestRows

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
OTHER = "other"
"""The path of requests for addresses that do not exist: a client cannot add series."""


class Metrics:
    """Counts since the server's start. Two applications share none. `paths`: addresses that are counted by name."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, served: Mapping[str, Served], rows: RequestRows | None) -> None:
        self.paths = frozenset[str]()
        self.registry = CollectorRegistry()
        self.requests = Counter("vitalfew_requests", "Requests", ["path", "status"], registry=self.registry)
        self.seconds = Histogram(
            "vitalfew_request_seconds", "Seconds of a request", ["path"], registry=self.registry, buckets=BUCKETS
        )
        self.steps = Histogram(
            "vitalfew_step_seconds",
            "Seconds of a step, a question's share of its batch",
            ["model", "step"],
            registry=self.registry,
            buckets=BUCKETS,
        )
        self.tokens = Counter(
            "vitalfew_tokens", "Tokens of prompts (in), answers (out), and saved", ["model", "kind"],
            registry=self.registry,
        )  # fmt: skip
        self.errors = Counter(
            "vitalfew_unanswered", "Questions to which the model gave no answer", ["model"], registry=self.registry
        )
        if rows:
            lost = Gauge("vitalfew_requests_lost", "Requests without a row in the table", registry=self.registry)
            lost.set_function(lambda: rows.log.lost)
        waiting = Gauge("vitalfew_waiting", "Requests that wait", ["model"], registry=self.registry)
        ready = Gauge("vitalfew_ready", "1 if the model is loaded and has answered", ["model"], registry=self.registry)
        again = Gauge(
            "vitalfew_computed_again", "Requests computed again: their replica was lost", ["model"],
            registry=self.registry,
        )  # fmt: skip
        if purse := next((each.answering.purse for each in served.values()), None):
            paid = Gauge("vitalfew_paid_usd", "USD paid for requests to servers, of --max-usd", registry=self.registry)
            paid.set_function(purse.till.paid)
        for name, each in served.items():
            again.labels(name).set_function(partial(attrgetter("line.again"), each))
            waiting.labels(name).set_function(partial(attrgetter("line.waiting"), each))
            ready.labels(name).set_function(partial(attrgetter("ready"), each))

    def request(self, record: RequestRecord) -> None:
        path = record.path if record.path in self.paths else OTHER
        self.requests.labels(path, str(record.status)).inc()
        self.seconds.labels(path).observe(record.seconds)
        if record.answer and record.configuration:
            self._answer(record.configuration, record.answer)

    def _answer(self, model: str, answer: RagAnswer) -> None:
        for step, seconds in answer.seconds.items():
            self.steps.labels(model, step).observe(seconds)
        counts = {"in": answer.prompt_tokens, "out": answer.completion_tokens, "saved": answer.tokens_saved}
        for kind, count in counts.items():
            self.tokens.labels(model, kind).inc(count)
        if answer.error:
            self.errors.labels(model).inc()

    def text(self) -> bytes:
        return generate_latest(self.registry)
