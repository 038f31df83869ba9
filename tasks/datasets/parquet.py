"""Apache Parquet: a file, or a folder of files with the same columns; passages or questions."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.datasets.arrow import BATCH_ROWS, rows_of
from tasks.datasets.base import DatasetOptions, InputError, Record, Reject
from tasks.datasets.columns import TableOptions, present_columns
from tasks.datasets.files import FileDataset, check_source
from tasks.datasets.rows import records_of

_SUFFIXES = (".parquet", ".pq")


class Parquet(FileDataset):
    """Passages, or questions, of a Parquet file, or of all files *.parquet in a folder and the folders in it.

    By default a row is a passage with the columns text, title and id, of which only the text must be there; columns of
    other names are given by text=, title= and id=, where `a.b` is the field b of a struct a. With question=COLUMN a row
    is a question with its gold answers in the column that answers= names: a list of strings, or a string that is one
    answer, a list in JSON, or several with a separator= between them. Only the columns in use are read. The offset is
    the row's number, counted on from file to file in the order of their names; names that start with "." or "_" are
    passed over.
    """

    example: ClassVar[str] = "parquet:data/wiki/?text=body&title=headline"
    Options: ClassVar[type[DatasetOptions]] = TableOptions
    options: TableOptions

    def files(self) -> list[Path]:
        source = self.source()
        if not os.path.isdir(source):
            check_source(source)
            return [source]
        found = sorted(_listed(source))
        if not found:
            raise InputError(f"{source} has no files *.parquet. Name the folder they are in, or one file")
        return found

    def records(self) -> Iterator[tuple[int, Record]]:
        return records_of(self._rows(), self.options.records)

    def _rows(self) -> Iterator[tuple[int, dict[str, Any] | Reject]]:
        number = 0
        for path in self.files():
            for row in self._rows_of(path):
                number += 1
                yield number, row

    def _rows_of(self, path: Path) -> Iterator[dict[str, Any] | Reject]:
        """The rows of one file, a batch of a row group in memory at a time. Raises InputError."""
        check_source(path)
        position = 0
        try:
            # Read ahead, it would hold all row groups' columns at once.
            with pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True) as file:
                columns = present_columns(self.options, file.schema_arrow.names, path)
                for group in range(file.num_row_groups):
                    for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns):
                        position += batch.num_rows
                        yield from rows_of(batch)
        except (pa.ArrowException, OSError, MemoryError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{path}: not readable as Parquet after row {position} ({str(error)[:200]}). It is another format, was "
                "cut short or is broken: fetch or write it again"
            ) from error


def _listed(folder: Path) -> Iterator[Path]:
    """The Parquet files under a folder, whatever their order."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in names:
            if name.lower().endswith(_SUFFIXES) and not name.startswith((".", "_")):
                yield Path(parent, name)
