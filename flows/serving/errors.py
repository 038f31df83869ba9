"""Errors as clients see them: OpenAI's shape, a status, and a sentence that says what to do."""

import logging
import re
from collections.abc import Mapping, Sequence
from traceback import walk_tb
from typing import Any

import pyarrow as pa
from pydantic import BaseModel
from starlette.responses import JSONResponse

from vitalfew.storage.files import Damaged
from vitalfew.storage.indexes.opened import IndexMismatch
from vitalfew.storage.runs import IndexNotFound
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.models.causal.engines.base import EngineUnavailable
from vitalfew.tasks.models.causal.engines.budget import CapReached
from vitalfew.tasks.models.causal.engines.remote import Unanswered

logger = logging.getLogger("vitalfew")

GONE = 499
"""The status of a request whose client hung up: nobody receives it, but it is counted."""
KINDS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


DAMAGED = (OSError, MemoryError, Damaged, IndexMismatch, IndexNotFound, pa.ArrowException, RuntimeError)
"""Errors of files that are missing or not as they were written, and of memory that lacks; libraries in C++ (FAISS,
OpenVINO, PyTorch) say RuntimeError of both. All others are bugs."""


OUTAGES = (Unanswered, EngineUnavailable)
"""Errors of a language model, or of its server, that may pass."""


class ErrorAbout(BaseModel):
    """An error: a sentence that says what to do, its kind, the part of the request that is wrong, and a code."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """The body of every response that is an error."""

    error: ErrorAbout


ABOUT: dict[int, str] = {
    400: "The request names no model, or is invalid",
    401: "A key is needed",
    402: "The server has reached its spending limit for language models (--max-usd)",
    403: "A page of another site sent it",
    404: "There is no such address or model",
    405: "The address does not accept the method",
    408: "The body did not arrive in time",
    413: "The body is too long",
    415: "The body was not sent as JSON",
    421: "It is for another host",
    422: "A value is missing or wrong",
    429: "Too many requests wait; Retry-After says for how long",
    500: "The server has a bug",
    503: "The model cannot answer now, or the server is ending",
    504: "There was no result in time",
}
DESCRIBED: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": about} for status, about in ABOUT.items()
}
"""The errors of every address, for the description of the server."""


class Refused(Exception):
    """A request that is not answered. `param`: the part of the request that is wrong."""

    def __init__(
        self, status: int, message: str, code: str | None = None, param: str | None = None, retry_after: int = 0
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param, self.retry_after = status, code, param, retry_after


def response(refused: Refused, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The error in OpenAI's shape."""
    kind = KINDS.get(refused.status, "server_error" if refused.status >= 500 else "invalid_request_error")
    message = str(refused).encode(errors="backslashreplace").decode()
    code = refused.code or CODES.get(refused.status)
    error = {"message": message, "type": kind, "param": refused.param, "code": code}
    retry = {"Retry-After": str(refused.retry_after)} if refused.retry_after else {}
    return JSONResponse({"error": error}, refused.status, {**retry, **(headers or {})})


def of_computing(error: Exception, model: str) -> Refused:
    """The error of a request that could not be computed. Raises an error that is a bug."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, InputError):
        return Refused(400, str(error))
    if isinstance(error, CapReached):
        return Refused(402, f"{model} cannot answer any more: {error}", "insufficient_quota")
    if isinstance(error, OUTAGES):
        reason = own_words(next(iter(error.reasons), "") if isinstance(error, Unanswered) else str(error))
        logger.warning("%s cannot answer: %s", model, reason)
        said = f"{model} cannot answer now: its language model gives no answer ({reason})"
        return Refused(503, said, "unavailable", retry_after=5)
    if isinstance(error, DAMAGED):
        logger.warning("%s cannot answer: %s", model, place(error))
        return Refused(
            503,
            f"{model} cannot answer now: its index or model is missing or damaged, or memory ran out "
            f"({type(error).__name__}; the log says where). `vitalfew store verify` names a damaged file; other "
            "configurations still work",
            "unavailable",
            retry_after=5,
        )
    raise error


_QUOTED = re.compile(r" - |(?<!Error code): |[(\"']")
"""What comes before the words of a server in an error."""


def own_words(error: str) -> str:
    """The part of an error that is this program's: a language model's server may quote the question in its own."""
    return _QUOTED.split(error, maxsplit=1)[0].rstrip()


def place(error: BaseException) -> str:
    """The type and the place of an error, for a log: its message may quote a question. An error that came from another
    process has the place there as `place`."""
    if there := vars(error).get("place"):
        return str(there)
    places = [f"{frame.f_code.co_filename}:{line}" for frame, line in walk_tb(error.__traceback__)]
    return f"{type(error).__name__} at {places[-1] if places else 'an unknown place'}"


def of_validation(faults: Sequence[Mapping[str, Any]]) -> Refused:
    """The error of a body that lacks something or has a wrong value. The value itself is not repeated."""
    first = faults[0]
    path = [str(part) for part in first["loc"] if part != "body"]
    if first["type"] == "json_invalid":
        return Refused(422, f"the body is not valid JSON: {first.get('ctx', {}).get('error', first['msg'])}")
    name = ".".join(path)
    if first["type"] == "missing":
        where = f"the body lacks {name!r}" if name else "the request has no body: send JSON"
        return Refused(422, where, param=name or None)
    message = first["msg"].removeprefix("Value error, ")
    return Refused(422, f"{name or 'the body'}: {message}", param=name or None)
