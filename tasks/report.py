"""report: what an evaluation came to, read from the store, as tables, plots and a page of its own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from configs.evaluation import Evaluate, Method
from storage.artifacts import Artifact, Manifest
from storage.parquet import write_atomically, write_table
from storage.runs import Run, read_runs
from tasks import scoring
from tasks.reports.page import page
from tasks.reports.results import Asked, MethodResult, Report, StageCost, Summary
from tasks.reports.tables import csv_bytes, long_table, wide_table

FIRST_ERRORS = 3
LATEST = "latest"


class NoReport(ValueError):
    """There is nothing to report on: the message says what there is."""


@dataclass(frozen=True)
class Files:
    """Where a report was written."""

    html: Path
    csv: Path
    parquet: Path
    scores: Path


def find_run(store: Path, name: str) -> Run:
    """The evaluation by its id or the beginning of it, else the latest of that experiment, or of all ("latest").

    Raises NoReport where there is none, or it did not complete.
    """
    runs = [run for run in read_runs(store) if run.flow == "evaluate"]
    found = [run for run in runs if run.run_id.startswith(name)]
    found = found or [run for run in runs if run.name == name or name == LATEST]
    complete = [run for run in found if run.state == "completed"]
    if complete:
        return complete[-1]
    if found:
        last = found[-1]
        told = f" ({last.error})" if last.error else ""
        raise NoReport(
            f"run {last.run_id} of {last.name} is {last.state}{told}; the same `vitalfew evaluate` goes on with it"
        )
    known = ", ".join(f"{run.run_id} ({run.name})" for run in runs[-5:])
    raise NoReport(
        f"no evaluation {name!r} in {store}; " + (f"the latest: {known}" if known else "run `vitalfew evaluate`")
    )


def read_report(store: Path, run: Run) -> Report:
    """Raises NoReport where an artifact of the run was removed since."""
    parameters = Evaluate.model_validate(run.config)
    settings = _differing(parameters)
    methods = tuple(_method(store, run, method, settings[method.name], parameters) for method in parameters.methods)
    asked = next(iter(run.methods.values()))["asked"]
    questions = parameters.questions
    source = questions.dataset or f"the data sets of index {next(m.index for m in parameters.methods if m.index)}"
    return Report(
        experiment=run.name,
        run_id=run.run_id,
        when=datetime.fromisoformat(run.started),
        store=str(store),
        asked=Asked(
            questions=_manifest(store, asked).rows["asked"],
            source=source,
            where=questions.where,
            seed=questions.seed if questions.sample else None,
        ),
        methods=methods,
    )


def write_report(store: Path, report: Report) -> Files:
    """A page of its own, and the figures as a wide (a row per method) and a long table."""
    folder = store / "reports" / report.run_id
    files = Files(
        folder / "report.html", folder / "methods.csv", folder / "methods.parquet", folder / "summaries.parquet"
    )
    wide = wide_table(report)
    write_table(files.parquet, wide)
    write_table(files.scores, long_table(report))
    write_atomically(files.csv, lambda path: path.write_bytes(csv_bytes(wide)))
    content = page(report).encode()
    write_atomically(files.html, lambda path: path.write_bytes(content))
    return files


def _method(store: Path, run: Run, method: Method, settings: dict[str, Any], parameters: Evaluate) -> MethodResult:
    artifacts = run.methods[method.name]
    manifests = {table: _manifest(store, name) for table, name in artifacts.items() if table != "passages"}
    errors = list(_errors(store, manifests.get("answers") or manifests.get("candidates")))
    return MethodResult(
        name=method.name,
        settings=settings,
        summaries=_summaries(store, manifests["scores"], parameters),
        costs=tuple(_cost(table, manifest, run) for table, manifest in manifests.items()),
        error_rows=len(errors),
        errors=tuple(dict.fromkeys(errors))[:FIRST_ERRORS],
        fingerprints={table: name.partition("/")[2] for table, name in _tables(artifacts).items()},
    )


def _tables(artifacts: Mapping[str, str]) -> dict[str, str]:
    return {**artifacts, "summaries": artifacts["scores"]}


def _manifest(store: Path, name: str) -> Manifest:
    try:
        return Artifact(store, *name.split("/")).completed()
    except FileNotFoundError:
        raise NoReport(f"{name} was removed since; the same `vitalfew evaluate` makes it again") from None


def _summaries(store: Path, scores: Manifest, parameters: Evaluate) -> dict[str, Summary]:
    better = {
        column: metric.higher_is_better
        for metric in scoring.make_metrics(parameters.score).values()
        for column in metric.score([])
    }
    (file,) = scores.whole
    return {
        row["metric"]: Summary(row["value"], row["questions"], row["left_out"], better.get(row["metric"]))
        for row in pq.read_table(store / file.path).to_pylist()
    }


def _errors(store: Path, candidates: Manifest | None) -> Iterator[str]:
    for record in candidates.shards if candidates else []:
        if record.notes.get("errors"):
            for file in record.files:
                column = pq.read_table(store / file.path, columns=["error"])["error"]
                yield from column.filter(pc.not_equal(column, "")).to_pylist()


def _cost(table: str, manifest: Manifest, run: Run) -> StageCost:
    records = [record for record in [manifest.preparation, *manifest.shards] if record]
    return StageCost(
        stage=manifest.stage,
        rows=manifest.rows[table],
        tokens=sum(record.cost.tokens for record in records),
        wall_seconds=sum(record.cost.wall_seconds for record in records),
        cpu_seconds=sum(record.cost.cpu_seconds for record in records),
        usd=sum(record.cost.usd for record in records),
        peak_memory_bytes=max(record.cost.peak_memory_bytes for record in records),
        reused=all(record.run_id != run.run_id for record in records),
    )


def _differing(parameters: Evaluate) -> dict[str, dict[str, Any]]:
    """By method, the settings in which the methods differ."""
    flat = {method.name: dict(_flat(method.model_dump(mode="json", exclude={"name"}))) for method in parameters.methods}
    keys = dict.fromkeys(key for settings in flat.values() for key in settings)
    differ = [key for key in keys if len({repr(settings.get(key)) for settings in flat.values()}) > 1]
    return {name: {key: settings.get(key) for key in differ if key in settings} for name, settings in flat.items()}


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
