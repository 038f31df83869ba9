"""Finished evaluations of a store: find one by name, and read its methods, their metrics and their rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import polars as pl

from vitalfew.configs.evaluation import Evaluate, Method
from vitalfew.storage.artifacts import Artifact, Manifest
from vitalfew.storage.runs import Run, read_runs
from vitalfew.tasks.metrics.base import Column
from vitalfew.tasks.models.causal.engines.base import EngineOptions
from vitalfew.tasks.reports.contents import MetricSummary

LATEST = "latest"
SUMMARIES = "summaries.parquet"
"""A file beside the page of a report, for whoever wants some figures without computing every interval."""


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
    """The manifest of an artifact `table/fingerprint`. Raises NoReport where it was removed since."""
    try:
        return Artifact(store, *name.split("/")).completed()
    except FileNotFoundError:
        raise NoReport(f"{name} was removed; run the same `vitalfew evaluate` to make it again") from None


def read_summaries(store: Path, scores: Manifest) -> dict[str, MetricSummary]:
    """The summaries by metric, in the order in which they were scored."""
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
    """The scores of a method, or the means over several seeds of it (over those that scored the question)."""
    questions = pl.DataFrame(asked.read(store, "asked", ["question_id"])).sort("question_id")
    tables = [pl.DataFrame(manifest.read(store, "scores")) for manifest in scores]
    wide = [table.pivot("metric", index="question_id", values="value") for table in tables]
    seeds = [questions.join(table, on="question_id", how="left", maintain_order="left") for table in wide]
    values = {}
    for metric in dict.fromkeys(name for seed in seeds for name in seed.columns[1:]):
        of_seeds = np.stack([seed[metric].cast(pl.Float64).to_numpy() for seed in seeds if metric in seed.columns])
        values[metric] = np.ma.array(of_seeds, mask=np.isnan(of_seeds)).mean(axis=0).filled(np.nan)
    return QuestionScores(questions["question_id"].to_numpy(), values)


@dataclass(frozen=True)
class Group:
    """Methods that differ in `generate.seed` alone: one row of a report, under one name."""

    name: str
    methods: tuple[Method, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(_seed(method) for method in self.methods if method.generate)


def groups(methods: Sequence[Method]) -> list[Group]:
    """Group methods that differ in their seed alone, in the order in which they first come."""
    alike: dict[str, list[Method]] = {}
    for method in methods:
        settings = method.sections()
        if method.generate:
            settings["generate"].pop("seed", None)
        alike.setdefault(repr(settings), []).append(method)
    return [Group(_shared_name(members), tuple(members)) for members in alike.values()]


def _seed(method: Method) -> int:
    """The seed of a generator that samples; the default of all engines where none was set."""
    seed: int = getattr(method.generate, "seed", EngineOptions.model_fields["seed"].default)
    return seed


def _shared_name(methods: Sequence[Method]) -> str:
    """The name without the seed that a grid put into it."""
    if len(methods) == 1 or not methods[0].generate:
        return methods[0].name
    return methods[0].name.replace(f" seed={_seed(methods[0])}", "")


@dataclass(frozen=True)
class EvaluatedMethod:
    """A method of a finished evaluation, all seeds of it, under the name of its row in the report. `tables`: by table
    its artifacts (`table/fingerprint`), one for every seed; rows and answers are those of the first.

    What its artifacts hold is read when it is asked for. Raises NoReport where one was removed since.
    """

    store: Path
    run: Run
    name: str
    tables: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, store: Path, run: Run, name: str, seeds: Iterable[str]) -> Self:
        """`seeds`: the names of its methods in the run's record."""
        own = [run.methods[seed] for seed in seeds]
        return cls(store, run, name, {table: tuple(names[table] for names in own) for table in own[0]})

    @classmethod
    def every(cls, store: Path, run: Run) -> dict[str, Self]:
        """All of a run, by name, in the report's order: methods that differ in their seed alone are one."""
        found = groups(Evaluate.model_validate(run.config).methods)
        return {each.name: cls.of(store, run, each.name, [own.name for own in each.methods]) for each in found}

    @property
    def label(self) -> str:
        return f"{self.name} ({self.run.run_id})"

    @cached_property
    def parameters(self) -> Evaluate:
        return Evaluate.model_validate(self.run.config)

    def manifests(self, table: str) -> list[Manifest]:
        """Of every seed that has an artifact of its own; none where it has no such table."""
        return [read_manifest(self.store, name) for name in dict.fromkeys(self.tables.get(table, ()))]

    def rows(self, table: str, columns: Sequence[str] = ()) -> pl.DataFrame:
        """Rows of a table that it has."""
        manifest = read_manifest(self.store, self.tables[table][0])
        return pl.DataFrame(manifest.read(self.store, table, columns or None))

    def answers(self) -> pl.DataFrame:
        """question_id, text and error: of every question the answer that was chosen first, or the only one."""
        table, place, first = ("answers", "rank", 1) if "answers" in self.tables else ("candidates", "candidate", 0)
        if table not in self.tables:
            return pl.DataFrame(schema={"question_id": pl.Int64, "text": pl.String, "error": pl.String})
        rows = self.rows(table, ["question_id", "text", "error", place])
        return rows.filter(pl.col(place) == first).drop(place)

    def rows_of(self, table: str, questions: Sequence[int], seed: int = 0) -> pl.DataFrame:
        """Rows of some questions, of which only the shards that have them are read; none where it has no table."""
        wanted = {self.shards[question] for question in questions if question in self.shards}
        if table not in self.tables or not wanted:
            return pl.DataFrame()
        artifact = Artifact(self.store, *self.tables[table][seed].split("/"))
        rows = pl.concat([pl.DataFrame(artifact.read(shard)) for shard in sorted(wanted)])
        return rows.filter(pl.col("question_id").is_in(questions))

    @cached_property
    def shards(self) -> dict[int, int]:
        """The shard of every question: all tables of an evaluation have the same."""
        asked = read_manifest(self.store, self.tables["asked"][0])
        ids = asked.read(self.store, "asked", ["question_id"])["question_id"].to_pylist()
        of_shards = [
            [shard.shard] * file.rows for shard in asked.shards for file in shard.files if file.table == "asked"
        ]
        return dict(zip(ids, (number for numbers in of_shards for number in numbers), strict=True))

    def values(self, metric: str) -> pl.DataFrame:
        """question_id and value of a metric: the mean over seeds, of the questions that it scored."""
        scored = (read_manifest(self.store, name).read(self.store, "scores") for name in self.tables["scores"])
        rows = pl.concat([pl.DataFrame(seed).filter(pl.col("metric") == metric) for seed in scored])
        return rows.group_by("question_id", maintain_order=True).agg(pl.col("value").mean())

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The declarations of its metrics; of several seeds, as the first that has the metric declares it."""
        columns: dict[str, Column] = {}
        for manifest in reversed(self.manifests("scores")):
            columns |= {metric: summary.column for metric, summary in read_summaries(self.store, manifest).items()}
        return columns

    @cached_property
    def scores(self) -> QuestionScores:
        of_seeds = [read_manifest(self.store, name) for name in self.tables["scores"]]
        return read_question_scores(self.store, self.manifests("asked")[0], of_seeds)
