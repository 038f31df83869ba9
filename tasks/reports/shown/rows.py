"""The rows of a query in a file, a batch at a time."""

import csv
from typing import IO, TYPE_CHECKING, Any

from vitalfew.tasks.reports.shown.text import no_formula

if TYPE_CHECKING:
    import pyarrow as pa


def write_csv(reader: "pa.RecordBatchReader", file: IO[str]) -> int:
    """Write rows as CSV, in which no text is a formula for a spreadsheet; return how many."""

    def cell(value: Any) -> Any:
        return no_formula(value) if isinstance(value, str) else value

    count = 0
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(no_formula, reader.schema.names))
    for batch in reader:
        writer.writerows(map(cell, row) for row in zip(*(each.to_pylist() for each in batch.columns), strict=True))
        count += batch.num_rows
    return count


def write_parquet(reader: "pa.RecordBatchReader", file: IO[bytes]) -> int:
    """Write rows as Parquet; return how many."""
    import pyarrow.parquet as pq

    count = 0
    with pq.ParquetWriter(file, reader.schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)
            count += batch.num_rows
    return count
