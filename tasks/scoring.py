"""Cases into the rows of `scores`, and these into the rows of `summaries`. No files: `tasks/score.py` reads and writes.

A metric of single questions is summed up from its rows in `scores` alone, so shards can be scored apart and at any
time; a metric of the whole corpus (MAUVE) needs all cases, of which questions, gold answers and answers are enough.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from configs.evaluation import Score
from configs.loading import ConfigError
from storage import schemas
from tasks.metrics.base import Case, Metric, Summary
from tasks.registry import resolve

Metrics = Mapping[str, Metric]
"""By name, in the order of the report."""


def make_metrics(config: Score) -> dict[str, Metric]:
    """The metrics of a configuration.

    Raises UnknownName for one that is not known, ConfigError where two have a column of the same name or one cannot
    work here, and what a metric raises where its model is missing.
    """
    metrics: dict[str, Metric] = {name: resolve("metric", name)(config) for name in config.metrics}
    owners: dict[str, str] = {}
    for name, metric in metrics.items():
        for column in metric.score([]):
            if owners.setdefault(column, name) != name:
                raise ConfigError(f"score.metrics: {owners[column]} and {name} both give {column!r}; leave one out")
    return metrics


def identity(metrics: Metrics) -> dict[str, Any]:
    """What the numbers depend on besides the cases: each metric's version and columns (k, the features of MAUVE)."""
    return {name: {"version": metric.version, "columns": [*metric.score([])]} for name, metric in metrics.items()}


def score(metrics: Metrics, question_ids: Sequence[int], cases: Sequence[Case]) -> pa.Table:
    """Rows of `scores`, metric by metric. A question that gives no ground for a metric has no row of it.

    Raises ValueError where a metric gives other columns than it told, another number of values than there are cases, or
    one that is no number.
    """
    tables = [schemas.SCORES.empty_table()]
    for name, metric in metrics.items():
        if not metric.corpus:
            values = metric.score(cases)
            if values.keys() != (told := metric.score([])).keys():
                raise ValueError(f"the metric {name} gave {[*values]}, but without cases {[*told]}")
            tables += [_rows(name, column, question_ids, values[column]) for column in told]
    return pa.concat_tables(tables).combine_chunks()


def _rows(name: str, column: str, question_ids: Sequence[int], values: Sequence[float | None]) -> pa.Table:
    if len(values) != len(question_ids):
        raise ValueError(f"the metric {name} gave {len(values)} values of {column!r} for {len(question_ids)} questions")
    known = [(question, value) for question, value in zip(question_ids, values, strict=True) if value is not None]
    if wrong := [value for _, value in known if not math.isfinite(value)]:
        raise ValueError(f"the metric {name} gave {wrong[0]} as {column!r}; None is for a question without ground")
    columns = [[question for question, _ in known], [column] * len(known), [float(value) for _, value in known]]
    return pa.table(columns, schema=schemas.SCORES)


def summarise(metrics: Metrics, scores: pa.Table, questions: int, cases: Sequence[Case] = ()) -> pa.Table:
    """Rows of `summaries`: of every column, also of those that no question gave ground for.

    `scores`: the rows of all `questions` (their number); `cases`: all of them, where a metric is of the whole corpus.
    Means do not depend on the order of the rows (sums are exact).
    """
    found: dict[str, Summary] = {}
    for metric in metrics.values():
        if not metric.corpus:
            found |= {column: _mean(scores, column, questions) for column in metric.score([])}
        elif len(cases) != questions:
            raise ValueError(f"{type(metric).__name__} is of all answers: {len(cases)} cases for {questions} questions")
        else:
            found |= metric.summary(cases)
    rows = [
        {"metric": column, "value": value, "questions": questions, "left_out": left_out}
        for column, (value, left_out) in found.items()
    ]
    return pa.Table.from_pylist(rows, schema=schemas.SUMMARIES)


def _mean(scores: pa.Table, column: str, questions: int) -> Summary:
    values = scores.filter(pc.equal(scores["metric"], column))["value"].to_pylist()
    return Summary(math.fsum(values) / len(values) if values else None, questions - len(values))
