"""Runs of a store: find one by name, and read its manifests, its summaries and its scores question by question."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from vitalfew.storage.artifacts import Artifact, Manifest
from vitalfew.storage.runs import Run, read_runs
from vitalfew.tasks.metrics.base import Column

LATEST = "latest"


class NoReport(ValueError):
    """There is nothing to report on: the message says what there is."""


def find_run(store: Path, name: str) -> Run:
    """The evaluation by its id or the beginning of it, else the latest of that experiment, or of all ("latest").

    Raises NoReport where there is none, or it did not complete.
    """
    runs = [run for run in read_runs(store) if run.flow == "evaluate"]
    named = [run for run in runs if run.run_id.startswith(name)]
    named = named or [run for run in runs if run.name == name or name == LATEST]
    complete = [run for run in named if run.state == "completed"]
    if complete:
        return complete[-1]
    if named:
        last = named[-1]
        reason = f" ({last.error})" if last.error else ""
        raise NoReport(
            f"run {last.run_id} of {last.name} is {last.state}{reason}; run the same `vitalfew evaluate` to continue it"
        )
    known = ", ".join(f"{run.run_id} ({run.name})" for run in runs[-5:])
    raise NoReport(
        f"no evaluation {name!r} in {store}; " + (f"the latest: {known}" if known else "run `vitalfew evaluate`")
    )


def run_of(store: Path, run_id: str) -> Run | None:
    """The run of an id; None where its record is gone."""
    return next((run for run in read_runs(store) if run.run_id == run_id), None)


def read_manifest(store: Path, name: str) -> Manifest:
    """Of an artifact `table/fingerprint`. Raises NoReport where it was removed since."""
    try:
        return Artifact(store, *name.split("/")).completed()
    except FileNotFoundError:
        raise NoReport(f"{name} was removed; run the same `vitalfew evaluate` to make it again") from None


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


Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class QuestionScores:
    """`ids`, int64 (n,): the questions, ascending; `values`: by metric, float64 (n,), NaN where a question gave no
    ground for it."""

    ids: npt.NDArray[np.int64]
    values: dict[str, Values]

    def of(self, metric: str, ids: npt.NDArray[np.int64]) -> Values:
        """The metric of these questions, which must be among `ids`; NaN throughout where it was not scored."""
        if metric not in self.values:
            return np.full(len(ids), np.nan)
        return self.values[metric][np.searchsorted(self.ids, ids)]


def read_question_scores(store: Path, asked: Manifest, scores: Sequence[Manifest]) -> QuestionScores:
    """Of one method, or the means over several seeds of it (over those that scored the question)."""
    ids = np.sort(asked.read(store, "asked", ["question_id"])["question_id"].to_numpy())
    tables = [manifest.read(store, "scores") for manifest in scores]
    metrics = dict.fromkeys(metric for table in tables for metric in pc.unique(table["metric"]).to_pylist())
    return QuestionScores(ids, {metric: _mean([_values(table, metric, ids) for table in tables]) for metric in metrics})


def _mean(values: Sequence[Values]) -> Values:
    if len(values) == 1:
        return values[0]
    stacked = np.stack(values)
    known = ~np.isnan(stacked)
    counts = known.sum(axis=0)
    totals = np.where(known, stacked, 0.0).sum(axis=0)
    return np.divide(totals, counts, out=np.full(totals.shape, np.nan), where=counts > 0)


def _values(table: pa.Table, metric: str, ids: npt.NDArray[np.int64]) -> Values:
    rows = table.filter(pc.equal(table["metric"], metric))
    values = np.full(len(ids), np.nan)
    values[np.searchsorted(ids, rows["question_id"].to_numpy())] = rows["value"].to_numpy()
    return values
