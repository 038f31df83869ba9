"""Tables as files: Parquet, and Arrow for what is read once more and removed."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from storage.files.local import local
from storage.files.writing import write_atomically

ROW_GROUP = 4096
"""Rows in a row group: what is read to fetch a few rows of a shard."""


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table at once. The same table gives the same bytes. Raises NotWritten."""
    vectors = [f"{field.name}.list.element" for field in table.schema if pa.types.is_fixed_size_list(field.type)]
    texts = [field.name for field in table.schema if pa.types.is_string(field.type)]
    write_atomically(
        path,
        lambda temporary: pq.write_table(
            table,
            temporary,
            row_group_size=ROW_GROUP,
            # Floats of unit vectors do not compress; texts rarely repeat but compress well.
            compression="none" if vectors else "zstd",
            use_dictionary=[name for name in ("kind",) if name in table.column_names] if vectors else texts,
            write_page_index=True,
        ),
    )


def read_table(path: Path, columns: Sequence[str] | None = None, mapped: bool = False) -> pa.Table:
    """A Parquet file, or some of its columns; `mapped`: pages are read from the disk as they are touched.

    Raises FileNotFoundError, and pa.ArrowInvalid or OSError where it is damaged.
    """
    return pq.read_table(local(path), columns=columns and [*columns], memory_map=mapped)


def read_tables(paths: Iterable[Path], columns: Sequence[str] | None = None) -> pa.Table:
    """Parquet files of one schema (at least one), one below the other."""
    return pa.concat_tables(read_table(path, columns) for path in paths)


def open_table(path: Path) -> pq.ParquetFile:
    """A Parquet file to be read row group by row group; its metadata is read at once."""
    return pq.ParquetFile(local(path))


def read_schema(path: Path) -> pa.Schema:
    return pq.read_schema(local(path))


def write_arrow(path: Path, table: pa.Table) -> None:
    """Write a table as an Arrow file, which is mapped and not decoded. Raises NotWritten."""

    def write(temporary: Path) -> None:
        with pa.ipc.new_file(str(temporary), table.schema) as writer:
            writer.write_table(table)

    write_atomically(path, write)


def read_arrow(path: Path) -> pa.Table:
    """A table of `write_arrow`, mapped: it stays so as long as one of its columns, or a slice of one, is held."""
    with pa.memory_map(str(local(path))) as file:
        return pa.ipc.open_file(file).read_all()
