"""Rows of Arrow batches, as the mapping of columns takes them."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tasks.datasets.base import Reject

BATCH_ROWS = 1_000
"""Rows that are turned into Python at a time."""


def rows_of(batch: pa.RecordBatch | pa.Table) -> Iterator[dict[str, Any] | Reject]:
    """The rows of a batch; a Reject for one with a value that Python has none for, as bytes that are not UTF-8."""
    try:
        rows = batch.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException):
        rows = [_row(batch.slice(position, 1)) for position in range(batch.num_rows)]
    yield from rows


def _row(batch: pa.RecordBatch | pa.Table) -> dict[str, Any] | Reject:
    try:
        row: dict[str, Any] = batch.to_pylist()[0]
    except UnicodeDecodeError as error:
        return Reject("invalid_unicode", f"a string of the row is not UTF-8 at its byte {error.start + 1}")
    except (ValueError, OverflowError, pa.ArrowException) as error:
        return Reject("wrong_type", f"a value of the row cannot be read: {str(error)[:120]!r}")
    return row
