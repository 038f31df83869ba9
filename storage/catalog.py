"""The catalog: one DuckDB view per table over every complete artifact of a store, for SQL without a server."""

import json
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from storage import runs, schemas
from storage.artifacts import complete_artifacts
from storage.parquet import write_atomically

CATALOG = "catalog.duckdb"


class QueryError(ValueError):
    """SQL that DuckDB refused: the message is DuckDB's own, and where it helps names the tables there are."""


def build(store: Path) -> Path:
    """Write the catalog anew. Readers of the old file go on; the next to open sees the new one.

    Views name files by absolute path (DuckDB checks those against the directories it may read), and the catalog knows
    where it was written, so that a store that was moved gets another one.
    """
    root = store.resolve()
    files: dict[str, list[str]] = {table: [] for table in schemas.TABLES}
    artifacts = []
    for artifact, manifest in complete_artifacts(store):
        for file in manifest.files():
            if file.table in files:
                files[file.table].append(str(root / file.path))
        files["costs"].append(str(root / "costs" / artifact.fingerprint / "00000.parquet"))
        last = max(manifest.shards, key=lambda record: record.cost.started)
        artifacts.append((artifact.fingerprint, artifact.table, manifest.stage, last.run_id, manifest.completed))
    path = store / CATALOG
    write_atomically(path, lambda temporary: _write(temporary, store, files, artifacts))
    return path


def _write(path: Path, store: Path, files: dict[str, list[str]], artifacts: Sequence[tuple[str, ...]]) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE place AS SELECT ? AS root", [str(store.resolve())])
        connection.execute(
            "CREATE TABLE artifacts (fingerprint VARCHAR, table_name VARCHAR, stage VARCHAR, run_id VARCHAR, "
            "completed TIMESTAMPTZ)"
        )
        if artifacts:
            connection.executemany("INSERT INTO artifacts VALUES (?, ?, ?, ?, ?)", artifacts)
        connection.execute(
            "CREATE TABLE runs (run_id VARCHAR, flow VARCHAR, name VARCHAR, state VARCHAR, started TIMESTAMPTZ, "
            "ended TIMESTAMPTZ, config JSON, fingerprints VARCHAR[], error VARCHAR)"
        )
        rows = [
            (r.run_id, r.flow, r.name, r.state, r.started, r.ended, json.dumps(r.config), r.fingerprints, r.error)
            for r in runs.read_runs(store)
        ]
        if rows:
            connection.executemany("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        for table, paths in files.items():
            if table != "runs":
                connection.execute(f"CREATE VIEW {table} AS {_select(table, paths)}")
        for table, schema in schemas.TABLES.items():
            for field in schema:
                about = (field.metadata or {}).get(b"about", b"").decode()
                connection.execute(f"COMMENT ON COLUMN {table}.{_name(field.name)} IS {_quoted(about)}")


def _select(table: str, paths: list[str]) -> str:
    """Rows with their artifact's fingerprint and the run that completed it (`costs` names the paying run itself)."""
    if not paths:
        columns = [f"NULL::{_sql_type(field.type)} AS {_name(field.name)}" for field in schemas.TABLES[table]]
        extra = [] if table == "costs" else ["NULL::VARCHAR AS run_id"]
        return f"SELECT {', '.join([*columns, 'NULL::VARCHAR AS fingerprint', *extra])} WHERE false"
    listed = ", ".join(map(_quoted, sorted(paths)))
    fingerprint = "split_part(filename, '/', -2) AS fingerprint"
    rows = f"SELECT * EXCLUDE (filename), {fingerprint} FROM read_parquet([{listed}], filename = true)"
    if table == "costs":
        return rows
    return f"SELECT rows.*, artifacts.run_id FROM ({rows}) AS rows JOIN artifacts USING (fingerprint)"


def _sql_type(kind: pa.DataType) -> str:
    """The type that DuckDB reads a Parquet column of this Arrow type as."""
    if pa.types.is_struct(kind):
        return f"STRUCT({', '.join(f'{_name(field.name)} {_sql_type(field.type)}' for field in kind)})"
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"{_sql_type(kind.value_type)}[]"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMPTZ"
    names = {"int64": "BIGINT", "int32": "INTEGER", "float": "FLOAT", "double": "DOUBLE", "bool": "BOOLEAN"}
    return names.get(str(kind), "VARCHAR")


def _name(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def is_stale(store: Path) -> bool:
    """Whether the catalog is missing, older than an artifact or a run, or of a store that has been moved since."""
    path = store / CATALOG
    if not path.exists():
        return True
    written = path.stat().st_mtime_ns
    sources = [*store.glob("*/*/manifest.json"), *store.glob("runs/*.json")]
    if any(source.stat().st_mtime_ns >= written for source in sources):
        return True
    try:
        with _open(store) as connection:
            return connection.sql("SELECT root FROM place").fetchall() != [(str(store.resolve()),)]
    except duckdb.Error:  # written by another version, or damaged: it holds nothing that cannot be made again
        return True


def connect(store: Path) -> duckdb.DuckDBPyConnection:
    """A read-only connection that reads nothing outside the store. Raises FileNotFoundError where there is no store."""
    if not store.is_dir():
        raise FileNotFoundError(
            f"no store at {store}; `vitalfew index DATASET --name NAME` makes one, or give --store DIR"
        )
    if is_stale(store):
        build(store)
    return _open(store)


def _open(store: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(str(store / CATALOG), read_only=True)
    # Connections of one process to one file share an instance, and with it a configuration that is locked already.
    if connection.sql("SELECT current_setting('lock_configuration')").fetchall() != [(True,)]:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"SET allowed_directories = [{_quoted(str(store.resolve()))}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    return connection


def query(store: Path, sql: str) -> duckdb.DuckDBPyRelation:
    """Run one statement. Raises QueryError."""
    connection = connect(store)
    try:
        relation = connection.sql(sql)
    except duckdb.Error as error:
        raise QueryError(str(error)) from None
    if relation is None:
        raise QueryError("the statement gives no rows; the catalog is read-only: write a SELECT")
    return relation


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
