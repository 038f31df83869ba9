"""What a method's stored summaries say: the figures of every metric, and what the metric declared of itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vitalfew.storage.artifacts import Manifest
from vitalfew.tasks.metrics.base import Column


@dataclass(frozen=True, slots=True)
class Recorded:
    """A row of `summaries`: `value` of `questions` questions, of which `left_out` gave no ground for it."""

    column: Column
    value: float | None
    questions: int
    left_out: int


def read_summaries(store: Path, scores: Manifest) -> dict[str, Recorded]:
    """By metric, in the order in which they were scored."""
    return {row["metric"]: _recorded(row) for row in scores.read(store, "summaries").to_pylist()}


def columns_of(summaries: Sequence[dict[str, Recorded]]) -> dict[str, Column]:
    """Every metric of several methods, as the first that has it declares it."""
    columns: dict[str, Column] = {}
    for rows in summaries:
        for name, row in rows.items():
            columns.setdefault(name, row.column)
    return columns


def _recorded(row: dict[str, Any]) -> Recorded:
    return Recorded(_column(row), row["value"], row["questions"], row["left_out"])


def _column(row: dict[str, Any]) -> Column:
    """An older version wrote none of what a metric declares: its name has to do, and its direction is not known."""
    if "heading" not in row:
        return undeclared(row["metric"])
    return Column(
        row["metric"], row["heading"], row["unit"], row["direction"], tuple(row["needs"]), detail=row["detail"]
    )


def undeclared(metric: str) -> Column:
    """A metric of which nothing but its name is known."""
    return Column(metric, metric.replace("_", " "), "", None)
