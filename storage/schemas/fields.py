"""How a table is declared, and a column: its meaning and unit are metadata of the Arrow field."""

from collections.abc import Iterable

import pyarrow as pa

TABLES: dict[str, pa.Schema] = {}
"""Every table of the catalog."""
ROWS: dict[str, str] = {}
"""What a row of each is, in words."""


def table(name: str, row: str, columns: Iterable[pa.Field]) -> pa.Schema:
    """Declare a table of the catalog. `row`: what a row is, "a unit that was retrieved for a question"."""
    TABLES[name], ROWS[name] = pa.schema(columns), row
    return TABLES[name]


def column(name: str, kind: pa.DataType, about: str, nullable: bool = False, unit: str = "") -> pa.Field:
    return pa.field(name, kind, nullable, {"about": about, "unit": unit})


def described(row: str, *columns: pa.Field) -> pa.Schema:
    """The schema of a table that its files describe themselves; `row`: what a row is, "a sentence of an answer"."""
    return pa.schema(columns, {"row": row})


def list_of(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", kind, nullable=False))


SPAN = pa.struct(
    [
        pa.field("passage_id", pa.int64(), nullable=False),
        pa.field("start", pa.int32(), nullable=False),
        pa.field("end", pa.int32(), nullable=False),
    ]
)
