"""What each method of an evaluation came to, read from the store: means with intervals, differences to the baseline,
errors and costs. Methods that differ in their seed alone are one, their mean."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow.compute as pc

from configs.evaluation import Evaluate, Method
from storage import files
from storage.artifacts import Artifact, Manifest
from storage.runs import Run
from tasks import score as scoring
from tasks.metrics.base import Metric
from tasks.metrics.correct_units import MISSING
from tasks.models.engines.base import EngineOptions
from tasks.reports.contents import BestAlpha, MethodResult, StageCost, Summary
from tasks.reports.differences import best_alphas, differences, opponents
from tasks.reports.question_scores import QuestionScores, read_question_scores
from tasks.reports.statistics.bootstrap import mean_interval

FIRST_ERRORS = 3
RANK = "first_rank"


class NoReport(ValueError):
    """There is nothing to report on: the message says what there is."""


@dataclass(frozen=True)
class Group:
    """Methods that differ in `generate.seed` alone: one row of the table, under one name."""

    name: str
    methods: tuple[Method, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(_seed(method) for method in self.methods if method.generate)


def groups(methods: Sequence[Method]) -> list[Group]:
    """In the order in which they first come."""
    found: dict[str, list[Method]] = {}
    for method in methods:
        found.setdefault(repr(_but_for_seed(method)), []).append(method)
    return [Group(_shared_name(each), tuple(each)) for each in found.values()]


def _but_for_seed(method: Method) -> dict[str, Any]:
    settings = method.model_dump(mode="json", exclude={"name"})
    if method.generate:
        settings["generate"].pop("seed", None)
    return settings


def _seed(method: Method) -> int:
    """Of a generator that samples; the default of all engines where none was set."""
    seed: int = getattr(method.generate, "seed", EngineOptions.model_fields["seed"].default)
    return seed


def _shared_name(methods: Sequence[Method]) -> str:
    """The name without the seed that a grid put into it."""
    if len(methods) == 1 or not methods[0].generate:
        return methods[0].name
    return methods[0].name.replace(f" seed={_seed(methods[0])}", "")


def method_results(
    store: Path, run: Run, parameters: Evaluate
) -> tuple[tuple[MethodResult, ...], tuple[BestAlpha, ...]]:
    """A result for each group of methods, and the best alpha of every sweep. Raises NoReport where an artifact was
    removed since."""
    found = groups(parameters.methods)
    settings = differing({group.name: group.methods[0] for group in found})
    metrics = {
        column: metric for metric in scoring.make_metrics(parameters.score).values() for column in metric.score([])
    }
    scores = [_question_scores(store, run, group) for group in found]
    against = opponents([*settings.values()], _baselines(found, parameters))
    compared = differences(scores, against, [column for column, metric in metrics.items() if not metric.corpus])
    results = tuple(
        replace(
            _result(store, run, group, settings[group.name], metrics, scores[number]),
            differences=compared[number],
            against=against[number],
        )
        for number, group in enumerate(found)
    )
    return results, tuple(best_alphas(results, scores))


def _baselines(found: Sequence[Group], parameters: Evaluate) -> list[int]:
    """The places of the baseline among the groups; several where a grid made several of it."""
    return [place for place, group in enumerate(found) if any(parameters.is_baseline(m) for m in group.methods)]


def _question_scores(store: Path, run: Run, group: Group) -> QuestionScores:
    artifacts = [run.methods[method.name] for method in group.methods]
    asked = read_manifest(store, artifacts[0]["asked"])
    return read_question_scores(store, asked, [read_manifest(store, each["scores"]) for each in artifacts])


def _result(
    store: Path,
    run: Run,
    group: Group,
    settings: dict[str, Any],
    metrics: Mapping[str, Metric],
    scores: QuestionScores,
) -> MethodResult:
    artifacts = [run.methods[method.name] for method in group.methods]
    tables = {table: list(dict.fromkeys(each[table] for each in artifacts)) for table in artifacts[0]}
    manifests = {
        table: [read_manifest(store, name) for name in each] for table, each in tables.items() if table != "passages"
    }
    errors = [
        error for each in manifests.get("answers") or manifests.get("candidates", []) for error in _errors(store, each)
    ]
    ranks = scores.values.get(RANK, np.empty(0))
    return MethodResult(
        name=group.name,
        settings=settings,
        summaries=_summaries(store, manifests["scores"], metrics, scores),
        costs=tuple(_cost(table, each, run) for table, each in manifests.items()),
        error_rows=len(errors) // len(group.methods),
        errors=tuple(dict.fromkeys(errors))[:FIRST_ERRORS],
        fingerprints={table: each[0].partition("/")[2] for table, each in [*tables.items(), _summaries_of(tables)]},
        ranks=tuple(np.where(ranks == MISSING, np.inf, ranks)[~np.isnan(ranks)]),
        seeds=group.seeds if len(group.methods) > 1 else (),
    )


def _summaries_of(tables: Mapping[str, list[str]]) -> tuple[str, list[str]]:
    return "summaries", tables["scores"]


def read_manifest(store: Path, name: str) -> Manifest:
    """Raises NoReport where the artifact was removed since."""
    try:
        return Artifact(store, *name.split("/")).completed()
    except FileNotFoundError:
        raise NoReport(f"{name} was removed since; the same `vitalfew evaluate` makes it again") from None


def _summaries(
    store: Path, manifests: Sequence[Manifest], metrics: Mapping[str, Metric], scores: QuestionScores
) -> dict[str, Summary]:
    """The recorded means, over seeds where there are several, with intervals from the single questions."""
    seeds = [_recorded(store, manifest) for manifest in manifests]
    known = scores.values
    intervals = dict(zip(known, mean_interval(np.stack([*known.values()])), strict=True)) if known else {}
    found = {}
    for column, row in seeds[0].items():
        values = [value for seed in seeds if (value := seed[column]["value"]) is not None]
        metric, interval = metrics.get(column), intervals.get(column)
        found[column] = Summary(
            fmean(values) if values else None,
            row["questions"] - row["left_out"],
            row["left_out"],
            metric.higher_is_better if metric else None,
            interval.low if interval else None,
            interval.high if interval else None,
            max(values) - min(values) if len(values) > 1 else None,
        )
    return found


def _recorded(store: Path, manifest: Manifest) -> dict[str, dict[str, Any]]:
    return {row["metric"]: row for row in manifest.read(store, "summaries").to_pylist()}


def _errors(store: Path, candidates: Manifest) -> Iterator[str]:
    for record in candidates.shards:
        if record.notes.get("errors"):
            for file in record.files:
                column = files.read_table(store / file.path, columns=["error"])["error"]
                yield from column.filter(pc.not_equal(column, "")).to_pylist()


def _cost(table: str, manifests: Sequence[Manifest], run: Run) -> StageCost:
    """Of one stage; of several seeds the mean."""
    records = [record for each in manifests for record in [each.preparation, *each.shards] if record]
    seeds = len(manifests)
    return StageCost(
        stage=manifests[0].stage,
        rows=manifests[0].rows[table],
        tokens=sum(record.cost.tokens for record in records) // seeds,
        wall_seconds=sum(record.cost.wall_seconds for record in records) / seeds,
        cpu_seconds=sum(record.cost.cpu_seconds for record in records) / seeds,
        usd=sum(record.cost.usd for record in records) / seeds,
        peak_memory_bytes=max(record.cost.peak_memory_bytes for record in records),
        reused=all(record.run_id != run.run_id for record in records),
        batches=len(manifests[0].shards),
    )


def differing(methods: Mapping[str, Method]) -> dict[str, dict[str, Any]]:
    """By name, the settings in which the methods differ."""
    flat = {name: dict(_flat(method.model_dump(mode="json", exclude={"name"}))) for name, method in methods.items()}
    keys = dict.fromkeys(key for settings in flat.values() for key in settings)
    differ = [key for key in keys if len({repr(settings.get(key)) for settings in flat.values()}) > 1]
    return {name: {key: settings.get(key) for key in differ if key in settings} for name, settings in flat.items()}


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
