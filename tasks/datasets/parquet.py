"""Apache Parquet: a file, or a folder of files with the same columns; passages or questions."""

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vitalfew.tasks.datasets.arrow import BATCH_ROWS, rows_of
from vitalfew.tasks.datasets.base import DatasetOptions, InputError, Record, Reject
from vitalfew.tasks.datasets.columns import TableOptions, present_columns
from vitalfew.tasks.datasets.files import FileDataset, check_source
from vitalfew.tasks.datasets.rows import records_of

BATCH_BYTES = 64 << 20
"""Bytes of the texts that are converted at a time and that rows may share."""
LONGEST_CHAINED = 4 << 20
"""Bytes that a text may have where texts are stored by what they have beyond the one before, without a dictionary."""

_SUFFIXES = (".parquet", ".pq")


class Parquet(FileDataset):
    """Passages, or questions, of a Parquet file, or of all files `*.parquet` in a folder and its subfolders.

    By default a row is a passage with the columns text, title and id, of which only the text is required, or a
    question with the columns question and answers: a list of strings, or a string that is one answer, a JSON list,
    or several answers separated by separator=. Options name other columns, where `a.b` is the field b of a struct
    a. Only the columns in use are read. The offset is the row's number, which continues from file to file in the
    order of their names; names that start with "." or "_" are skipped.
    """

    example: ClassVar[str] = "parquet:data/wiki/?text=body&title=headline"
    Options: ClassVar[type[DatasetOptions]] = TableOptions
    options: TableOptions

    def files(self) -> list[Path]:
        source = self.source()
        if not os.path.isdir(source):
            check_source(source)
            return [source]
        files = sorted(_listed(source))
        if not files:
            raise InputError(f"{source} has no files *.parquet. Name the folder they are in, or one file")
        return files

    def records(self) -> Iterator[tuple[int, Record]]:
        return records_of(self._rows(), self.options.records)

    def _rows(self) -> Iterator[tuple[int, dict[str, Any] | Reject]]:
        number = 0
        for path in self.files():
            for row in self._rows_of(path):
                number += 1
                yield number, row

    def _rows_of(self, path: Path) -> Iterator[dict[str, Any] | Reject]:
        """Yield the rows of one file, with one batch of a row group in memory at a time. Raises InputError."""
        check_source(path)
        position = 0
        try:
            with _opened(path) as file, _opened(path, file.schema) as shared:
                columns = present_columns(self.options, file.schema_arrow.names, path)
                for group in range(file.num_row_groups):
                    rows = max(1, min(BATCH_ROWS, BATCH_BYTES // _longest_shared(shared, group, columns)))
                    for batch in file.iter_batches(rows, row_groups=[group], columns=columns):
                        position += batch.num_rows
                        yield from rows_of(batch)
                if file.metadata.num_rows != position:
                    raise ValueError(f"its footer announces {file.metadata.num_rows} rows")
        except (pa.ArrowException, OSError, MemoryError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{path}: not readable as Parquet after row {position} ({str(error)[:200]}). It has another format, is "
                "cut short or is broken: fetch or write it again"
            ) from error


def _opened(path: Path, shared: pq.ParquetSchema | None = None) -> pq.ParquetFile:
    """A file to be read batch by batch; with its schema, the texts that rows share stay a dictionary."""
    columns = [shared.column(number) for number in range(len(shared))] if shared else []
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    # With read-ahead it would hold the columns of all row groups at once.
    return pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True, read_dictionary=texts)


def _longest_shared(file: pq.ParquetFile, group: int, columns: list[str]) -> int:
    """Bytes of the longest text in the dictionaries of a row group, at least 1: each of its rows may be this text,
    which costs the file a few bits and memory all of it."""
    try:
        first = next(file.iter_batches(1, row_groups=[group], columns=columns), None)
    except OSError:  # texts that are stored as what they add to the one before; or the file is broken
        return LONGEST_CHAINED
    shared = chain.from_iterable(map(_dictionaries, first or ()))
    return max([1, *(pc.max(pc.binary_length(texts)).as_py() or 0 for texts in shared)])


def _dictionaries(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the dictionaries of a column, also those within its structs and lists."""
    if pa.types.is_dictionary(column.type):
        yield column.dictionary
    elif pa.types.is_nested(column.type):
        for part in column.flatten() if pa.types.is_struct(column.type) else [column.values]:
            yield from _dictionaries(part)


def _listed(folder: Path) -> Iterator[Path]:
    """Yield the Parquet files under a folder, in any order."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in names:
            if name.lower().endswith(_SUFFIXES) and not name.startswith((".", "_")):
                yield Path(parent, name)
