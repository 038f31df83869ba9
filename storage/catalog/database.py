"""The catalog: one DuckDB view per table over every complete artifact of a store, for SQL without a server.

`changing` checks if an SQL condition chooses the same questions whenever it is asked, as the fingerprint of its text
promises. DuckDB says of its functions which depend on their arguments alone. The others (random numbers, the clock,
identifiers, settings), macros that call them, samples, and tables other than the questions' would choose differently
another time.
"""

import json
import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from threading import Event, RLock, Thread
from time import monotonic
from typing import Any

import duckdb
import pyarrow as pa

from vitalfew.storage import files, runs, version
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.catalog.views import LAYOUT, fault_of, fill, quoted
from vitalfew.storage.files import NotWritten
from vitalfew.storage.upkeep.inventory import check_store, is_fingerprinted

logger = logging.getLogger("vitalfew")

CATALOG = "catalog.duckdb"
LIMITS = {
    "memory_limit": "50%",
    "temp_directory": str(Path(gettempdir(), f"vitalfew-sql-{os.getpid()}")),
    "max_temp_directory_size": "10GB",
}
"""How much of the memory a query may take, and of the temporary disk for rows that do not fit."""
_WRITING = RLock()
"""Threads of a process must not write a catalog at the same time: DuckDB takes their files for one database."""
_LOOKS = 0.05
"""Seconds between two looks whether a query has to stop."""
_READING = ([duckdb.StatementType.SELECT], [duckdb.StatementType.MULTI])  # the latter is PIVOT


class QueryError(ValueError):
    """SQL that DuckDB refused: the message is DuckDB's, and names the existing tables where that helps."""


class Stopped(QueryError):
    """A query that another thread has stopped."""


def refresh(store: Path) -> None:
    """Write the catalog again; where that fails, say so and leave it to the next query."""
    try:
        build(store)
    except (files.Damaged, OSError, duckdb.Error) as error:
        logger.warning("the catalog is out of date: %s", error)


def build(store: Path) -> Path:
    """Write the catalog again. Readers of the old file go on; the next to open sees the new one.

    Views name files by absolute path (DuckDB checks those against the directories it may read), and the catalog knows
    where it was written, so that a store that was moved gets another one. Raises OtherVersion, NotWritten.
    """
    version.check(store)
    path = store / CATALOG
    with _WRITING:
        files.write_atomically(path, lambda temporary: _write(temporary, store))
    return path


def _write(temporary: Path, store: Path) -> None:
    """Raises duckdb.Error, also where the disk is full: closing a database would keep silent about that."""
    with TemporaryDirectory(prefix="vitalfew-") as folder:  # DuckDB takes a `?` in a path for the beginning of options
        with duckdb.connect(f"{folder}/{CATALOG}") as connection:
            files.open_to_sql(connection, store)
            fill(connection, store)
            connection.execute("CHECKPOINT")
        shutil.copy(f"{folder}/{CATALOG}", temporary)


def _current(store: Path) -> duckdb.DuckDBPyConnection | None:
    """The catalog, opened: to open it takes longer than most queries. None where it is missing, was made of other
    records than there are, or is of another place or version."""
    path = store / CATALOG
    if not files.exists(path):
        return None
    try:
        connection = _open(path, store)
    except duckdb.Error:  # written by another version, or damaged: it holds nothing that cannot be written again
        return None
    if _is_of(connection, store):
        return connection
    connection.close()
    return None


def _is_of(connection: duckdb.DuckDBPyConnection, store: Path) -> bool:
    """Return true if a catalog has this layout and this place, and was made of the records that are there now."""
    try:
        here = (str(files.absolute(store)), LAYOUT, files.version(store))
        (place,) = connection.sql("SELECT root, layout, version, left_out FROM place").fetchall()
        running = connection.sql("SELECT run_id FROM runs WHERE state = 'running'").fetchall()
    except (duckdb.Error, ValueError):
        return False
    *made, left_out = place
    if not here[-1] or tuple(made) != here:
        return False
    for name in left_out:  # a copied store may get files after their manifest
        artifact = Artifact(store, *name.split("/"))
        manifest = artifact.recorded_manifest()
        if manifest and fault_of(artifact, manifest) is None:
            return False
    return all(runs.is_running(store, run_id) for (run_id,) in running)


def connect(store: Path) -> duckdb.DuckDBPyConnection:
    """A read-only connection that reads nothing outside the store. Raises FileNotFoundError where there is no store."""
    check_store(store)
    if current := _current(store):
        return current
    with _WRITING:
        if current := _current(store):  # another thread has written it meanwhile
            return current
        try:
            return _open(build(store), store)
        except (NotWritten, files.BucketError):  # a store that may only be read can be queried all the same
            with TemporaryDirectory(prefix="vitalfew-") as folder:
                _write(Path(folder) / CATALOG, store)
                return _open(Path(folder) / CATALOG, store)


def without_rows() -> duckdb.DuckDBPyConnection:
    """The catalog of an empty store, in memory: every table, view and macro with its comments."""
    connection = duckdb.connect()
    fill(connection, Path(os.devnull))
    return connection


def _open(path: Path, store: Path) -> duckdb.DuckDBPyConnection:
    """A copy of a catalog, opened. Connections of one process to one file share what the first of them has read: a
    query of an hour would keep all others from what the store has got meanwhile."""
    with TemporaryDirectory(prefix="vitalfew-") as folder:
        temporary = shutil.copy(files.local(path), folder)
        connection = duckdb.connect(temporary, read_only=True)  # it keeps the file, whose name goes
    _confine(connection, store)
    return connection


def _confine(connection: duckdb.DuckDBPyConnection, store: Path) -> None:
    """Let a connection read nothing outside the store, and take no more than `LIMITS`."""
    files.open_to_sql(connection, store)
    connection.execute("SET TimeZone = 'UTC'")
    for name, value in LIMITS.items():
        connection.execute(f"SET {name} = {quoted(value)}")
    allowed = ", ".join(quoted(f"{place}/") for place in _places(store))
    connection.execute(f"SET allowed_directories = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _places(store: Path) -> list[Path]:
    """Where the store's tables lie: in the store, and where a user has moved some to another disk, leaving a link.

    DuckDB goes by where a file really is. Of what a link leads to, only directories named as an artifact's are let in.
    """
    if files.is_in_bucket(store):
        return [store]
    folders = (folder for table in files.folders(store) for folder in files.folders(table) if is_fingerprinted(folder))
    linked = (files.absolute(folder) for folder in folders if not files.is_inside(store, folder))
    return [files.absolute(store), *filter(is_fingerprinted, linked)]


@contextmanager
def limited(
    store: Path, sql: str, seconds: float | None = None, stop: Event | None = None
) -> Iterator[duckdb.DuckDBPyRelation]:
    """Run one statement that only reads, and read its rows within the block. Raises QueryError, also if it takes more
    than LIMITS or longer than `seconds`; Stopped once another thread has set `stop`."""
    stop, over, end = stop or Event(), Event(), monotonic() + (seconds or float("inf"))
    connection = connect(store)

    def watch() -> None:
        while not over.wait(_LOOKS):  # again and again: an interrupt before a statement runs does not stop it
            if stop.is_set() or monotonic() > end:
                connection.interrupt()

    watcher = Thread(target=watch, daemon=True)
    try:
        watcher.start()
        yield _relation(connection, sql)
    except (duckdb.InterruptException, KeyboardInterrupt):  # the latter is what a caller may make of it
        if stop.is_set():
            raise Stopped("the query was cancelled") from None
        if monotonic() <= end:
            raise KeyboardInterrupt from None
        raise QueryError(
            f"the query was stopped after {seconds:g} s: ask for less, or give it more time (--timeout SECONDS)"
        ) from None
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise QueryError(
            f"the query needs more memory than it may take ({LIMITS['memory_limit']} of this machine's, and "
            f"{LIMITS['max_temp_directory_size']} of {gettempdir()}): ask for fewer rows at a time. DuckDB says: "
            f"{str(error).partition(chr(10))[0]}"
        ) from None
    except duckdb.Error as error:  # of a value, which only running it shows
        raise QueryError(_cause(error)) from None
    finally:
        over.set()
        watcher.join()
        connection.close()


def query(store: Path, sql: str) -> duckdb.DuckDBPyRelation:
    """Run one statement that only reads. Raises QueryError."""
    return _relation(connect(store), sql)


def answers(store: Path, *statements: str) -> list[pa.Table]:
    """The rows of statements on files of the store, without its catalog, which takes longer to open than most of them
    take. Texts in them are `quoted`. Raises QueryError, also for a file that was removed meanwhile."""
    with duckdb.connect() as connection:
        _confine(connection, store)
        try:
            return [connection.sql(statement).to_arrow_table() for statement in statements]
        except duckdb.Error as error:
            raise QueryError(_cause(error)) from None


def _relation(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyRelation:
    try:
        _check_only_reads(connection, sql)
        return connection.sql(sql)
    except (duckdb.InterruptException, duckdb.OutOfMemoryException):
        raise
    except duckdb.Error as error:
        raise QueryError(_cause(error)) from None


def _cause(error: duckdb.Error) -> str:
    """DuckDB's message, or the last line of an error from Python, as for a missing file in a bucket."""
    text = str(error)
    if not text.startswith("Traceback "):
        return text
    return text.partition("\n\nLINE ")[0].rpartition("\n")[2].partition(": ")[2]


def _check_only_reads(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raises QueryError, or an error of DuckDB.

    That the database is read-only and confined does not keep COPY … TO and EXPORT from overwriting files of the store.
    COPY can also stand in a WITH clause; DuckDB's function `query` refuses that, and all that is not one SELECT.
    """
    statements = duckdb.extract_statements(sql)
    if [statement.type for statement in statements] not in _READING:
        raise QueryError(
            "expected one statement that only reads: SELECT, FROM, DESCRIBE, SHOW, SUMMARIZE or PIVOT … IN (…)"
        )
    try:
        connection.sql(f"EXPLAIN FROM query({quoted(sql)})")
    except duckdb.Error as error:
        raise QueryError(_cause(error).partition("\n\nLINE ")[0]) from None  # which would show the line above


_CLOCK = {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"}
"""Keywords, which look like columns."""
_SCHEMAS = ("", "main")
_STEADY_TABLES = {"range", "generate_series", "unnest", "json_each", "json_tree", "repeat"}
"""Functions that give rows of their arguments alone; others read the database, or run SQL that is in a text."""
_CHANGING = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT'"
_MACROS = "SELECT function_name, macro_definition FROM duckdb_functions() WHERE function_type = 'macro'"


def changing(connection: duckdb.DuckDBPyConnection, condition: str, tables: set[str]) -> str | None:
    """The first part of a valid condition whose result may change; None if none may. `tables`: the tables that it may
    read."""
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
