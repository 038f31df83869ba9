"""The corpus's terms and in how many of its units they stand: merged from the shards' `terms` in bounded memory."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from vitalfew.storage import files

MEMORY = "512MB"


def merge(paths: Sequence[Path], unit: str, vocabulary: Path) -> None:
    """Write one unit's `term, documents`, by term, over all shards; what does not fit into memory is spilled."""
    sources = ", ".join(_quoted(files.local(path)) for path in paths)
    rows = f"SELECT term, sum(documents)::BIGINT AS documents FROM read_parquet([{sources}]) WHERE unit = '{unit}'"

    def write(temporary: Path) -> None:
        with _connected(temporary.parent) as connection:
            target = f"{_quoted(temporary)} (FORMAT parquet, COMPRESSION zstd)"
            connection.execute(f"COPY ({rows} GROUP BY term ORDER BY term) TO {target}")

    files.write_atomically(vocabulary, write)


def documents(vocabulary: Path, terms: Iterable[str]) -> dict[str, int]:
    """In how many units of the corpus these terms stand."""
    wanted = pa.table({"term": pa.array(sorted(terms), pa.string())})
    path = files.local(vocabulary)
    with _connected(path.parent) as connection:
        connection.register("wanted", wanted)
        rows = f"SELECT term, documents FROM wanted JOIN read_parquet({_quoted(path)}) USING (term)"
        return dict(connection.execute(rows).fetchall())


def _connected(folder: Path) -> duckdb.DuckDBPyConnection:
    """One thread, so that the same rows give the same bytes."""
    return duckdb.connect(config={"memory_limit": MEMORY, "threads": 1, "temp_directory": str(folder / "spill")})


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
