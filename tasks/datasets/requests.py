"""The questions that people asked a server of answers, as a dataset: what was really asked can be asked again."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import Field, field_validator

from vitalfew.configs.paths import store_place
from vitalfew.storage import files, requests
from vitalfew.storage.ids import content_id
from vitalfew.tasks.datasets.base import Dataset, DatasetOptions, InputError, Question, Record

T = TypeVar("T")


class Requests(Dataset):
    """Questions that people asked `vitalfew serve --keep-questions`, without gold answers; no passages.

    A question that was asked several times is one. Only the rows of the table `requests` that are there when the
    dataset is opened are read: a server may go on writing. The offset is the number of the row.
    """

    example: ClassVar[str] = "requests:store=store,since=2026-11-01"
    reads_path: ClassVar[bool] = False
    has_passages: ClassVar[bool] = False

    class Options(DatasetOptions):
        store: str = Field("store", min_length=1, description="store of the server")
        configuration: str | None = Field(None, description="only requests that this configuration answered")
        since: datetime | None = Field(None, description="only requests from this time on, as 2026-11-01 (UTC)")
        until: datetime | None = Field(None, description="only requests before this time")
        unanswered: bool = Field(False, description="only requests that got no answer")

        @field_validator("since", "until")
        @classmethod
        def _in_utc(cls, moment: datetime | None) -> datetime | None:
            return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment

    options: Options

    @cached_property
    def store(self) -> Path:
        try:
            return store_place(self.options.store).absolute()
        except ValueError as error:
            raise InputError(str(error)) from None

    @cached_property
    def rows(self) -> dict[Path, int]:
        """The rows of every file. A server writes its last file again with more rows: those that are there now stay the
        first ones. Raises InputError where the store has no requests."""
        if paths := requests.paths(self.store):
            return {path: _opened(files.OpenTable, path).metadata.num_rows for path in paths}
        raise InputError(
            f"{self.store} has no requests: `vitalfew serve … --keep-questions --store {self.options.store}` "
            "writes them. For another store: requests:store=DIR"
        )

    def files(self) -> list[Path]:
        return []

    def identity(self) -> dict[str, Any]:
        return {"rows": {str(path.relative_to(self.store)): rows for path, rows in self.rows.items()}}

    def total_records(self) -> int | None:
        return sum(self.rows.values())

    def records(self) -> Iterator[tuple[int, Record]]:
        offset, seen = 0, set[int]()
        for path, count in self.rows.items():
            for row in _opened(files.read_table, path, _COLUMNS).to_pylist()[:count]:
                offset += 1
                if self._wanted(row) and (identity := content_id("asked", row["question"])) not in seen:
                    seen.add(identity)
                    yield offset, Question(row["question"], source_id=row["request_id"])
        if not seen:
            raise InputError(
                f"none of the {offset:,} requests of {self.store} that were read has a question. Start the server "
                "with --keep-questions, or leave out since=, until=, configuration= and unanswered="
            )

    def _wanted(self, row: dict[str, Any]) -> bool:
        own = self.options
        return (
            row["question"] is not None
            and (own.configuration is None or row["configuration"] == own.configuration)
            and (own.since is None or row["received"] >= own.since)
            and (own.until is None or row["received"] < own.until)
            and not (own.unanswered and not row["error"])
        )


_COLUMNS = ["request_id", "received", "configuration", "question", "error"]


def _opened(read: Callable[..., T], *arguments: Any) -> T:
    """Return what is read of a file of requests. Raises InputError."""
    try:
        return read(*arguments)
    except (files.Damaged, OSError) as error:
        raise InputError(f"{error}. Remove the file: the other requests are read without it") from error
