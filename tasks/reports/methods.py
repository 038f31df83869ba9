"""The results of an evaluation's methods, read from the store: means with intervals, differences to the baseline,
errors and costs. Methods that differ in their seed alone are one, their mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import polars as pl

from vitalfew.configs.evaluation import Evaluate, Method
from vitalfew.configs.loading import flat
from vitalfew.storage import files
from vitalfew.storage.artifacts import Manifest
from vitalfew.storage.costs import read_prices, unpriced
from vitalfew.storage.runs import Run
from vitalfew.tasks.generators.base import CUT, REFUSED
from vitalfew.tasks.metrics.base import SCALE
from vitalfew.tasks.raters.base import NO_ANSWER
from vitalfew.tasks.refiners.base import STOPPED
from vitalfew.tasks.reports.contents import (
    BestAlpha,
    Differing,
    MethodResult,
    MetricSummary,
    Pair,
    ReaderCounts,
    StageCost,
)
from vitalfew.tasks.reports.costs import context_mode, generator_name, stage_costs
from vitalfew.tasks.reports.differences import best_alphas, differences, opponents, pairs
from vitalfew.tasks.reports.differing import differing as differing_questions
from vitalfew.tasks.reports.readings import reading
from vitalfew.tasks.reports.runs import EvaluatedMethod, Group, QuestionScores, read_summaries
from vitalfew.tasks.reports.runs import groups as groups
from vitalfew.tasks.reports.shown.columns import primary_metric
from vitalfew.tasks.reports.statistics.bootstrap import Interval, mean_interval
from vitalfew.tasks.retrievers.base import WITHOUT_HITS

FIRST_ERRORS = 3


@dataclass(frozen=True)
class Results:
    """A report's rows; `primary`: the metric that it is about; `scores`: question by question, by the method's name;
    `pairs`: all pairs of the methods that `pairwise` selects; `differing`: the questions on which methods differ."""

    methods: tuple[MethodResult, ...]
    best_alphas: tuple[BestAlpha, ...]
    primary: str | None
    scores: Mapping[str, QuestionScores]
    pairs: tuple[Pair, ...]
    differing: Differing | None


def compared_with(parameters: Evaluate) -> list[int | None]:
    """For every group the place of the one that it is compared with; None for a baseline."""
    rows = groups(parameters.methods)
    settings = differing({group.name: group.methods[0] for group in rows})
    baselines = [place for place, group in enumerate(rows) if any(map(parameters.is_baseline, group.methods))]
    return opponents([*settings.values()], baselines)


def method_results(store: Path, run: Run, parameters: Evaluate) -> Results:
    """A result for every group of methods. Raises NoReport where an artifact was removed since."""
    rows = groups(parameters.methods)
    settings = differing({group.name: group.methods[0] for group in rows})
    costs = stage_costs(store, run, {group.name: [method.name for method in group.methods] for group in rows})
    read = [*EvaluatedMethod.every(store, run).values()]
    scores = [own.scores for own in read]
    results = [
        _result(own, group, settings[group.name], costs[group.name]) for own, group in zip(read, rows, strict=True)
    ]
    against = compared_with(parameters)
    # As the first method that has the metric declares it.
    summaries = [summary for result in results for summary in result.summaries.values()]
    columns = {summary.column.name: summary.column for summary in reversed(summaries)}
    scored = {summary.column.name for summary in summaries if summary.value is not None}
    order = [*dict.fromkeys(summary.column.name for summary in summaries)]
    primary = primary_metric([columns[name] for name in order if name in scored], parameters.primary)
    # Neither more nor less of such a metric is better: there is nothing to be significant.
    tested = [columns[name] for name in order if columns[name].direction != "neither"]
    compared = differences(scores, against, tested, primary)
    methods = tuple(
        replace(result, differences=own, against=other)
        for result, own, other in zip(results, compared, against, strict=True)
    )
    by_name = {method.name: own for method, own in zip(methods, scores, strict=True)}
    alike = _with_settings([row.methods[0] for row in rows], parameters.pairwise or {})
    compared_pairs = pairs(scores, alike, primary) if primary else []
    return Results(
        methods=methods,
        best_alphas=tuple(best_alphas(methods, scores)),
        primary=primary,
        scores=by_name,
        pairs=tuple(compared_pairs),
        differing=differing_questions(read, methods, by_name, primary),
    )


def _with_settings(methods: Sequence[Method], wanted: Mapping[str, Any]) -> list[int]:
    """The places of the methods that have these settings; none where none are wanted."""
    every = [dict(flat(method.sections())) for method in methods] if wanted else []
    return [place for place, own in enumerate(every) if all(own.get(key) == value for key, value in wanted.items())]


def _result(own: EvaluatedMethod, group: Group, settings: dict[str, Any], costs: tuple[StageCost, ...]) -> MethodResult:
    """The method, its baseline apart."""
    manifests = {table: own.manifests(table) for table in own.tables if table != "passages"}
    candidates = manifests.get("candidates", [])
    answered = manifests.get("answers") or candidates
    errors = [error for manifest in answered for error in _errors(own.store, manifest)]
    fingerprints = {table: names[0].partition("/")[2] for table, names in own.tables.items()}
    first = group.methods[0]
    return MethodResult(
        name=group.name,
        settings=settings,
        summaries=_summaries(own.store, manifests["scores"], own.scores),
        costs=costs,
        error_rows=len(errors) // len(group.methods),
        errors=tuple(dict.fromkeys(errors))[:FIRST_ERRORS],
        fingerprints={**fingerprints, "summaries": fingerprints["scores"]},
        seeds=group.seeds if len(group.methods) > 1 else (),
        context=context_mode(own.store, own.run, first),
        reading=_reading(own, first),
        generator=generator_name(first),
        budget=first.refine.max_tokens if "evidence" in manifests else None,
        cut=sum(manifest.note(CUT) for manifest in candidates),
        refused=sum(manifest.note(REFUSED) for manifest in candidates),
        token_prices=_token_prices(candidates),
        unjudged=_unjudged(own.store, manifests.get("verdicts", [])),
        unpriced=unpriced(manifest.model for each in manifests.values() for manifest in each),
        stopped=sum(manifest.note(STOPPED) for manifest in manifests.get("evidence", [])[:1]),
        without_hits=sum(manifest.note(WITHOUT_HITS) for manifest in manifests.get("hits", [])[:1]),
    )


def _token_prices(answered: Sequence[Manifest]) -> tuple[float, float] | None:
    """The generator's prices of tokens on the day of its answers: of all, and of cached ones."""
    if not answered:
        return None
    prices, model = read_prices(datetime.fromisoformat(answered[0].completed).date()), answered[0].model
    listed = prices.listed(model)
    return (listed, prices.of_cached(model)) if listed else None


def _unjudged(store: Path, judged: Sequence[Manifest]) -> str:
    """The first error of a judge that has judged no answer; empty where it has judged one, or was asked nothing."""
    errors = [error for each in judged for error in each.read(store, "verdicts", ["error"])["error"].to_pylist()]
    of_judge = [error for error in errors if not error.startswith(NO_ANSWER)]
    return of_judge[0] if of_judge and all(of_judge) else ""


def _reading(own: EvaluatedMethod, method: Method) -> ReaderCounts | None:
    if not method.retrieve or "hits" not in own.tables:
        return None
    [hits, *_] = own.manifests("hits")
    found = next((file.path for file in hits.files() if file.table == "hits" and file.rows), None)
    unit = files.read_table(own.store / found, ["unit"])["unit"][0].as_py() if found else "hit"
    return reading(own.scores, method.retrieve.top_k, unit, is_refined="evidence" in own.tables)


def _summaries(store: Path, manifests: Sequence[Manifest], scores: QuestionScores) -> dict[str, MetricSummary]:
    """The recorded means, over seeds where there are several, with intervals from the single questions."""
    seeds = [read_summaries(store, manifest) for manifest in manifests]
    known = scores.values
    declared = seeds[0]
    shares = [metric not in declared or declared[metric].column.unit in (SCALE, "") for metric in known]
    found = mean_interval(np.stack([*known.values()]), may_be_share=shares) if known else []
    intervals = dict(zip(known, found, strict=True))
    summaries = {}
    for metric, first in seeds[0].items():
        values = [value for seed in seeds if (value := seed[metric].value) is not None]
        interval = intervals.get(metric, Interval(None, None, None, 0))
        summaries[metric] = replace(
            first,
            value=fmean(values) if values else None,
            low=interval.low,
            high=interval.high,
            spread=max(values) - min(values) if len(values) > 1 else None,
        )
    return summaries


def _errors(store: Path, answered: Manifest) -> list[str]:
    if not answered.note("errors"):
        return []
    table = answered.artifact.partition("/")[0]
    return pl.DataFrame(answered.read(store, table, ["error"])).filter(pl.col("error") != "")["error"].to_list()


def differing(methods: Mapping[str, Method]) -> dict[str, dict[str, Any]]:
    """By name, the settings in which the methods differ."""
    every = {name: dict(flat(method.sections())) for name, method in methods.items()}
    keys = dict.fromkeys(key for settings in every.values() for key in settings)
    # A setting counts for methods that have it; a section that is null (no retrieval) has none of its settings.
    concerned = {
        key: [settings for settings in every.values() if key in settings or key.partition(".")[0] in settings]
        for key in keys
    }
    differ = [key for key in keys if len({repr(settings.get(key)) for settings in concerned[key]}) > 1]
    return {name: {key: settings.get(key) for key in differ if key in settings} for name, settings in every.items()}
