"""The catalog's tables, views, macros and their comments, from a store's manifests and records of runs.

The comments say in words what a table, a view and a column are: `vitalfew tables` shows them as well.
"""

import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from vitalfew.storage import files, runs, schemas
from vitalfew.storage.artifacts import Artifact, Manifest, complete_artifacts, fingerprint
from vitalfew.storage.catalog.macros import MACROS
from vitalfew.storage.manifests import PREPARED

ROWS = {
    **schemas.ROWS,
    "artifacts": "a complete artifact",
    "ledger": "the quoted and actual cost of an artifact",
    "ratings": "a generator's rating of how useful a context is for the question",
    "compression": "the compression of the hits by a method's refiner, over the questions of a run",
}

_EVERY = {"fingerprint": "the artifact that holds the row", "run_id": "the run that completed that artifact"}

_WITHOUT = {"runs": ("fingerprint", "run_id"), "methods": ("fingerprint", "run_id"), "quotes": ("run_id",)}
"""Which of these a table has not, or has as its own."""

_ARTIFACTS = {
    "fingerprint": ("the artifact", ""),
    "table_name": ("its first table", ""),
    "stage": ("stage that wrote it", ""),
    "run_id": ("run that completed it", ""),
    "completed": ("time of completion", ""),
    "bytes": ("size of all its files", "bytes"),
}

_RATINGS = {
    "question_id": ("the question", ""),
    "candidate": ("number of the answer in `candidates`", ""),
    "rank": ("rank of the context in `evidence`", ""),
    "score": ("rating by the generator, 0 to 1", ""),
    "kept": ("true if the answer was written from it", ""),
    "tokens": ("length, as the model counts it", "tokens"),
    "rating_id": ("content id of model, controls, question and context; the same context is rated once", ""),
    "reused": ("true if an earlier run had answered this prompt", ""),
    "error": ("reason if there is no answer, else empty", ""),
    **{name: (about, "") for name, about in _EVERY.items()},
}

_COMPRESSION = {
    "experiment": ("experiment of the run", ""),
    "method": ("the method", ""),
    "questions": ("number of questions whose hits were refined", ""),
    "input_tokens": ("mean length of a question's hits", "words"),
    "output_tokens": ("mean length of a question's contexts", "words"),
    "share": ("length of all contexts divided by the length of all hits, 0 to 1", ""),
    "seconds": ("mean time of the refiner for a question", "seconds"),
    "cut": ("number of questions for which the model that wrote the contexts read only part of the hits", ""),
    "unfinished": ("number of questions for which that model stopped at its length limit", ""),
    "fingerprint": (_EVERY["fingerprint"], ""),
    "run_id": ("run of the method", ""),
}

_VIEWS = {"artifacts": _ARTIFACTS, "ratings": _RATINGS, "compression": _COMPRESSION}


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """What a column means. `unit`: empty where it has none."""

    about: str
    unit: str = ""

    @property
    def comment(self) -> str:
        return f"{self.about} ({self.unit})" if self.unit else self.about


def rows(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """What a row is, of every table and view of a catalog: those among them that only its store knows."""
    views = connection.sql("SELECT view_name, comment FROM duckdb_views() WHERE NOT internal ORDER BY 1").fetchall()
    return ROWS | {name: (comment or "").removeprefix("a row is ") for name, comment in views if name not in ROWS}


def documented(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, ColumnInfo]:
    """The columns of a table or view of a catalog; one that only its store knows has units in its comments."""
    if table in ROWS:
        return columns(table)
    listed = connection.sql(
        f"SELECT column_name, coalesce(comment, '') FROM duckdb_columns() WHERE table_name = '{table}'"
    ).fetchall()
    return {name: ColumnInfo(comment) for name, comment in listed}


def columns(table: str) -> dict[str, ColumnInfo]:
    """The columns of a table or view of the catalog, by name. Raises KeyError where there is no such table."""
    if table in _VIEWS:
        return {name: ColumnInfo(*column) for name, column in _VIEWS[table].items()}
    if table == "ledger":
        return _ledger()
    return described(schemas.TABLES[table], table)


def described(schema: pa.Schema, table: str = "") -> dict[str, ColumnInfo]:
    """The columns of a table as its schema describes them, and those that the catalog adds."""
    own = {field.name: _column(field) for field in schema}
    added = (name for name in _EVERY if name not in own and name not in _WITHOUT.get(table, ()))
    return own | {name: ColumnInfo(_EVERY[name]) for name in added}


def _ledger() -> dict[str, ColumnInfo]:
    quoted = columns("quotes")
    measures = {name: quoted[name] for name in quoted if quoted[name].unit} | {"workers": quoted["workers"]}
    expected = {
        f"quoted_{name}": ColumnInfo(f"quoted: {column.about}", column.unit) for name, column in measures.items()
    }
    true = {
        name: ColumnInfo(f"actual: {column.about}", column.unit)
        for name, column in measures.items()
        if name != "workers"
    }
    return {"stage": quoted["stage"], **expected, **true, "fingerprint": ColumnInfo("the artifact")}


def _column(field: pa.Field) -> ColumnInfo:
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    return ColumnInfo(metadata.get("about", ""), metadata.get("unit", ""))


logger = logging.getLogger("vitalfew")

OWN_RUNS = ("costs", "quotes")
"""Tables that are no part of an artifact but speak of one: they outlive it."""

GROWN = ("candidates", "costs", "refinements", "summaries")
"""Tables that have got columns which files of an older version lack. To join columns by name, every file is opened."""

# Quote and truth side by side, a row per artifact that was quoted. A stage's elapsed time is that from the beginning
# of its first shard to the end of its last one, in every run that worked on it.
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
"""Of which make a catalog is: one of another version is written anew."""


def fill(connection: duckdb.DuckDBPyConnection, store: Path) -> None:
    """Tables, views, macros and their comments; a store that is not there gives them without rows.

    All in one transaction: several hundred comments are not flushed to the disk one by one.
    """
    connection.begin()
    _fill(connection, store)
    connection.commit()


def _fill(connection: duckdb.DuckDBPyConnection, store: Path) -> None:
    root, version = files.absolute(store), files.version(store)
    paths: dict[str, list[str]] = {table: [] for table in schemas.TABLES}
    for table in OWN_RUNS:
        paths[table] = [str(root / path.relative_to(store)) for path in _ledgers(store, table)]
    artifacts, left_out = [], []
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
        last = max(manifest.shards, key=lambda record: record.cost.started)
        size = sum(file.bytes for file in manifest.files())
        completed = (last.run_id, manifest.completed)
        artifacts.append((artifact.fingerprint, artifact.table, manifest.stage, *completed, size))
    here = [str(root), LAYOUT, version, left_out]
    connection.execute(
        "CREATE TABLE place AS SELECT ? AS root, ? AS layout, ? AS version, ?::VARCHAR[] AS left_out", here
    )
    connection.execute(
        "CREATE TABLE artifacts (fingerprint VARCHAR, table_name VARCHAR, stage VARCHAR, run_id VARCHAR, "
        "completed TIMESTAMPTZ, bytes BIGINT)"
    )
    if artifacts:
        connection.executemany("INSERT INTO artifacts VALUES (?, ?, ?, ?, ?, ?)", artifacts)
    _write_runs(connection, store)
    for table in schemas.TABLES:
        if table not in ("runs", "methods"):
            # Of a bucket, many small files would be asked for by every query.
            kind = "TABLE" if table in OWN_RUNS and files.is_in_bucket(store) else "VIEW"
            connection.execute(f"CREATE {kind} {table} AS {_select(table, paths[table])}")
    for table in sorted(paths.keys() - schemas.TABLES.keys()):
        _write_further(connection, table, paths[table])
    for view in VIEWS:
        connection.execute(view)
    for macro in MACROS:
        connection.execute(f"CREATE MACRO {macro.signature} AS TABLE {macro.sql}")
    _write_comments(connection)


def fault_of(artifact: Artifact, manifest: Manifest) -> str | None:
    """Why SQL cannot read an artifact, in words."""
    if not manifest.shards:
        return "it has no shards"
    # An object is there whole before its manifest is: to look at each of them would be a request each.
    looked_at = [] if files.is_in_bucket(artifact.store) else manifest.files()
    return next(filter(None, (file.misfit(artifact.store) for file in looked_at)), None)


def _write_comments(connection: duckdb.DuckDBPyConnection) -> None:
    """What every table, column and macro is, for whatever opens the catalog."""
    stored = {name for (name,) in connection.sql("SELECT table_name FROM duckdb_tables()").fetchall()}
    for table, row in ROWS.items():
        kind = "TABLE" if table in stored else "VIEW"
        connection.execute(f"COMMENT ON {kind} {table} IS {quoted(f'a row is {row}')}")
        for name, column in columns(table).items():
            connection.execute(f"COMMENT ON COLUMN {table}.{_name(name)} IS {quoted(column.comment)}")
    for macro in MACROS:
        connection.execute(f"COMMENT ON MACRO TABLE {macro.name} IS {quoted(macro.about)}")


def _write_further(connection: duckdb.DuckDBPyConnection, table: str, paths: list[str]) -> None:
    """The view of a table that no list here has: a stage of the user's own wrote it. Its files say what is in it."""
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
    found = files.find(store, f"{table}/*/*.parquet")
    for path, fault in zip(found, files.at_once(store, _fault, found), strict=True):
        if fault is None:
            yield path
        elif not isinstance(fault, FileNotFoundError):
            logger.warning("%s is left out of the tables: %s", path, fault)


def _fault(path: Path) -> Exception | None:
    """Why a table cannot be read."""
    try:
        files.read_schema(path)
    except (files.Damaged, OSError) as error:
        return error
    return None


def _select(table: str, paths: list[str]) -> str:
    """Rows with their artifact's fingerprint and the run that completed it (`costs` names the paying run itself,
    a quote has none)."""
    known = schemas.TABLES.get(table, ())
    columns = [f"NULL::{_sql_type(field.type)} AS {_name(field.name)}" for field in known]
    none = f"SELECT {', '.join([*columns, 'NULL::VARCHAR AS fingerprint'])}"
    if not paths:
        return f"{none}{'' if table in OWN_RUNS else ', NULL::VARCHAR AS run_id'} WHERE false"
    listed = ", ".join(map(quoted, sorted(paths)))
    directory = "split_part(filename, '/', -2) AS fingerprint"
    files = f"read_parquet([{listed}], filename = true, union_by_name = {table in GROWN or not known})"
    rows = f"SELECT * EXCLUDE (filename), {directory} FROM {files}"
    if table in GROWN:  # all files may lack a column
        rows = f"({none} WHERE false UNION ALL BY NAME {rows})"
    if table in OWN_RUNS:
        return rows
    return f"SELECT rows.*, artifacts.run_id FROM ({rows}) AS rows JOIN artifacts USING (fingerprint)"


def _sql_type(kind: pa.DataType) -> str:
    """The type that DuckDB reads a Parquet column of this Arrow type as."""
    if pa.types.is_struct(kind):
        return f"STRUCT({', '.join(f'{_name(field.name)} {_sql_type(field.type)}' for field in kind)})"
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
