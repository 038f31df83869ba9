"""Golden: the tables of the catalog with the name and type of every column, and the macros with their parameters."""

from collections.abc import Callable

import vitalfew as vf
from tests.golden.stores import rows, valley

COLUMNS = (
    "SELECT table_name, string_agg(column_name || ' ' || data_type, ', ' ORDER BY column_index) "
    "FROM duckdb_columns() WHERE NOT internal AND schema_name = 'main' GROUP BY ALL ORDER BY table_name"
)
MACROS = (
    "SELECT function_name, parameters FROM duckdb_functions() "
    "WHERE NOT internal AND function_type LIKE '%macro' ORDER BY ALL"
)


def test_columns(golden: Callable[[str, str], None]) -> None:
    found = rows(vf.Store(valley() / "store", progress=False), COLUMNS)
    golden("sql/columns.txt", "".join(f"{table}: {columns}\n" for table, columns in found))


def test_macros(golden: Callable[[str, str], None]) -> None:
    found = rows(vf.Store(valley() / "store", progress=False), MACROS)
    golden("sql/macros.txt", "".join(f"{name}({', '.join(parameters)})\n" for name, parameters in found))
