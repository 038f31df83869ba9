"""Whether an SQL condition chooses the same questions whenever it is asked, as the fingerprint of its text promises.

DuckDB says of its functions which depend on their arguments alone. The others (random numbers, the clock, identifiers,
settings), macros that call them, samples, and tables other than the questions' would choose differently another time.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import duckdb

_CLOCK = {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"}
"""Keywords, which look like columns."""
_SCHEMAS = ("", "main")
_STEADY_TABLES = {"range", "generate_series", "unnest", "json_each", "json_tree", "repeat"}
"""Functions that give rows of their arguments alone; others read the database, or run SQL that is in a text."""
_CHANGING = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT'"
_MACROS = "SELECT function_name, macro_definition FROM duckdb_functions() WHERE function_type = 'macro'"


def changing(connection: duckdb.DuckDBPyConnection, condition: str, tables: set[str]) -> str | None:
    """The first thing in a valid condition whose result may change; None where there is none. `tables`: those that
    it may read."""
    serialized = connection.execute("SELECT json_serialize_sql(?)", [f"SELECT {condition}\n"]).fetchall()[0][0]
    try:
        nodes = [*_nodes(json.loads(serialized))]
    except RecursionError:
        return "an expression this deeply nested"
    functions = _changing(connection)
    with_queries = {entry["key"].lower() for node in nodes for entry in node.get("map", ())}
    for node in nodes:
        if named := _changes(node, functions, tables | with_queries):
            return named
    return None


def _changing(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Names of functions and macros. One of DuckDB's clocks calls itself consistent; an error always is one."""
    names = {name for (name,) in connection.sql(_CHANGING).fetchall()} - {"error"}
    names |= _CLOCK | {"current_localtime", "current_localtimestamp"}
    macros = connection.sql(_MACROS).fetchall()
    while more := {name for name, text in macros if names.intersection(re.findall(r"\w+", text.lower()))} - names:
        names |= more
    return names


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
        left.extend(node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())


def _changes(node: dict[str, Any], functions: set[str], tables: set[str]) -> str | None:
    kind, function = node.get("type"), node.get("function_name", "").lower()
    if node.get("sample"):
        return "a sample"
    if function in functions:
        return f"{function}()"
    if kind == "COLUMN_REF" and node["column_names"][-1].lower() in _CLOCK:
        return str(node["column_names"][-1]).lower()
    if kind == "TABLE_FUNCTION" and (called := node["function"]["function_name"].lower()) not in _STEADY_TABLES:
        return f"the table {called}()"
    if kind == "BASE_TABLE" and (node["schema_name"] not in _SCHEMAS or node["table_name"].lower() not in tables):
        return f"the table {node['table_name']}"
    return None
