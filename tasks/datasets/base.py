"""The contract of a dataset: a named format that streams records from a source the user points at.

A dataset yields `(offset, record)` pairs in source order. `offset` is the 1-based line (line formats) or record number
(JSON arrays, generators) in the source, so that a message or a row of `rejects` can name the place. A row that cannot
be used is yielded as a `Reject` and never dropped; a dataset raises `InputError` only if it cannot read on.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, Field

from vitalfew.configs.schema import LoadConfig


class InputError(ValueError):
    """Input that the user has to fix: the message names the file, the place in it and the remedy."""


MOST_QUESTION = 20_000
"""Characters of a question that somebody asks."""


def check_question(question: str) -> None:
    """Raises InputError for a question that is empty, too long, or has bytes that are no text."""
    if not question.strip():
        raise InputError("the question is empty")
    if len(question) > MOST_QUESTION:
        raise InputError(f"the question has {len(question):,} characters; at most {MOST_QUESTION:,} are answered")
    if question != question.encode(errors="replace").decode():
        raise InputError("the question is not UTF-8: set the terminal, or the file that it comes from, to UTF-8")


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage as its source gives it; `source_id` is its name in that source (a title or a number), for people;
    `metadata`: further fields of its document, as a JSON object."""

    title: str
    text: str
    source_id: str = ""
    metadata: str = "{}"


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters (code points) of a passage."""

    passage_id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class GoldPlace:
    """A file, a heading or a row of the corpus by its name, a quote from it, or both; "" where it is not given."""

    source: str
    quote: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its gold answers, the ids of its gold passages and the spans that support the answer; or the
    places of those in the corpus that it is asked of (tasks/datasets/gold.py).

    `gold_grades`: how relevant every gold passage is, from 1; empty where all have 1. `itself`: passages that are the
    question, and no hits for it."""

    text: str
    answers: tuple[str, ...] = ()
    gold_passages: tuple[int, ...] = ()
    supporting_facts: tuple[Span, ...] = ()
    source_id: str = ""
    gold_places: tuple[GoldPlace, ...] = ()
    gold_grades: tuple[int, ...] = ()
    itself: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that cannot be used: a machine-readable `reason` (snake_case) and a `detail` for people."""

    reason: str
    detail: str = ""


Record = Passage | Question | Reject


class RowError(Exception):
    """A row, or a part of one, that cannot be used. `reason` is a key of REASONS (rows.py); `detail` must be text that
    can be stored, so it quotes strings of the source with repr."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail

    def reject(self, where: str = "") -> Reject:
        """Return the Reject to yield; `where` names the part of the row."""
        return Reject(self.reason, f"{where}: {self.detail}" if where else self.detail)


OptionalName = Annotated[str | None, Field(min_length=1)]
"""An option that names something, such as a column or a file; None if it is not given."""


class DatasetOptions(BaseModel, extra="forbid"):
    """Base of a format's `?option=value` settings; an unknown option is an error."""


class Dataset(ABC):
    """`FORMAT:PATH?option=value`. `vitalfew datasets` shows a subclass's docstring."""

    example: ClassVar[str]
    """A complete example specification, for help texts."""
    reads_path: ClassVar[bool] = True
    """False for a generator, whose specification has options instead of a path."""
    takes_name: ClassVar[bool] = False
    """True if the specification may have a name instead of a path; such a name is kept as given."""
    has_passages: ClassVar[bool] = True
    """False if the format has only questions, which are asked of another dataset's index."""
    names_gold: ClassVar[bool] = False
    """True if its questions may name gold by place: what is asked then depends on the corpus."""
    version: ClassVar[str] = "1"
    """Part of the fingerprint: raise it when the same file would give different records."""
    Options: ClassVar[type[DatasetOptions]] = DatasetOptions

    def __init__(self, path: Path | None, options: DatasetOptions) -> None:
        self.path = path
        self.options = options

    @abstractmethod
    def files(self) -> list[Path]:
        """Return the files this dataset reads, for the fingerprint. Raises InputError if one is missing or no file."""

    def total_records(self) -> int | None:
        """Return the number of records, or None if it is unknown until all are read."""
        return None

    def identity(self) -> dict[str, Any]:
        """Return what the records depend on besides the options and the files' content, for the fingerprint."""
        return {}

    def limit(self, config: LoadConfig) -> None:
        """Take over the bounds of reading a document, for formats that have them."""

    def notes(self) -> Mapping[str, int]:
        """Return counts of what the records do not say, such as files that were left out; called after `records`."""
        return {}

    @abstractmethod
    def records(self) -> Iterator[tuple[int, Record]]:
        """Stream the records in source order, in bounded memory. Raises InputError."""
