"""The contract of a dataset: a named format that streams records out of a source the user points at.

A dataset yields `(offset, record)` pairs in source order. `offset` is the 1-based line (line formats) or record number
(JSON arrays, generators) in the source, so that a message or a row of `rejects` can name the place. A row that cannot
be used is yielded as a `Reject`, never dropped; only a source that cannot be read any further raises `InputError`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict


class InputError(ValueError):
    """Input that a user has to mend: the message names the file, the place in it and the remedy."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage as its source gives it; `source_id` is its name there (a title, a number), for people."""

    title: str
    text: str
    source_id: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters (code points) of a passage."""

    passage_id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its gold answers, the ids of its gold passages and the spans that support the answer."""

    text: str
    answers: tuple[str, ...] = ()
    gold_passages: tuple[int, ...] = ()
    supporting_facts: tuple[Span, ...] = ()
    source_id: str = ""


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that cannot be used: a machine-readable `reason` (snake_case) and a `detail` for people."""

    reason: str
    detail: str = ""


Record = Passage | Question | Reject


class DatasetOptions(BaseModel):
    """Base of a format's `?option=value` settings; an unknown option is an error."""

    model_config = ConfigDict(extra="forbid")


class Dataset(ABC):
    """`FORMAT:PATH?option=value`. A subclass's docstring is what `vitalfew datasets` shows."""

    example: ClassVar[str]
    """A complete example specification, for help texts."""
    reads_path: ClassVar[bool] = True
    """False for a generator, whose specification has its options in the place of the path."""
    takes_name: ClassVar[bool] = False
    """True where a name that is no path may stand in the place of the path; the path is then kept as it was given."""
    has_passages: ClassVar[bool] = True
    """False for questions alone, which are asked of another data set's index."""
    version: ClassVar[str] = "1"
    """Part of the fingerprint: raise it when the same file would give other records."""
    Options: ClassVar[type[DatasetOptions]] = DatasetOptions

    def __init__(self, path: Path | None, options: DatasetOptions) -> None:
        self.path = path
        self.options = options

    @abstractmethod
    def files(self) -> list[Path]:
        """Every file that is read, for the fingerprint. Raises InputError where one is missing or not a file."""

    def total_records(self) -> int | None:
        """How many records there are, where that is known without reading them all."""
        return None

    def identity(self) -> dict[str, Any]:
        """What the records depend on besides the options and the content of the files, for the fingerprint."""
        return {}

    @abstractmethod
    def records(self) -> Iterator[tuple[int, Record]]:
        """Stream the records in source order, in bounded memory. Raises InputError."""
