"""The report's figures as two tables: a row per method and metric, and a row per method."""

import io
import json
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv

from vitalfew.configs.evaluation import Chosen
from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.shown.columns import CONTEXT_TOKENS
from vitalfew.tasks.reports.shown.text import no_formula
from vitalfew.tasks.reports.statistics.paired import Difference

LONG = pa.schema(
    [
        *(pa.field(name, pa.string(), False) for name in ("experiment", "run_id", "method", "metric")),
        pa.field("value", pa.float64()),
        *(pa.field(name, pa.int32(), False) for name in ("questions", "left_out")),
        *(pa.field(name, pa.float64()) for name in ("low", "high", "spread")),
        *(pa.field(name, pa.float64()) for name in ("difference", "difference_low", "difference_high")),
        *(pa.field(name, pa.float64()) for name in ("p", "p_holm", "effect")),
        *(pa.field(name, pa.int32()) for name in ("paired", "better", "worse")),
    ]
)
"""`low`, `high`: of the value; `difference…`, `p…`, `effect` (Cohen's d_z), `better`, `worse` of the `paired`
questions: against the baseline."""


def long_table(report: Report) -> pl.DataFrame:
    """A row per method and metric, in the report's order (columns: `LONG`)."""
    rows = [
        {
            "experiment": report.experiment,
            "run_id": report.run_id,
            "method": method.name,
            "metric": metric,
            **{name: getattr(summary, name) for name in ("value", "questions", "left_out", "low", "high", "spread")},
            **(_difference(method.differences[metric]) if metric in method.differences else {}),
        }
        for method in report.methods
        for metric, summary in report.measures(method).items()
    ]
    return pl.DataFrame(rows, pl.DataFrame(LONG.empty_table()).schema)


def pair_table(report: Report) -> pl.DataFrame:
    """A row for every pair of methods that were compared, in the primary metric, with the tokens of their contexts,
    mean per question."""
    tokens = report.values(CONTEXT_TOKENS)
    return pl.DataFrame(
        [
            {
                "method": report.methods[pair.one].name,
                "other": report.methods[pair.other].name,
                "metric": report.primary,
                CONTEXT_TOKENS: tokens[pair.one],
                f"other_{CONTEXT_TOKENS}": tokens[pair.other],
                **_difference(pair.difference),
            }
            for pair in report.pairs
        ],
        infer_schema_length=None,
    )


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "difference": difference.mean_difference,
        "difference_low": difference.low,
        "difference_high": difference.high,
        "p": difference.p,
        "p_holm": difference.p_holm,
        "effect": difference.effect,
        "paired": difference.questions,
        "better": difference.better,
        "worse": difference.worse,
    }


def wide_table(report: Report) -> pl.DataFrame:
    """A row per method: experiment, run_id, method, its settings (`settings.KEY`), error_rows and every metric. Where
    settings were chosen: `chosen.settings`, `chosen.by`, `chosen.questions`; `chosen.tried`: every figure (JSON).

    A setting is a column of numbers where it is a number (or not set) for every method, else of text.
    """
    methods = report.methods
    columns = [
        pl.Series("experiment", [report.experiment] * len(methods), pl.String),
        pl.Series("run_id", [report.run_id] * len(methods), pl.String),
        pl.Series("method", [method.name for method in methods], pl.String),
    ]
    columns += [
        _setting(f"settings.{key}", [method.settings.get(key) for method in methods]) for key in report.settings()
    ]
    if report.chosen:
        columns += _chosen(report.chosen, [method.name for method in methods])
    columns.append(pl.Series("error_rows", [method.error_rows for method in methods], pl.Int64))
    taken = {column.name for column in columns}
    for metric in report.metrics():
        name = f"metric.{metric}" if metric in taken else metric
        columns.append(pl.Series(name, report.values(metric), pl.Float64))
    return pl.DataFrame(columns)


def _chosen(chosen: Chosen, methods: list[str]) -> list[pl.Series]:
    """The columns on the choice; empty for a method without one."""
    tried = [[option for option in chosen.tried if option.method == method] for method in methods]
    taken = [next((option.values for option in options if option.taken), None) for options in tried]
    listed = [[option.model_dump(include={"values", "figure", "questions"}) for option in options] for options in tried]
    return [
        pl.Series("chosen.settings", [values and setting_text(values) for values in taken], pl.String),
        pl.Series("chosen.by", [values and chosen.by for values in taken], pl.String),
        pl.Series("chosen.questions", [chosen.questions if values else None for values in taken], pl.Int64),
        pl.Series("chosen.tried", [setting_text(options) if options else None for options in listed], pl.String),
    ]


def arrow_table(frame: pl.DataFrame) -> pa.Table:
    """The frame for a file, with the types of text that all tables have."""
    types = {pa.large_string(): pa.string(), pa.large_list(pa.large_string()): pa.list_(pa.string())}
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    return table.cast(pa.schema([field.with_type(types.get(field.type, field.type)) for field in table.schema]))


def csv_bytes(frame: pl.DataFrame) -> bytes:
    """The table as CSV (UTF-8, a header, empty where there is no value), for spreadsheets: no text is a formula."""
    target = io.BytesIO()
    safe = frame.with_columns(pl.col(pl.String).map_elements(no_formula, pl.String))
    pyarrow.csv.write_csv(arrow_table(safe.rename({name: no_formula(name) for name in safe.columns})), target)
    return target.getvalue()


def setting_text(value: Any) -> str:
    """A setting as a person would write it; '' where it is not set."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _setting(name: str, values: list[Any]) -> pl.Series:
    if all(value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) for value in values):
        return pl.Series(name, values, pl.Float64, strict=False)
    return pl.Series(name, [None if value is None else setting_text(value) for value in values], pl.String)
