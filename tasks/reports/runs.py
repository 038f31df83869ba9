"""Runs of a store: find one by name, and read its manifests, its summaries and its scores question by question."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from vitalfew.storage.artifacts import Artifact, Manifest
from vitalfew.storage.runs import Run, read_runs
from vitalfew.tasks.metrics.base import Column
from vitalfew.tasks.reports.contents import MetricSummary

LATEST = "latest"

SUMMARIES, RECOMMENDATION = "summaries.parquet", "recommendation.txt"
"""Files beside the page of a report, for whoever wants some figures without computing every interval."""


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
    """Read the manifest of an artifact `table/fingerprint`. Raises NoReport where it was removed since."""
    try:
        return Artifact(store, *name.split("/")).completed()
    except FileNotFoundError:
        raise NoReport(f"{name} was removed; run the same `vitalfew evaluate` to make it again") from None


def read_rows(store: Path, run: Run, method: str, table: str) -> pl.DataFrame:
    """Read the rows of a method's table. Raises NoReport where the artifact was removed since."""
    return pl.DataFrame(read_manifest(store, run.methods[method][table]).read(store, table))


def read_summaries(store: Path, scores: Manifest) -> dict[str, MetricSummary]:
    """Read the summaries by metric, in the order in which they were scored."""
    summaries = {}
    for row in pl.DataFrame(scores.read(store, "summaries")).iter_rows(named=True):
        heading, unit, direction = (row[name] for name in ("heading", "unit", "direction"))
        column = Column(row["metric"], heading, unit, direction, tuple(row["needs"]), detail=row["detail"])
        scored = row["questions"] - row["left_out"]
        summaries[row["metric"]] = MetricSummary(column, row["value"], scored, row["left_out"])
    return summaries


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
    """Read the scores of a method, or the means over several seeds of it (over those that scored the question)."""
    questions = pl.DataFrame(asked.read(store, "asked", ["question_id"])).sort("question_id")
    tables = [pl.DataFrame(manifest.read(store, "scores")) for manifest in scores]
    wide = [table.pivot("metric", index="question_id", values="value") for table in tables]
    seeds = [questions.join(table, on="question_id", how="left", maintain_order="left") for table in wide]
    values = {}
    for metric in dict.fromkeys(name for seed in seeds for name in seed.columns[1:]):
        of_seeds = np.stack([seed[metric].cast(pl.Float64).to_numpy() for seed in seeds if metric in seed.columns])
        values[metric] = np.ma.array(of_seeds, mask=np.isnan(of_seeds)).mean(axis=0).filled(np.nan)
    return QuestionScores(questions["question_id"].to_numpy(), values)
