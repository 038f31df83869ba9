"""The requests that servers got: rows of `requests`, in files of the server that wrote them."""

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from threading import Condition, Thread
from typing import Any

import pyarrow as pa

from vitalfew.storage import files, schemas

logger = logging.getLogger("vitalfew")

EVERY = 2.0
"""Seconds between two writings: what a kill loses at most."""
FILE = 4096
"""Rows of a file, from which on another one is begun: until then it is written again with every batch."""
KEPT = 50_000
"""Rows that wait at most while they cannot be written; then the oldest are lost."""


def paths(store: Path) -> list[Path]:
    """The files of a store's requests, oldest first."""
    return sorted(files.find(store / "requests", "*/*.parquet"))


class RequestLog:
    """Writes rows of `requests` in batches, by a separate thread: whoever adds a row never waits for the disk.

    While they cannot be written, rows wait, and the oldest of too many are lost; so are those that no table can hold,
    and those that still wait at the end. `lost` counts all of them.
    """

    def __init__(self, store: Path, every: float = EVERY, kept: int = KEPT) -> None:
        """`every`: seconds between two writings; `kept`: rows that wait at most."""
        server = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{token_hex(3)}"
        self.folder, self.every, self.kept = store / "requests" / server, every, kept
        self.lost = 0
        self._waiting: deque[Mapping[str, Any]] = deque()
        self._written, self._number = schemas.REQUESTS.empty_table(), 0
        self._changed, self._closed, self._failed = Condition(), False, False
        self._thread = Thread(target=self._run, name="requests", daemon=True)
        self._thread.start()

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row of `schemas.REQUESTS`; a column that it lacks is NULL."""
        with self._changed:
            self._waiting.append(row)
            self._bound()
            self._changed.notify_all()

    def close(self, seconds: float | None = None) -> None:
        """Write what waits, and end; wait for that at most `seconds`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                self._changed.wait_for(lambda: self._closed, self.every)
                closed = self._closed
            self._write()
            if closed:
                self.kept = 0
                self._bound()
                return

    def _write(self) -> None:
        """Write all that waits; where that fails, it waits on."""
        while batch := self._taken():
            try:
                table = pa.concat_tables([self._written, *self._tables(batch)]).combine_chunks()
                files.write_table(self.folder / f"{self._number:05}.parquet", table)
            except (OSError, MemoryError, pa.ArrowException, files.BucketError) as error:
                if not self._failed:
                    logger.warning("requests cannot be written now; trying again: %s", error)
                self._failed = True
                with self._changed:
                    self._waiting.extendleft(reversed(batch))
                    self._bound()
                return
            self._failed, self._written = False, table
            if len(table) == FILE:
                self._written, self._number = schemas.REQUESTS.empty_table(), self._number + 1

    def _tables(self, batch: Sequence[Mapping[str, Any]]) -> list[pa.Table]:
        """The rows as tables. One that no table can hold, such as half of a surrogate pair, takes no other with it."""
        try:
            return [pa.Table.from_pylist(batch, schemas.REQUESTS)]
        except (pa.ArrowException, ValueError, TypeError) as error:
            if len(batch) > 1:
                return [table for row in batch for table in self._tables([row])]
            self.lost += 1
            logger.warning("no table can hold a request: %s", type(error).__name__)  # the message may quote a question
            return []

    def _taken(self) -> list[Mapping[str, Any]]:
        """The rows that wait, as many as the file has room for."""
        with self._changed:
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), FILE - len(self._written)))]

    def _bound(self) -> None:
        while len(self._waiting) > self.kept:
            self._waiting.popleft()
            self.lost += 1
