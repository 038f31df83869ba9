"""Tables as files: Parquet, and Arrow for what is read once more and removed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vitalfew.storage.files.checksums import damage_named
from vitalfew.storage.files.directory import DIRECTORY, Status
from vitalfew.storage.files.places import medium

ROW_GROUP = 4096
"""Rows in a row group: what is read to fetch a few rows of a shard."""

_CHECKED: dict[str, Any] = {"page_checksum_verification": True}
"""A page that has no checksum, as another program may write it, is read all the same."""
_UNREADABLE = (pa.ArrowException, OSError, UnicodeError)
"""pyarrow's errors for bytes that it does not understand."""


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table at once. The same table gives the same bytes. Raises NotWritten."""
    medium(path).write(path, lambda temporary: _write(table, temporary))


def write_batches(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write batches one after the other as one table, of which one batch at a time is in memory; the rows. The file is
    there once it is whole. Raises NotWritten."""
    rows = 0

    def write(temporary: Path) -> None:
        nonlocal rows
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows

    medium(path).write(path, write)
    return rows


def rewrite_table(path: Path, table: Callable[[], pa.Table]) -> None:
    """Write the table that `table` makes of the one that is there, as `Directory.rewrite`. Raises NotWritten."""
    medium(path).rewrite(path, lambda temporary: _write(table(), temporary))


def _write(table: pa.Table, temporary: Path) -> None:
    vectors = [f"{field.name}.list.element" for field in table.schema if pa.types.is_fixed_size_list(field.type)]
    texts = [field.name for field in table.schema if pa.types.is_string(field.type)]
    pq.write_table(
        table,
        temporary,
        row_group_size=ROW_GROUP,
        # Floats of unit vectors do not compress; texts rarely repeat but compress well.
        compression="none" if vectors else "zstd",
        use_dictionary=[name for name in ("kind",) if name in table.column_names] if vectors else texts,
        write_page_index=True,
        write_page_checksum=True,
    )


def read_table(
    path: Path, columns: Sequence[str] | None = None, mapped: bool = False, where: pc.Expression | None = None
) -> pa.Table:
    """Read a Parquet file, or some of its columns, or the rows that fulfil `where`; `mapped`: pages are read from the
    disk as they are touched. Raises FileNotFoundError, and Damaged where the bytes of a page have changed."""
    names = columns and [*columns]
    with damage_named(path, *_UNREADABLE):
        place = medium(path).local(path)
        if where is not None:
            _check_rows(pq.read_metadata(place))
            return _whole(pq.read_table(place, columns=names, memory_map=mapped, filters=where, **_CHECKED))
        # Not by pq.read_table, which imports pandas where that is installed: half a second of every short command.
        with pq.ParquetFile(place, memory_map=mapped, pre_buffer=not mapped, **_CHECKED) as file:
            _check_rows(file.metadata)
            if missing := {*(names or ())} - {*file.schema_arrow.names}:
                raise pa.ArrowInvalid(f"no column {min(missing)}")
            table = _whole(file.read(names))
            return table.select(names) if names else table


def _check_rows(footer: pq.FileMetaData) -> None:
    """Raises ArrowInvalid where a footer, which has no checksum, says two numbers of rows."""
    rows = sum(footer.row_group(number).num_rows for number in range(footer.num_row_groups))
    if rows != footer.num_rows:
        raise pa.ArrowInvalid(f"its footer announces {footer.num_rows} rows, and its row groups {rows}")


Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def _whole(rows: Rows) -> Rows:
    """Check that texts are UTF-8, and that dictionaries have all their entries. Raises ArrowInvalid."""
    rows.validate(full=True)
    return rows


def read_tables(
    paths: Iterable[Path], columns: Sequence[str] | None = None, where: pc.Expression | None = None
) -> pa.Table:
    """Parquet files of one schema (at least one), one below the other. Raises FileNotFoundError, Damaged."""
    return pa.concat_tables(read_table(path, columns, where=where) for path in paths)


class OpenTable(pq.ParquetFile):
    """A Parquet file to be read row group by row group; its metadata is read at once. Raises FileNotFoundError,
    Damaged; so do the methods that read its rows."""

    def __init__(self, path: Path) -> None:
        self._place = path
        with damage_named(path, *_UNREADABLE):
            super().__init__(medium(path).local(path), **_CHECKED)
            _check_rows(self.metadata)

    def read_row_group(self, *arguments: Any, **named: Any) -> pa.Table:
        with damage_named(self._place, *_UNREADABLE):
            return _whole(super().read_row_group(*arguments, **named))

    def iter_batches(self, *arguments: Any, **named: Any) -> Iterator[pa.RecordBatch]:
        with damage_named(self._place, *_UNREADABLE):
            yield from map(_whole, super().iter_batches(*arguments, **named))


def read_schema(path: Path) -> pa.Schema:
    """Raises FileNotFoundError, Damaged."""
    with damage_named(path, *_UNREADABLE):
        return pq.read_schema(medium(path).local(path))


def write_arrow(path: Path, table: pa.Table) -> None:
    """Write a table as an Arrow file, which is mapped and not decoded. Raises NotWritten."""

    def write(temporary: Path) -> None:
        with pa.ipc.new_file(str(temporary), table.schema) as writer:
            writer.write_table(table)

    medium(path).write(path, write)


def arrow_bytes(table: pa.Table) -> bytes:
    """The content of an Arrow file of a table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def read_arrow(path: Path) -> pa.Table:
    """A table of `write_arrow`, mapped as long as one of its columns, or a slice of one, is held.

    Raises FileNotFoundError, and Damaged where its form is not as it was written: changed values are not seen.
    """
    with damage_named(path, *_UNREADABLE), pa.memory_map(str(place := medium(path).local(path))) as file:
        table = pa.ipc.open_file(file).read_all()
        # An offset that leads out of a mapped table would end the process that follows it.
        if _validated.get(place) != (now := DIRECTORY.status(place)):
            _whole(table)
            _validated[place] = now
        return table


_validated: dict[Path, Status] = {}
"""The Arrow files that this process has validated, and their status then."""
