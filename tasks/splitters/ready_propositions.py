"""`ready_propositions`: propositions from a file that another program wrote (split.file).

A row is a passage: its `propositions`, a list of strings, and its exact `text` or its `passage_id` (as in the table
`passages`). The file is JSON Lines, a JSON array (.json, .jsonl, also .gz) or Parquet (.parquet); other columns are
ignored. A passage without a row, or without propositions in its row, stays whole; rows of passages outside the corpus
are skipped. The file is read once for every shard of passages, and is never held in memory as a whole.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import duckdb
import pyarrow as pa
from pydantic import ConfigDict, Field

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import SplitConfig
from vitalfew.configs.section import NOT_IN_FINGERPRINT, AbsolutePath
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.datasets.files import check_source
from vitalfew.tasks.models.files import digest
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.splitters.base import Rewritten, StoredPassage

COLUMNS = {"passage_id": "BIGINT", "text": "VARCHAR", "propositions": "VARCHAR[]"}
ROW = '{"text": "the passage", "propositions": ["a fact", "another"]}'


class ReadyPropositions:
    """Propositions from your file split.file (JSON, JSON Lines, Parquet), matched by passage text or id."""

    example: ClassVar[tuple[str, ...]] = ("split.file=propositions.jsonl",)

    class Options(SplitConfig):
        model_config = ConfigDict(extra="forbid")

        file: Annotated[AbsolutePath | None, NOT_IN_FINGERPRINT] = Field(
            None, description="File of propositions: JSON, JSON Lines or Parquet."
        )

    rewrites: ClassVar[bool] = True
    version: ClassVar[str] = "1"
    uses_gpu = False
    workers = None

    def __init__(self, options: Options) -> None:
        """Raises ConfigError, InputError if there is no file."""
        if options.file is None:
            raise ConfigError(f"splitter 'ready_propositions' needs --set split.file=FILE, with rows like {ROW}")
        self.file: Path = options.file
        check_source(self.file)

    def identity(self) -> dict[str, Any]:
        return {"class": type(self).__name__, "version": self.version, "file": digest(self.file)}

    def rewrite(self, passages: Sequence[StoredPassage], tick: Tick = no_tick) -> Rewritten:
        units: list[list[str]] = [[] for _ in passages]
        seen: set[int] = set()
        for place, propositions in self._found(passages):
            if place in seen:
                raise InputError(f"{self.file} has two rows for one passage, {passages[place].text[:80]!r}")
            seen.add(place)
            units[place] = propositions
        tick(len(passages), 0)
        return Rewritten(units)

    def _found(self, passages: Sequence[StoredPassage]) -> list[tuple[int, list[str]]]:
        """(Place, propositions) of the passages that the file has. Raises InputError."""
        due = {
            "place": pa.array(range(len(passages)), pa.int64()),
            "passage_id": pa.array([passage.passage_id for passage in passages], pa.int64()),
            "text": pa.array([passage.text for passage in passages], pa.string()),
        }
        with duckdb.connect() as connection:
            connection.register("due", pa.table(due))
            try:
                rows = f"(SELECT {self._columns(connection)} FROM {self._source})"
                self._check(connection, rows)
                return connection.sql(
                    f"WITH given AS {rows} SELECT place, propositions FROM given JOIN due USING (text) UNION ALL "
                    "SELECT place, propositions FROM given JOIN due USING (passage_id) WHERE given.text IS NULL"
                ).fetchall()
            except duckdb.Error as error:
                raise InputError(f"{self.file}: {str(error).splitlines()[0]}. A row is {ROW}") from error

    @property
    def _source(self) -> str:
        quoted = "'" + str(self.file).replace("'", "''") + "'"
        if self.file.suffix == ".parquet":
            return f"read_parquet({quoted})"
        columns = ", ".join(f"{name}: '{kind}'" for name, kind in COLUMNS.items())
        return f"read_json({quoted}, columns = {{{columns}}})"

    def _columns(self, connection: duckdb.DuckDBPyConnection) -> str:
        """All of COLUMNS; the ones that a Parquet file lacks are null."""
        present = connection.sql(f"FROM {self._source}").columns
        return ", ".join(f"{name if name in present else 'NULL'}::{kind} AS {name}" for name, kind in COLUMNS.items())

    def _check(self, connection: duckdb.DuckDBPyConnection, rows: str) -> None:
        """Raises InputError if a row does not identify its passage, or has no list of propositions."""
        if not self._checked:
            faults = connection.sql(
                "SELECT count(*) FILTER (text IS NULL AND passage_id IS NULL), count(*) FILTER (propositions IS NULL "
                f"OR len(propositions) > len(list_filter(propositions, lambda fact: fact IS NOT NULL))) FROM {rows}"
            ).fetchall()
            [(nameless, empty)] = faults
            if nameless or empty:
                raise InputError(
                    f"{self.file}: {nameless:,} rows have neither text nor passage_id, {empty:,} have no list of "
                    f"strings in propositions. A row is {ROW}"
                )
            self._checked.append(True)

    @cached_property
    def _checked(self) -> list[bool]:
        """Not empty once the file was checked."""
        return []
