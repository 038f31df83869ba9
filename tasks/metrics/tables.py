"""The tables of metrics: `scores`, a row for every question and column, and `summaries`, a row for every column."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from vitalfew.configs.evaluation import ScoreConfig
from vitalfew.configs.loading import ConfigError
from vitalfew.storage import schemas
from vitalfew.tasks.metrics.base import Case, Metric, Summary
from vitalfew.tasks.registry import resolve, with_options

Metrics = Mapping[str, Metric]
"""By name, in the order of the report."""


def make_metrics(config: ScoreConfig) -> dict[str, Metric]:
    """The metrics of a configuration.

    Raises UnknownName for an unknown metric; ConfigError for an option of no such metric, for two columns of one
    name, and for a metric that cannot work here; and the errors of a metric whose model is missing.
    """
    options = with_options(config, "score")
    metrics: dict[str, Metric] = {name: _metric(name, options) for name in options.metrics}
    owners: dict[str, str] = {}
    for name, metric in metrics.items():
        inherits = getattr(type(metric), "columns", None) is Metric.columns
        if not hasattr(metric, "shown" if inherits else "columns"):
            raise ConfigError(
                f"score.metrics: {name} does not declare its columns; add a method `columns`, or `shown`, with a "
                "vitalfew.tasks.metrics.base.Column(name, heading, unit, direction, needs) for every column"
            )
        for column in metric.columns():
            if owners.setdefault(column.name, name) != name:
                raise ConfigError(
                    f"score.metrics: {owners[column.name]} and {name} both give {column.name!r}; leave one out"
                )
    return metrics


def _metric(name: str, options: ScoreConfig) -> Metric:
    """A metric with its own part of the options."""
    kind = resolve("metric", name)
    own = getattr(kind, "Options", ScoreConfig)
    metric: Metric = kind(own.model_validate({key: value for key, value in options if key in own.model_fields}))
    return metric


def metrics_identity(metrics: Metrics) -> dict[str, Any]:
    """Everything that the tables depend on besides the cases: the metrics' versions, columns (k, features), models."""
    return {
        name: {"version": metric.version, "columns": [asdict(column) for column in metric.columns()]}
        | ({"model": metric.identity()} if hasattr(metric, "identity") else {})
        for name, metric in metrics.items()
    }


def score_cases(metrics: Metrics, question_ids: Sequence[int], cases: Sequence[Case]) -> pa.Table:
    """Rows of `scores`, metric by metric. A question to which a metric does not apply has no row of it.

    Raises ValueError if a metric gives undeclared columns, a wrong number of values, or a value that is not a finite
    number.
    """
    tables = [schemas.SCORES.empty_table()]
    for name, metric in metrics.items():
        if not metric.corpus:
            values = metric.score(cases)
            declared = [column.name for column in metric.columns()]
            if values.keys() != set(declared):
                raise ValueError(f"the metric {name} gave {[*values]}, but declares {declared}; make them equal")
            tables += [_rows(name, column, question_ids, values[column]) for column in declared]
    return pa.concat_tables(tables).combine_chunks()


def _rows(name: str, column: str, question_ids: Sequence[int], values: Sequence[float | None]) -> pa.Table:
    if len(values) != len(question_ids):
        raise ValueError(f"the metric {name} gave {len(values)} values of {column!r} for {len(question_ids)} questions")
    known = [(question, value) for question, value in zip(question_ids, values, strict=True) if value is not None]
    if wrong := [value for _, value in known if not math.isfinite(value)]:
        raise ValueError(
            f"the metric {name} gave {wrong[0]} for {column!r}; give None for a question that has no value"
        )
    columns = [[question for question, _ in known], [column] * len(known), [float(value) for _, value in known]]
    return pa.table(columns, schema=schemas.SCORES)


def summarise(metrics: Metrics, scores: pa.Table, questions: int, cases: Sequence[Case] = ()) -> pa.Table:
    """Rows of `summaries`: of every column, also of columns that apply to no question.

    `scores`: the rows of all `questions` (their number); `cases`: all of them, if a metric is of the whole corpus.
    Means do not depend on the order of the rows (sums are exact).
    """
    rows: list[dict[str, Any]] = []
    for metric in metrics.values():
        if metric.corpus and len(cases) != questions:
            raise ValueError(
                f"{type(metric).__name__} needs all answers: got {len(cases)} cases for {questions} questions"
            )
        of_all = metric.summary(cases) if metric.corpus else {}
        for column in metric.columns():
            summary = of_all[column.name] if metric.corpus else _mean(scores, column.name, questions)
            rows.append({**asdict(column), "metric": column.name, "questions": questions, **summary._asdict()})
    return pa.Table.from_pylist(rows, schema=schemas.SUMMARIES)


def _mean(scores: pa.Table, column: str, questions: int) -> Summary:
    values = scores.filter(pc.equal(scores["metric"], column))["value"].to_pylist()
    return Summary(math.fsum(values) / len(values) if values else None, questions - len(values))
