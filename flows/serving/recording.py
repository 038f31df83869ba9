"""The record of a request: what the table `requests`, the traces and the log of a server say of it.

A request has a `RequestRecord` from its arrival on, and whoever handles it fills in what it knows.
"""

import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from vitalfew.flows.pipelines.answering import RagAnswer
from vitalfew.flows.serving.errors import own_words
from vitalfew.storage.requests import RequestLog
from vitalfew.tasks.retrieve import Hit

Span = dict[str, int]
ASKED = ("/search", "/answer", "/refine", "/v1/chat/completions", "/v1/rerank")
"""The addresses whose requests are recorded; those of an agent are, where they call a tool."""


@dataclass
class RequestRecord:
    """A request. `admitted`: its key was right; `tool`: that an agent calls; `traceparent`: the client's header of
    that name; the other fields are columns of `requests`."""

    path: str
    traceparent: str = ""
    request_id: str = field(default_factory=lambda: uuid4().hex)
    received: datetime = field(default_factory=lambda: datetime.now(UTC))
    began: float = field(default_factory=time.monotonic)
    admitted: bool = False
    tool: str = ""
    key: str | None = None
    configuration: str | None = None
    fingerprint: str | None = None
    question: str | None = None
    hits: list[Span] = field(default_factory=list)
    answer: RagAnswer | None = None
    status: int = 0
    seconds: float = 0.0
    error: str = ""

    @property
    def is_asked(self) -> bool:
        """Return whether this request asks something: it takes a row and a span, those of strangers do not."""
        return self.admitted and (self.path in ASKED or bool(self.tool))

    def asked(self, name: str, question: str | None = None, fingerprint: str | None = None) -> None:
        """Note which configuration is asked, and what."""
        self.configuration, self.question, self.fingerprint = name, question, fingerprint

    def found(self, result: Any) -> None:
        """Note the result of a task of a line; one without hits is nothing to note."""
        if isinstance(result, RagAnswer):
            self.answer, self.error, self.fingerprint = result, result.error, result.fingerprint
            self.hits = [_span(source) for context in result.contexts for source in context.sources]
        elif isinstance(result, Sequence):
            self.hits = [_span(hit) for hit in result if isinstance(hit, Hit)]

    def ended(self, status: int) -> None:
        """Note the status of the response, and how long it took."""
        self.status, self.seconds = status, time.monotonic() - self.began

    def row(self, keep_question: bool) -> dict[str, Any]:
        """The row of `requests`."""
        names = ("request_id", "received", "configuration", "fingerprint", "key", "hits", "seconds", "status", "error")
        row = {name: getattr(self, name) for name in names} | {"path": f"{self.path} {self.tool}".strip(), "steps": {}}
        row["question"] = self.question if keep_question else None
        if self.answer and self.answer.error and not keep_question:
            own = own_words(self.answer.error)
            is_all = own == self.answer.error
            row["error"] = own if is_all else f"{own} (the server's words are kept with --keep-questions)"
        if found := self.answer:
            row |= {name: getattr(found, name) for name in ("prompt_tokens", "completion_tokens", "tokens_saved")}
            row |= {"steps": dict(found.seconds), "usd": found.usd}
        return row


class RequestRows:
    """Writes the rows of requests into the store. `keep_questions`: with their texts."""

    def __init__(self, log: RequestLog, keep_questions: bool = False) -> None:
        self.log, self.keep_questions = log, keep_questions

    def ended(self, record: RequestRecord) -> None:
        self.log.add(record.row(self.keep_questions))

    def close(self) -> None:
        self.log.close()


_current: ContextVar[RequestRecord | None] = ContextVar("record", default=None)


def begin(path: str, traceparent: str) -> RequestRecord:
    """Begin the record of the request that this task handles."""
    _current.set(record := RequestRecord(path, traceparent))
    return record


def current() -> RequestRecord:
    """The record of the request that this task, or a thread that it started, handles."""
    return _current.get() or RequestRecord("")


def _span(place: Any) -> Span:
    return {"passage_id": place.passage_id, "start": place.start, "end": place.end}
