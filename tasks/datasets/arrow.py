"""Rows of Arrow batches, as dictionaries that the column mapping reads."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from vitalfew.tasks.datasets.base import Reject

BATCH_ROWS = 1_000
"""The number of rows converted to Python at a time."""


def rows_of(batch: pa.RecordBatch | pa.Table) -> Iterator[dict[str, Any] | Reject]:
    """Yield the rows of a batch; a row with a value that is broken or has no Python equivalent becomes a Reject."""
    try:
        rows = _rows(batch)
    except (ValueError, OverflowError, pa.ArrowException):
        rows = [_row_or_reject(batch.slice(position, 1)) for position in range(batch.num_rows)]
    yield from rows


def _rows(batch: pa.RecordBatch | pa.Table) -> list[Any]:
    """Return the rows of a batch. Raises ValueError (also as ArrowInvalid), OverflowError or ArrowException."""
    # Arrow trusts a file's buffers: an offset that points outside them would crash the process.
    batch.validate(full=True)
    return batch.to_pylist()


def _row_or_reject(batch: pa.RecordBatch | pa.Table) -> dict[str, Any] | Reject:
    try:
        row: dict[str, Any] = _rows(batch)[0]
    except (ValueError, OverflowError, pa.ArrowException) as error:
        reason = "invalid_unicode" if "UTF8" in str(error) else "wrong_type"
        return Reject(reason, f"a value of the row cannot be read: {ascii(str(error))[1:-1][:120]}")
    return row
