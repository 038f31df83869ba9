"""Rows of Arrow batches, as the mapping of columns takes them."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tasks.datasets.base import Reject

BATCH_ROWS = 1_000
"""Rows that are turned into Python at a time."""


def rows_of(batch: pa.RecordBatch | pa.Table) -> Iterator[dict[str, Any] | Reject]:
    """The rows of a batch; a Reject for one with a value that is broken, or for which Python has none."""
    try:
        rows = _rows(batch)
    except (ValueError, OverflowError, pa.ArrowException):
        rows = [_row_or_reject(batch.slice(position, 1)) for position in range(batch.num_rows)]
    yield from rows


def _rows(batch: pa.RecordBatch | pa.Table) -> list[Any]:
    """The rows of a batch. Raises ValueError (of which ArrowInvalid is one), OverflowError or ArrowException."""
    # Arrow believes the buffers of a file: an offset that leads out of them would crash the process.
    batch.validate(full=True)
    return batch.to_pylist()


def _row_or_reject(batch: pa.RecordBatch | pa.Table) -> dict[str, Any] | Reject:
    try:
        row: dict[str, Any] = _rows(batch)[0]
    except (ValueError, OverflowError, pa.ArrowException) as error:
        reason = "invalid_unicode" if "UTF8" in str(error) else "wrong_type"
        return Reject(reason, f"a value of the row cannot be read: {ascii(str(error))[1:-1][:120]}")
    return row
