"""A catalog in words: its tables with their columns, and its macros with examples. The page SQL completes from it."""

from dataclasses import dataclass, field

import duckdb

from vitalfew.storage.catalog.macros import MACROS
from vitalfew.storage.catalog.views import ColumnInfo, documented, rows


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A table, view or macro. `columns`: of a table; `call`, `example`: of a macro, as in SQL."""

    name: str
    about: str
    columns: dict[str, ColumnInfo] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    call: str = ""
    example: str = ""

    @property
    def is_macro(self) -> bool:
        return bool(self.call)


def entries(connection: duckdb.DuckDBPyConnection) -> list[CatalogEntry]:
    """Describe the tables and views of a catalog, those that only its store has among them, and the macros."""
    asked = "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal ORDER BY column_index"
    types: dict[str, dict[str, str]] = {}
    for table, column, kind in connection.sql(asked).fetchall():
        types.setdefault(table, {})[column] = kind
    tables = [
        CatalogEntry(name, about, documented(connection, name), types.get(name, {}))
        for name, about in rows(connection).items()
    ]
    return tables + [
        CatalogEntry(macro.name, macro.about, call=macro.signature, example=macro.example) for macro in MACROS
    ]
