"""What the tables and views of the catalog are, in words: for `vitalfew tables`, and as comments in the catalog."""

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from vitalfew.storage import schemas

ROWS = {
    **schemas.ROWS,
    "artifacts": "a complete artifact",
    "ledger": "the quoted and actual cost of an artifact",
    "ratings": "a generator's rating of how useful a context is for the question",
    "compression": "the compression of the hits by a method's refiner, over the questions of a run",
}

_EVERY = {
    "fingerprint": "the artifact that holds the row",
    "run_id": "the run that completed that artifact",
}

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
class Column:
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


def documented(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, Column]:
    """The columns of a table or view of a catalog; one that only its store knows has units in its comments."""
    if table in ROWS:
        return columns(table)
    listed = connection.sql(
        f"SELECT column_name, coalesce(comment, '') FROM duckdb_columns() WHERE table_name = '{table}'"
    ).fetchall()
    return {name: Column(comment) for name, comment in listed}


def columns(table: str) -> dict[str, Column]:
    """The columns of a table or view of the catalog, by name. Raises KeyError where there is no such table."""
    if table in _VIEWS:
        return {name: Column(*column) for name, column in _VIEWS[table].items()}
    if table == "ledger":
        return _ledger()
    return described(schemas.TABLES[table], table)


def described(schema: pa.Schema, table: str = "") -> dict[str, Column]:
    """The columns of a table as its schema describes them, and those that the catalog adds."""
    own = {field.name: _column(field) for field in schema}
    added = (name for name in _EVERY if name not in own and name not in _WITHOUT.get(table, ()))
    return own | {name: Column(_EVERY[name]) for name in added}


def _ledger() -> dict[str, Column]:
    quoted = columns("quotes")
    measures = {name: quoted[name] for name in quoted if quoted[name].unit} | {"workers": quoted["workers"]}
    expected = {f"quoted_{name}": Column(f"quoted: {column.about}", column.unit) for name, column in measures.items()}
    true = {
        name: Column(f"actual: {column.about}", column.unit) for name, column in measures.items() if name != "workers"
    }
    return {"stage": quoted["stage"], **expected, **true, "fingerprint": Column("the artifact")}


def _column(field: pa.Field) -> Column:
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    return Column(metadata.get("about", ""), metadata.get("unit", ""))
