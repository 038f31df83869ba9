"""The names in a store's records: tables, artifacts, files, runs.

A store may be somebody else's, so its records are input like any other. What they name becomes a path, a word of SQL or
a line on a terminal; a record with another name than these is damaged.
"""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, StringConstraints, TypeAdapter, ValidationError

_FINGERPRINT = r"[0-9a-f]{16}"
_TABLE = r"[A-Za-z][A-Za-z0-9_]{0,63}"
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}"

Table = Annotated[str, StringConstraints(pattern=rf"^{_TABLE}$")]
ArtifactName = Annotated[str, StringConstraints(pattern=rf"^{_TABLE}/{_FINGERPRINT}$")]
FilePath = Annotated[str, StringConstraints(pattern=rf"^{_TABLE}/{_FINGERPRINT}(/{_PART})+$", max_length=1024)]
"""The path of a shard's file below its store. It stays one without the attempt in its name (storage/attempts.py)."""
RunId = Annotated[str, StringConstraints(pattern=rf"^{_PART}$")]
IndexName = RunId
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$", max_length=200)]
"""A stage, a flow, a table's note."""
Process = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]+(-[0-9A-Za-z_]+){0,2})?$", max_length=100)]
"""The name of a process (storage/files/processes.py), or its id; empty where nobody knows."""


def _moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("it has no time zone")
    return text


Moment = Annotated[str, AfterValidator(_moment)]
"""A date and time as ISO 8601 writes it, with its time zone."""

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
"""Pydantic's settings for records: unknown members, infinity and NaN are errors."""


def validated(kind: TypeAdapter[Any], value: Any) -> Any:
    """The record that a value of JSON is. Raises ValueError, in one line."""
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}, got {first['input']!r:.80}") from None
