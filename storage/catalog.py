"""The catalog: one DuckDB view per table over every complete artifact of a store, for SQL without a server."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from storage import runs, schemas
from storage.artifacts import complete_artifacts
from storage.parquet import NotWritten, write_atomically

logger = logging.getLogger("vitalfew")

CATALOG = "catalog.duckdb"
OWN_RUNS = ("costs", "quotes")
"""Tables that are no part of an artifact but speak of one: they outlive it."""

GROWN = ("candidates",)
"""Tables that have got columns which files of an older version lack. To join columns by name, every file is opened."""

# Quote and truth side by side, a row per artifact that was quoted. A stage's elapsed time is that from the beginning
# of its first shard to the end of its last one, in each of the runs that worked on it.
LEDGER = """
CREATE VIEW ledger AS
WITH spans AS (
    SELECT fingerprint, run_id, sum(rows) AS rows, sum(tokens) AS tokens, sum(cpu_seconds) AS cpu_seconds,
        sum(usd) AS usd, max(peak_memory_bytes) AS peak_memory_bytes,
        date_diff('us', min(started), max(started + to_microseconds((wall_seconds * 1e6)::BIGINT))) / 1e6
            AS wall_seconds
    FROM costs GROUP BY ALL
), truth AS (
    SELECT fingerprint, sum(rows) AS rows, sum(tokens) AS tokens, sum(cpu_seconds) AS cpu_seconds, sum(usd) AS usd,
        max(peak_memory_bytes) AS peak_memory_bytes, sum(wall_seconds) AS wall_seconds
    FROM spans GROUP BY ALL
)
SELECT quotes.stage, quotes.rows AS quoted_rows, truth.rows, quotes.tokens AS quoted_tokens, truth.tokens,
    quotes.wall_seconds AS quoted_wall_seconds, truth.wall_seconds,
    quotes.cpu_seconds AS quoted_cpu_seconds, truth.cpu_seconds,
    quotes.peak_memory_bytes AS quoted_peak_memory_bytes, truth.peak_memory_bytes,
    quotes.disk_bytes AS quoted_disk_bytes, artifacts.bytes AS disk_bytes,
    quotes.usd AS quoted_usd, truth.usd, quotes.workers AS quoted_workers, fingerprint
FROM quotes JOIN truth USING (fingerprint) LEFT JOIN artifacts USING (fingerprint)
"""


_READING = ([duckdb.StatementType.SELECT], [duckdb.StatementType.MULTI])  # the latter is PIVOT


class QueryError(ValueError):
    """SQL that DuckDB refused: the message is DuckDB's own, and where it helps names the tables there are."""


def refresh(store: Path) -> None:
    """Write the catalog anew; where that fails, say so and leave it to the next query."""
    try:
        build(store)
    except (OSError, duckdb.Error) as error:
        logger.warning("the catalog is out of date: %s", error)


def build(store: Path) -> Path:
    """Write the catalog anew. Readers of the old file go on; the next to open sees the new one.

    Views name files by absolute path (DuckDB checks those against the directories it may read), and the catalog knows
    where it was written, so that a store that was moved gets another one. Raises NotWritten.
    """
    path = store / CATALOG
    if "?" in str(path):
        raise NotWritten(f"{path}: DuckDB takes the question mark for its own; rename the directory")
    write_atomically(path, lambda temporary: _write(temporary, store))
    return path


def _write(path: Path, store: Path) -> None:
    root = store.resolve()
    files: dict[str, list[str]] = {table: [] for table in schemas.TABLES}
    for table in OWN_RUNS:
        files[table] = [str(root / path.relative_to(store)) for path in _ledgers(store, table)]
    artifacts = []
    for artifact, manifest in complete_artifacts(store):
        if fault := next(filter(None, (file.misfit(store) for file in manifest.files())), None):
            logger.warning("%s is left out of the tables: %s", artifact.name, fault)
            continue
        for file in manifest.files():
            if file.table in files:
                files[file.table].append(str(root / file.path))
        last = max(manifest.shards, key=lambda record: record.cost.started)
        size = sum(file.bytes for file in manifest.files())
        made = (last.run_id, manifest.completed)
        artifacts.append((artifact.fingerprint, artifact.table, manifest.stage, *made, size))
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE place AS SELECT ? AS root", [str(store.resolve())])
        connection.execute(
            "CREATE TABLE artifacts (fingerprint VARCHAR, table_name VARCHAR, stage VARCHAR, run_id VARCHAR, "
            "completed TIMESTAMPTZ, bytes BIGINT)"
        )
        if artifacts:
            connection.executemany("INSERT INTO artifacts VALUES (?, ?, ?, ?, ?, ?)", artifacts)
        _write_runs(connection, store)
        for table, paths in files.items():
            if table not in ("runs", "methods"):
                connection.execute(f"CREATE VIEW {table} AS {_select(table, paths)}")
        connection.execute(LEDGER)
        for table, schema in schemas.TABLES.items():
            for field in schema:
                about = (field.metadata or {}).get(b"about", b"").decode()
                connection.execute(f"COMMENT ON COLUMN {table}.{_name(field.name)} IS {_quoted(about)}")


def _write_runs(connection: duckdb.DuckDBPyConnection, store: Path) -> None:
    """The tables that come from the records of runs."""
    recorded = runs.read_runs(store)
    connection.execute(
        "CREATE TABLE runs (run_id VARCHAR, flow VARCHAR, name VARCHAR, state VARCHAR, started TIMESTAMPTZ, "
        "ended TIMESTAMPTZ, config JSON, fingerprints VARCHAR[], error VARCHAR)"
    )
    rows = [
        (r.run_id, r.flow, r.name, r.state, r.started, r.ended, json.dumps(r.config), r.fingerprints, r.error)
        for r in recorded
    ]
    if rows:
        connection.executemany("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    connection.execute(
        "CREATE TABLE methods (run_id VARCHAR, experiment VARCHAR, method VARCHAR, table_name VARCHAR, "
        "fingerprint VARCHAR)"
    )
    methods = [
        (run.run_id, run.name, method, *artifact.split("/"))
        for run in recorded
        for method, artifacts in run.methods.items()
        for artifact in artifacts.values()
    ]
    if methods:
        connection.executemany("INSERT INTO methods VALUES (?, ?, ?, ?, ?)", methods)


def _ledgers(store: Path, table: str) -> Iterator[Path]:
    """The costs (quotes) of all artifacts, those that were removed since among them: what was spent stays spent."""
    for path in sorted(store.glob(f"{table}/*/*.parquet")):
        try:
            pq.read_metadata(path)
        except (pa.ArrowInvalid, OSError) as error:
            logger.warning("%s is left out of the tables: %s", path, error)
        else:
            yield path


def _select(table: str, paths: list[str]) -> str:
    """Rows with their artifact's fingerprint and the run that completed it (`costs` names the paying run itself,
    a quote has none)."""
    if not paths:
        columns = [f"NULL::{_sql_type(field.type)} AS {_name(field.name)}" for field in schemas.TABLES[table]]
        extra = [] if table in OWN_RUNS else ["NULL::VARCHAR AS run_id"]
        return f"SELECT {', '.join([*columns, 'NULL::VARCHAR AS fingerprint', *extra])} WHERE false"
    listed = ", ".join(map(_quoted, sorted(paths)))
    fingerprint = "split_part(filename, '/', -2) AS fingerprint"
    files = f"read_parquet([{listed}], filename = true, union_by_name = {table in GROWN})"
    rows = f"SELECT * EXCLUDE (filename), {fingerprint} FROM {files}"
    if table in OWN_RUNS:
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
    """Whether the catalog is missing, lacks an artifact or a run, lists what is gone, or is of another place."""
    path = store / CATALOG
    if not path.exists():
        return True
    written = path.stat().st_mtime_ns
    sources = [*store.glob("*/*/manifest.json"), *store.glob("runs/*.json"), *store.glob("quotes/*/*.parquet")]
    if any(source.stat().st_mtime_ns >= written for source in sources):
        return True
    try:
        with _open(path, store) as connection:
            if connection.sql("SELECT root FROM place").fetchall() != [(str(store.resolve()),)]:
                return True
            listed = connection.sql("SELECT table_name || '/' || fingerprint FROM artifacts").fetchall()
            return not all((store / name / "manifest.json").exists() for (name,) in listed)  # some were removed
    except duckdb.Error:  # written by another version, or damaged: it holds nothing that cannot be made again
        return True


def connect(store: Path) -> duckdb.DuckDBPyConnection:
    """A read-only connection that reads nothing outside the store. Raises FileNotFoundError where there is no store."""
    if not store.is_dir():
        raise FileNotFoundError(
            f"no store at {store}; `vitalfew index DATASET --name NAME` makes one, or give --store DIR"
        )
    if not is_stale(store):
        return _open(store / CATALOG, store)
    try:
        return _open(build(store), store)
    except NotWritten:  # a store on read-only media, say, can be queried all the same
        with TemporaryDirectory(prefix="vitalfew-") as folder:
            _write(Path(folder) / CATALOG, store)
            return _open(Path(folder) / CATALOG, store)


def _open(path: Path, store: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(str(path), read_only=True)
    # Connections of one process to one file share an instance, and with it a configuration that is locked already.
    if connection.sql("SELECT current_setting('lock_configuration')").fetchall() != [(True,)]:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"SET allowed_directories = [{_quoted(str(store.resolve()))}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    return connection


def query(store: Path, sql: str) -> duckdb.DuckDBPyRelation:
    """Run one statement that only reads. Raises QueryError."""
    connection = connect(store)
    try:
        _check_only_reads(connection, sql)
        return connection.sql(sql)
    except duckdb.Error as error:
        raise QueryError(str(error)) from None


def _check_only_reads(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raises QueryError, or DuckDB's own.

    That the database is read-only and confined does not keep COPY … TO and EXPORT from overwriting files of the store.
    COPY can also stand in a WITH clause; DuckDB's function `query` refuses that, and all that is not one SELECT.
    """
    statements = duckdb.extract_statements(sql)
    if [statement.type for statement in statements] not in _READING:
        raise QueryError("one statement that only reads: SELECT, FROM, DESCRIBE, SHOW, SUMMARIZE or PIVOT … IN (…)")
    try:
        connection.sql(f"EXPLAIN FROM query({_quoted(sql)})")
    except duckdb.Error as error:
        raise QueryError(str(error).partition("\n\nLINE ")[0]) from None  # which would show the line above


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
