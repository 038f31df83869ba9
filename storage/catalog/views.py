"""The catalog's tables, views, macros and their comments, from a store's manifests and records of runs.

The comments describe tables, views and columns in words: `vitalfew tables` shows them as well.
"""

import json
import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from vitalfew.storage import files, runs, schemas
from vitalfew.storage.artifacts import Artifact, Manifest, complete_artifacts, fingerprint
from vitalfew.storage.catalog.indexes import (
    decision_rows,
    gate_rows,
    generation_rows,
    histories,
    holders,
    index_rows,
    of_indexes,
)
from vitalfew.storage.catalog.macros import MACROS
from vitalfew.storage.manifests import PREPARED, first_fault
from vitalfew.storage.runs import Run


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """The meaning of a column. `unit`: empty for a column without one."""

    about: str
    unit: str = ""

    @property
    def comment(self) -> str:
        return f"{self.about} ({self.unit})" if self.unit else self.about


_EVERY = {
    "fingerprint": ColumnInfo("the artifact that holds the row"),
    "run_id": ColumnInfo("the run that completed that artifact"),
}

STORED = ("runs", "methods", "indexes", "generations", "gates", "decisions")
"""Tables that the catalog holds itself: they are made of records."""
OWN_RUNS = ("costs", "quotes", "requests", "reviews")
"""Tables that belong to no artifact: they outlive all of them."""


def _added(table: str) -> tuple[str, ...]:
    """The columns that the catalog adds to those of a table's files."""
    if table in (*STORED, "requests", "reviews"):
        return ()
    return ("fingerprint",) if table in OWN_RUNS else ("fingerprint", "run_id")


def described(schema: pa.Schema, table: str = "") -> dict[str, ColumnInfo]:
    """The columns of a table as its schema describes them, and those that the catalog adds."""
    columns = {}
    for field in schema:
        about, unit = ((field.metadata or {}).get(key, b"").decode() for key in (b"about", b"unit"))
        columns[field.name] = ColumnInfo(about, unit)
    return columns | {name: _EVERY[name] for name in _added(table) if name not in columns}


_QUOTED = described(schemas.QUOTES, "quotes")
_MEASURES = {name: column for name, column in _QUOTED.items() if column.unit}
_LEDGER = {
    "stage": _QUOTED["stage"],
    **{f"quoted_{name}": replace(column, about=f"estimated: {column.about}") for name, column in _MEASURES.items()},
    "quoted_workers": ColumnInfo(f"estimated: {_QUOTED['workers'].about}"),
    **{name: replace(column, about=f"actual: {column.about}") for name, column in _MEASURES.items()},
    "fingerprint": ColumnInfo("the artifact"),
}

CORPUS = ("passages", "sentences", "vectors", "terms", "neighbours", "index_quality")
"""Tables of an index: a view of this name has the current versions alone, `every_version(name)` all of them."""
SHARED = ("questions", "rejects")
"""Tables of indexes and of evaluations. As above, and what never belonged to an index is in both views."""
VERSIONED = (*CORPUS, *SHARED)

_HELD = "the index that has the row now; a row that several indexes share is there once for every one"
_INDEX = dict.fromkeys(CORPUS, ColumnInfo(_HELD)) | dict.fromkeys(SHARED, ColumnInfo(f"{_HELD}; NULL if of no index"))


def every_version(table: str) -> str:
    """The name of the view of all versions."""
    return f"all_{table}"


_VIEWS = {"ledger": _LEDGER} | {name: described(schema, name) for name, schema in schemas.VIEWS.items()}

ROWS = {
    **{table: schemas.ROWS[table] for table in schemas.TABLES},
    **{table: f"{schemas.ROWS[table]}, of current indexes" for table in CORPUS},
    **{table: f"{schemas.ROWS[table]}, of current indexes and of evaluations" for table in SHARED},
    **{every_version(table): f"{schemas.ROWS[table]}, of every version" for table in VERSIONED},
    "artifacts": schemas.ROWS["artifacts"],
    "ledger": "the estimated and actual cost of an artifact",
    "ratings": schemas.ROWS["ratings"],
    "compression": schemas.ROWS["compression"],
}
"""The description of a row, by table and view: "a unit retrieved for a question"."""


def rows(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """`ROWS`, and the same for the views that only this store has."""
    views = connection.sql("SELECT view_name, comment FROM duckdb_views() WHERE NOT internal ORDER BY 1").fetchall()
    return ROWS | {name: (comment or "").removeprefix("a row is ") for name, comment in views if name not in ROWS}


def documented(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, ColumnInfo]:
    """The columns of a table or view of a catalog; one that only its store has gives units in its comments."""
    if table in ROWS:
        return columns(table)
    asked = f"SELECT column_name, coalesce(comment, '') FROM duckdb_columns() WHERE table_name = '{table}'"
    return {name: ColumnInfo(comment) for name, comment in connection.sql(asked).fetchall()}


def columns(table: str) -> dict[str, ColumnInfo]:
    """The columns of a table or view of the catalog, by name. Raises KeyError where there is no such table."""
    if table in _VIEWS:
        return _VIEWS[table]
    if table in VERSIONED:
        return described(schemas.TABLES[table], table) | {"index": _INDEX[table]}
    return described(schemas.TABLES[table.removeprefix(every_version(""))], table)


logger = logging.getLogger("vitalfew")

# Estimate and truth side by side, a row per artifact that has an estimate. A stage's elapsed time is that from the
# beginning of its first shard to the end of its last one, in every run that worked on it.
LEDGER = """
CREATE VIEW ledger AS
WITH spans AS (
    SELECT fingerprint, run_id, sum(rows) AS rows, sum(tokens) AS tokens, sum(cpu_seconds) AS cpu_seconds,
        sum(gpu_seconds) AS gpu_seconds, sum(usd) AS usd, max(peak_memory_bytes) AS peak_memory_bytes,
        date_diff('us', min(started), max(started + to_microseconds((wall_seconds * 1e6)::BIGINT))) / 1e6
            AS wall_seconds
    FROM costs GROUP BY ALL
), truth AS (
    SELECT fingerprint, sum(rows) AS rows, sum(tokens) AS tokens, sum(cpu_seconds) AS cpu_seconds,
        sum(gpu_seconds) AS gpu_seconds, sum(usd) AS usd, max(peak_memory_bytes) AS peak_memory_bytes,
        sum(wall_seconds) AS wall_seconds
    FROM spans GROUP BY ALL
)
SELECT quotes.stage, quotes.rows AS quoted_rows, truth.rows, quotes.tokens AS quoted_tokens, truth.tokens,
    quotes.wall_seconds AS quoted_wall_seconds, truth.wall_seconds,
    quotes.cpu_seconds AS quoted_cpu_seconds, truth.cpu_seconds,
    quotes.gpu_seconds AS quoted_gpu_seconds, truth.gpu_seconds,
    quotes.peak_memory_bytes AS quoted_peak_memory_bytes, truth.peak_memory_bytes,
    quotes.disk_bytes AS quoted_disk_bytes, artifacts.bytes AS disk_bytes,
    quotes.usd AS quoted_usd, truth.usd, quotes.workers AS quoted_workers, fingerprint
FROM quotes JOIN truth USING (fingerprint) LEFT JOIN artifacts USING (fingerprint)
"""

RATINGS = """
CREATE VIEW ratings AS
SELECT question_id, candidate, unnest(ratings, recursive := true), reused, error, fingerprint, run_id FROM candidates
"""

# A run's methods that share a refinement have a row each.
COMPRESSION = """
CREATE VIEW compression AS
SELECT experiment, method, count(*) AS questions, avg(input_tokens) AS input_tokens,
    avg(output_tokens) AS output_tokens, sum(output_tokens) / nullif(sum(input_tokens), 0) AS share,
    avg(seconds) AS seconds, count_if(cut) AS cut, count_if(finish_reason = 'length') AS unfinished, fingerprint,
    methods.run_id
FROM methods JOIN refinements USING (fingerprint) GROUP BY ALL
"""

VIEWS = (LEDGER, RATINGS, COMPRESSION)

LAYOUT = fingerprint(
    columns={table: {name: column.comment for name, column in columns(table).items()} for table in ROWS},
    rows=ROWS,
    views=VIEWS,
    macros=[asdict(macro) for macro in MACROS],
)
"""The version of the catalog's form: a catalog with another one is written again."""


def fill(connection: duckdb.DuckDBPyConnection, store: Path) -> None:
    """Tables, views, macros and their comments; a store that is not there gives them without rows.

    All in one transaction: several hundred comments are not flushed to the disk one by one.
    """
    connection.begin()
    paths, current = _write_tables(connection, store)
    for table in (table for table in schemas.TABLES if table not in STORED):
        # Of a bucket, many small files would be asked for by every query.
        kind = "TABLE" if table in OWN_RUNS and files.is_in_bucket(store) else "VIEW"
        name = every_version(table) if table in VERSIONED else table
        connection.execute(f"CREATE {kind} {name} AS {_select(table, paths[table])}")
    for table in VERSIONED:
        shown = [path for path in paths[table] if path.split("/")[-2] in current[table]]
        connection.execute(f"CREATE VIEW {table} AS {_select(table, shown, _HOLDING[table])}")
    for table in sorted(paths.keys() - schemas.TABLES.keys()):
        _write_further(connection, table, paths[table])
    for view in VIEWS:
        connection.execute(view)
    for macro in MACROS:
        connection.execute(f"CREATE MACRO {macro.signature} AS TABLE {macro.sql}")
    _write_comments(connection)
    connection.commit()


def _write_tables(
    connection: duckdb.DuckDBPyConnection, store: Path
) -> tuple[dict[str, list[str]], dict[str, set[str]]]:
    """Write the tables of artifacts, runs and indexes. Return by table the paths of the files of all others, and the
    fingerprints of the artifacts that a versioned table shows."""
    root, version = files.absolute(store), files.version(store)
    recorded, known = runs.read_runs(store), histories(store)
    held, owned = holders(known), of_indexes(known, recorded)
    artifacts, left_out = list[tuple[Any, ...]](), list[str]()
    complete: dict[str, tuple[Manifest, int]] = {}
    current: dict[str, set[str]] = {table: set() for table in VERSIONED}
    paths: dict[str, list[str]] = {table: [] for table in schemas.TABLES}
    for table in OWN_RUNS:
        paths[table] = [str(root / path.relative_to(store)) for path in _ledgers(store, table)]
    for artifact, manifest in complete_artifacts(store):
        if fault := fault_of(artifact, manifest):
            logger.warning("%s is left out of the tables: %s", artifact.name, fault)
            left_out.append(artifact.name)
            continue
        for file in manifest.files():
            if file.table == PREPARED:
                continue
            if file.table in paths or (file.path.endswith(".parquet") and file.table not in ROWS):
                paths.setdefault(file.table, []).append(str(root / file.path))
        run_id = max(manifest.shards, key=lambda record: record.cost.started).run_id
        size = sum(file.bytes for file in manifest.files())
        complete[artifact.name] = manifest, size
        names = held.get(artifact.name, [])
        row = (artifact.fingerprint, artifact.table, manifest.stage, run_id, manifest.completed, size, names)
        artifacts.append(row)
        for table in VERSIONED:
            if names or (table in SHARED and artifact.name not in owned):
                current[table].add(artifact.fingerprint)
    place = dict.fromkeys(("root", "layout", "version"), "VARCHAR") | {"left_out": "VARCHAR[]"}
    _write_table(connection, "place", place, [(str(root), LAYOUT, version, left_out)])
    _write_table(connection, "artifacts", _types(schemas.ARTIFACTS), artifacts)
    _write_table(connection, "indexes", _types(schemas.INDEXES), [*index_rows(known, complete, recorded)])
    _write_table(connection, "generations", _types(schemas.GENERATIONS), [*generation_rows(known, complete)])
    _write_table(connection, "gates", _types(schemas.GATES), [*gate_rows(known)])
    _write_table(connection, "decisions", _types(schemas.DECISIONS), [*decision_rows(known)])
    _write_runs(connection, recorded)
    return paths, current


def fault_of(artifact: Artifact, manifest: Manifest) -> str | None:
    """Say in words why SQL cannot read an artifact; None if it can."""
    if not manifest.shards:
        return "it has no shards"
    # An object is there whole before its manifest is: to look at each of them would be a request each.
    looked_at = [] if files.is_in_bucket(artifact.store) else [*manifest.files()]
    return first_fault(artifact.store, looked_at, read="never")


def _write_comments(connection: duckdb.DuckDBPyConnection) -> None:
    """Describe every table, column and macro, for any program that opens the catalog."""
    stored = {name for (name,) in connection.sql("SELECT table_name FROM duckdb_tables()").fetchall()}
    for table, row in ROWS.items():
        kind = "TABLE" if table in stored else "VIEW"
        connection.execute(f"COMMENT ON {kind} {table} IS {quoted(f'a row is {row}')}")
        for name, column in columns(table).items():
            connection.execute(f"COMMENT ON COLUMN {table}.{_name(name)} IS {quoted(column.comment)}")
    for macro in MACROS:
        connection.execute(f"COMMENT ON MACRO TABLE {macro.name} IS {quoted(macro.about)}")


def _write_further(connection: duckdb.DuckDBPyConnection, table: str, paths: list[str]) -> None:
    """Write the view of a table that a user's stage declares: its files describe its columns."""
    try:
        schema = files.read_schema(Path(paths[-1]))
        connection.sql(_select(table, paths))  # a statement that fails would end the transaction
    except (duckdb.Error, files.Damaged) as error:  # its columns changed, say: the others can be queried all the same
        logger.warning("the table %s is left out of the catalog: %s", table, error)
        return
    row = (schema.metadata or {}).get(b"row", b"not described").decode(errors="replace")
    connection.execute(f"CREATE VIEW {_name(table)} AS {_select(table, paths)}")
    connection.execute(f"COMMENT ON VIEW {_name(table)} IS {quoted(f'a row is {row}')}")
    for name, column in described(schema).items():
        place = f"{_name(table)}.{_name(name)}"
        connection.execute(f"COMMENT ON COLUMN {place} IS {quoted(column.comment)}")


def _write_runs(connection: duckdb.DuckDBPyConnection, recorded: list[Run]) -> None:
    rows = [
        (r.run_id, r.flow, r.name, r.state, r.started, r.ended, json.dumps(r.config), r.fingerprints, r.error)
        for r in recorded
    ]
    _write_table(connection, "runs", _types(schemas.RUNS) | {_name("config"): "JSON"}, rows)
    methods = [
        (run.run_id, run.name, method, *artifact.split("/"), searched.get(method))
        for run in recorded
        for searched in [{method.get("name"): method.get("index") for method in run.config.get("methods", [])}]
        for method, artifacts in run.methods.items()
        for artifact in artifacts.values()
    ]
    _write_table(connection, "methods", _types(schemas.METHODS), methods)


def _write_table(
    connection: duckdb.DuckDBPyConnection, name: str, types: dict[str, str], rows: list[tuple[Any, ...]]
) -> None:
    connection.execute(f"CREATE TABLE {name} ({', '.join(map(' '.join, types.items()))})")
    if rows:
        connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(types))})", rows)


def _ledgers(store: Path, table: str) -> list[Path]:
    """The costs (quotes) of all artifacts, those that were removed since among them: what was spent stays spent; the
    requests of all servers; the reviews of all runs."""

    def is_readable(path: Path) -> bool:
        try:
            files.read_schema(path)
        except FileNotFoundError:
            return False
        except (files.Damaged, OSError) as error:
            logger.warning("%s is left out of the tables: %s", path, error)
            return False
        return True

    found = files.find(store, f"{table}/*/*.parquet")
    return [path for path, fine in zip(found, files.at_once(store, is_readable, found), strict=True) if fine]


_HELD_NOW = 'SELECT fingerprint, run_id, unnest(indexes) AS "index" FROM artifacts'
_HELD_OR_FREE = _HELD_NOW.replace("(indexes)", "(CASE WHEN indexes = [] THEN [NULL] ELSE indexes END)")
_HOLDING = dict.fromkeys(CORPUS, _HELD_NOW) | dict.fromkeys(SHARED, _HELD_OR_FREE)
"""By versioned table: its artifacts, once for every index that holds them."""


def _select(table: str, paths: list[str], holding: str = "") -> str:
    """Rows with their artifact's fingerprint and the run that completed it (`costs` names the paying run,
    `quotes` no run). `holding`: where the index that holds them comes from."""
    known = schemas.TABLES.get(table, pa.schema([]))
    added = [*_added(table), *(['"index"'] if holding else [])]
    if not paths:
        columns = [f"NULL::{kind} AS {name}" for name, kind in _types(known).items()]
        return f"SELECT {', '.join([*columns, *(f'NULL::VARCHAR AS {name}' for name in added)])} WHERE false"
    own = ", split_part(filename, '/', -2) AS fingerprint" if "fingerprint" in added else ""
    # To join columns by name, every file is opened: those of a user's stage may have changed.
    listed = f"[{', '.join(map(quoted, sorted(paths)))}], filename = true, union_by_name = {not len(known)}"
    rows = f"SELECT * EXCLUDE (filename){own} FROM read_parquet({listed})"
    if holding:
        rows = f"({rows}) AS rows JOIN ({holding}) AS held USING (fingerprint)"
        return f'SELECT rows.*, held.run_id, held."index" FROM {rows}'
    if "run_id" in added:
        return f"SELECT rows.*, artifacts.run_id FROM ({rows}) AS rows JOIN artifacts USING (fingerprint)"
    return rows


def _types(fields: Iterable[pa.Field]) -> dict[str, str]:
    return {_name(field.name): _sql_type(field.type) for field in fields}


def _sql_type(kind: pa.DataType) -> str:
    """The type that DuckDB reads a Parquet column of this Arrow type as."""
    if pa.types.is_struct(kind):
        return f"STRUCT({', '.join(map(' '.join, _types(kind).items()))})"
    if pa.types.is_map(kind):
        return f"MAP({_sql_type(kind.key_type)}, {_sql_type(kind.item_type)})"
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"{_sql_type(kind.value_type)}[]"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMPTZ"
    names = {"int64": "BIGINT", "int32": "INTEGER", "float": "FLOAT", "double": "DOUBLE", "bool": "BOOLEAN"}
    return names.get(str(kind), "VARCHAR")


def _name(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
