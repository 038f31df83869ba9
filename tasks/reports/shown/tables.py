"""The report's figures as two tables: a row per method and metric, and a row per method."""

import io
import json
from typing import Any

import pyarrow as pa
from pyarrow import csv

from vitalfew.configs.evaluation import Chosen
from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.shown.text import no_formula
from vitalfew.tasks.reports.statistics.paired import Difference

LONG = pa.schema(
    [
        pa.field("experiment", pa.string(), False),
        pa.field("run_id", pa.string(), False),
        pa.field("method", pa.string(), False),
        pa.field("metric", pa.string(), False),
        pa.field("value", pa.float64()),
        pa.field("questions", pa.int32(), False),
        pa.field("left_out", pa.int32(), False),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
        pa.field("spread", pa.float64()),
        *(pa.field(f"difference{name}", pa.float64()) for name in ("", "_low", "_high")),
        *(pa.field(name, pa.float64()) for name in ("p", "p_holm", "effect")),
        *(pa.field(name, pa.int32()) for name in ("paired", "better", "worse")),
    ]
)
"""`low`, `high`: of the value; `difference…`, `p…`, `effect` (Cohen's d_z), `better`, `worse` of the `paired`
questions: against the baseline."""


def long_table(report: Report) -> pa.Table:
    """A row per method and metric, in the report's order (columns: `LONG`)."""
    rows = [
        {
            "experiment": report.experiment,
            "run_id": report.run_id,
            "method": method.name,
            "metric": metric,
            "value": summary.value,
            "questions": summary.questions,
            "left_out": summary.left_out,
            "low": summary.low,
            "high": summary.high,
            "spread": summary.spread,
            **(_difference(method.differences[metric]) if metric in method.differences else {}),
        }
        for method in report.methods
        for metric, summary in report.measures(method).items()
    ]
    return pa.Table.from_pylist(rows, LONG)


def pair_table(report: Report) -> pa.Table:
    """A row for each pair of methods that were compared, in the primary metric."""
    return pa.Table.from_pylist(
        [
            {
                "method": report.methods[pair.one].name,
                "other": report.methods[pair.other].name,
                "metric": report.primary,
                **_difference(pair.difference),
            }
            for pair in report.pairs
        ]
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


def wide_table(report: Report) -> pa.Table:
    """A row per method: experiment, run_id, method, its settings (`settings.KEY`), error_rows and every metric. Where
    settings were chosen: `chosen.settings`, `chosen.by`, `chosen.questions`; `chosen.tried`: every figure (JSON).

    A setting is a column of numbers where it is a number (or not set) for every method, else of text.
    """
    columns: dict[str, pa.Array] = {
        "experiment": pa.array([report.experiment] * len(report.methods), pa.string()),
        "run_id": pa.array([report.run_id] * len(report.methods), pa.string()),
        "method": pa.array([method.name for method in report.methods], pa.string()),
    }
    for key in report.settings():
        columns[f"settings.{key}"] = _setting([method.settings.get(key) for method in report.methods])
    if report.chosen:
        columns |= _chosen(report.chosen, [method.name for method in report.methods])
    columns["error_rows"] = pa.array([method.error_rows for method in report.methods], pa.int64())
    for metric in report.metrics():
        columns[f"metric.{metric}" if metric in columns else metric] = pa.array(report.values(metric), pa.float64())
    return pa.table(columns)


def _chosen(chosen: Chosen, methods: list[str]) -> dict[str, pa.Array]:
    """The columns on the choice; empty for a method that had none."""
    tried = [[option for option in chosen.tried if option.method == method] for method in methods]
    taken = [next((option.values for option in options if option.taken), None) for options in tried]
    listed = [[option.model_dump(include={"values", "figure", "questions"}) for option in options] for options in tried]
    return {
        "chosen.settings": pa.array([values and setting_text(values) for values in taken], pa.string()),
        "chosen.by": pa.array([values and chosen.by for values in taken], pa.string()),
        "chosen.questions": pa.array([chosen.questions if values else None for values in taken], pa.int64()),
        "chosen.tried": pa.array([setting_text(options) if options else None for options in listed], pa.string()),
    }


def csv_bytes(table: pa.Table) -> bytes:
    """The table as CSV (UTF-8, a header, empty where there is no value), for spreadsheets: no text is a formula."""
    target = io.BytesIO()
    columns = [
        pa.array([value if value is None else no_formula(value) for value in column.to_pylist()], pa.string())
        if column.type == pa.string()
        else column
        for column in table.columns
    ]
    csv.write_csv(pa.table(columns, [no_formula(name) for name in table.column_names]), target)
    return target.getvalue()


def setting_text(value: Any) -> str:
    """A setting as a person would write it; '' where it is not set."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _setting(values: list[Any]) -> pa.Array:
    numbers = (int, float)
    if all(value is None or (isinstance(value, numbers) and not isinstance(value, bool)) for value in values):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array([None if value is None else setting_text(value) for value in values], pa.string())
