"""`Query`: a statement that another thread may cancel, and whose rows may be written to a file."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from vitalfew.storage.catalog.database import limited
from vitalfew.tasks.reports.shown.text import write_csv, write_parquet

if TYPE_CHECKING:
    import polars as pl
    from duckdb import DuckDBPyRelation

_BATCH = 10_000
_FOREIGN = re.compile(r"UNION|INTERVAL|\bBIT\b|VARIANT|UHUGEINT")
"""Types of DuckDB that Polars does not have."""
_PLAIN = re.compile(r"U?(TINY|SMALL|BIG)?INT(EGER)?|HUGEINT|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)|BOOLEAN|VARCHAR")

_NESTED = re.compile(r"\]$|^(STRUCT|MAP)\b")


class Query:
    """One statement that only reads, not run yet: `frame` runs it, and `cancel` ends it from another thread.

    A query that was cancelled stays so.
    """

    def __init__(self, place: Path, sql: str, timeout: float = 600) -> None:
        """`timeout`: seconds that a run of it may take."""
        self.place, self.sql, self.timeout = place, sql, timeout
        self._stop = Event()

    def frame(self, most: int | None = None, most_bytes: int | None = None, plain: bool = False) -> "pl.DataFrame":
        """The rows; at most `most`, and none after those that first fill `most_bytes` of memory.

        Types that Polars lacks (INTERVAL, UNION, BIT) come as text. `plain`: so does all that is not a number, a
        boolean or text: times (UTC) and bytes as DuckDB writes them, lists, structs and maps as JSON. Raises
        QueryError, Stopped after `cancel`, FileNotFoundError without a store.
        """
        import polars as pl
        import pyarrow as pa

        with self._read(most, plain) as rows:
            reader = rows.to_arrow_reader(_BATCH)
            batches, size = list[pa.RecordBatch](), 0
            for batch in reader:
                batches.append(batch)
                size += batch.nbytes
                if most_bytes and size >= most_bytes:
                    break
            return pl.DataFrame(pa.Table.from_batches(batches, reader.schema))

    def write(self, path: str | Path, most: int | None = None) -> int:
        """Write the rows to a file, .csv or .parquet by its name, a batch at a time, at most `most`; return how many.

        In CSV no text is a formula for a spreadsheet. Raises ValueError for another name, and as `frame`.
        """
        path = Path(path)
        if path.suffix not in (".csv", ".parquet"):
            raise ValueError(f"a query is written to a file that ends with .csv or .parquet, got {path.name!r}")
        with self._read(most) as rows:
            reader = rows.to_arrow_reader(_BATCH)
            if path.suffix == ".parquet":
                with path.open("wb") as file:
                    return write_parquet(reader, file)
            with path.open("w", encoding="utf-8", newline="") as text:
                return write_csv(reader, text)

    def cancel(self) -> None:
        """End the query, from any thread and at any time; it raises Stopped within a fraction of a second."""
        self._stop.set()

    @contextmanager
    def _read(self, most: int | None, plain: bool = False) -> Iterator["DuckDBPyRelation"]:
        with limited(self.place, self.sql, self.timeout, self._stop) as rows:
            found = rows.project("*") if most is None else rows.limit(most)  # both tell columns of one name apart
            columns = (_column(*each, plain) for each in zip(found.columns, map(str, found.types), strict=True))
            yield found.project(", ".join(columns))


def _column(name: str, kind: str, plain: bool) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    if plain and _NESTED.search(kind):
        return f"CAST(to_json({quoted}) AS VARCHAR) AS {quoted}"
    is_text = _FOREIGN.search(kind) or (plain and not _PLAIN.fullmatch(kind))
    return f"CAST({quoted} AS VARCHAR) AS {quoted}" if is_text else quoted
