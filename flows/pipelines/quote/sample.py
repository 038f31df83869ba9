"""The cost of a stage, estimated from a small sample: what a row of the sample takes, times the rows of the run.

The missing stages run in this process, in a temporary folder: on a few rows, and then on as many as fit in some
seconds. The second time tells what a row takes; what the first one took beyond that is for loading models. An estimate
is within about a third of what the run then takes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import NamedTuple

import psutil
import pyarrow as pa
import pyarrow.compute as pc
from rich.filesize import decimal

from vitalfew.configs.schema import Execution
from vitalfew.flows.pipelines.run import Plan
from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact, ShardRecord
from vitalfew.storage.costs import LOADING, Cost, Quote, charge, read_ledger
from vitalfew.tasks.stage import ReusingStage, Stage

Announce = Callable[[str], None]
"""Called with what is tried now, in words."""
# Seconds that Prefect's server and Ray take to start and to end, and that a stage's workers take to be ready; measured
# on two cores of an AMD EPYC, because no sample can show them.
START_RAY, START_STAGE = 14.0, 4.0
# The memory (bytes) of a worker that Ray itself uses.
RAY_WORKER = 115 << 20


class QuotedStage(NamedTuple):
    """A stage of a run, the model that it asks or computes, and its estimate; None: it is finished."""

    stage: str
    model: str
    quote: Quote | None


@dataclass(frozen=True, kw_only=True)
class Quoted:
    """The estimate of a run, or of a part of it. `rows`: its stages in order; `start_seconds`: time outside these;
    `requests_usd`: the part of the USD that is for requests to servers; `bases`: what the figures rest on besides the
    sample, and `headings`: what is above the stages, in words; `staging_bytes`: disk space that is needed for a
    while; `free_bytes`: free space on the disk, None where a run needs little; `parts`: evaluations that are shown one
    by one, each with its number of `questions`."""

    rows: Sequence[QuotedStage]
    workers: int
    start_seconds: float = 0.0
    requests_usd: float = 0.0
    bases: Sequence[str] = ()
    headings: Sequence[str] = ()
    staging_bytes: float = 0.0
    free_bytes: int | None = None
    parts: Sequence["Quoted"] = ()
    questions: int = 0

    @property
    def stages(self) -> list[Quote]:
        """The estimates of the stages that are missing."""
        return [row.quote for row in self.rows if row.quote]

    @property
    def tokens(self) -> int:
        return sum(quote.tokens for quote in self.stages)

    @property
    def wall_seconds(self) -> float:
        return self.start_seconds + sum(quote.wall_seconds for quote in self.stages)

    @property
    def disk_bytes(self) -> float:
        """The disk space that the run needs: permanent and temporary files."""
        return sum(quote.disk_bytes for quote in self.stages) + self.staging_bytes

    def check(self) -> None:
        """Raises DoesNotFit."""
        if self.free_bytes is not None and self.disk_bytes > self.free_bytes:
            raise DoesNotFit(
                f"the run needs about {decimal(int(self.disk_bytes))}, but the disk has {decimal(self.free_bytes)} "
                "free. Free some space, use --store on another disk, or store less: --set index.layout=fused, "
                "--set index.type=sq8 or --set 'encode.units=[sentence]'"
            )


class DoesNotFit(ValueError):
    """The disk has less room than the run needs."""


def quoted_rows(stages: Iterable[Stage], quotes: Iterable[Quote]) -> list[QuotedStage]:
    """All stages of a run with the estimates of those that are missing."""
    known = {quote.fingerprint: quote for quote in quotes}
    return [QuotedStage(each.name, each.model_name or "", known.get(each.artifact.fingerprint)) for each in stages]


@dataclass(frozen=True)
class Sample:
    """The costs of a stage on a sample of `units`, such as questions; times in seconds, sizes in bytes. `loading_*`: of
    models, in one process, and in no other figure."""

    units: float
    shards: int
    rows: int
    tokens: int
    wall: float
    cpu: float
    memory: int
    disk: int
    loading_wall: float = 0.0
    loading_cpu: float = 0.0


def measured(stage: Stage, units: float) -> Sample:
    """Run a stage on a sample; the stages before it must be finished. Raises the errors of the stage."""
    manifest = stage.run("plan")
    once = [manifest.preparation.cost] if manifest.preparation else []
    costs = [*once, *(record.cost for record in manifest.shards)]
    loading = [row for row in read_ledger(stage.artifact.ledger) if row["stage"] == LOADING]
    return Sample(
        units=units,
        shards=max(1, len(manifest.shards)),
        rows=manifest.rows.get(stage.table, 0),
        tokens=sum(cost.tokens for cost in costs),
        wall=sum(cost.wall_seconds for cost in costs) + sum(row["wall_seconds"] for row in loading),
        cpu=sum(cost.cpu_seconds for cost in costs) + sum(row["cpu_seconds"] for row in loading),
        memory=max((cost.peak_memory_bytes for cost in costs), default=0),
        disk=sum(file.bytes for file in manifest.files()),
    )


def tried(run: Callable[[int], Mapping[str, Sample]], few: int, most: int, seconds: float) -> dict[str, Sample]:
    """Measure stages on `few` rows, and then on as many, up to `most`, as take about these seconds. `run`: runs the
    stages on a number of rows."""
    first = run(few)
    took = sum(min(each.wall, each.cpu) for each in first.values())  # other work stretches the wall
    last = run(max(few, min(most, int(few * seconds / max(took, 1e-3)))))
    return {name: _without_loading(first[name], own) for name, own in last.items()}


def _without_loading(first: Sample, last: Sample) -> Sample:
    """The last sample, in which models were loaded: what the first took beyond its rows was for that. The memory is of
    the first: the last has the models of later stages too."""
    share = first.units / last.units
    wall, cpu = (max(0.0, one - share * other) for one, other in ((first.wall, last.wall), (first.cpu, last.cpu)))
    return replace(last, memory=first.memory, loading_wall=wall, loading_cpu=cpu)


def estimate(
    stage: Stage,
    parameters: Execution,
    sample: Sample,
    units: float,
    shards: int,
    rows: float | None = None,
    tokens: float | None = None,
) -> Quote:
    """Estimate `units` of work. `rows`, `tokens`: where they are known better than by the sample. The time of what
    computes tokens follows these."""
    share = units / sample.units
    tokens = share * sample.tokens if tokens is None else tokens
    times = tokens / sample.tokens if sample.tokens else share
    workers = worker_count(parameters)
    side = min(workers, shards, stage.workers or shards)
    wall, cpu = times * sample.wall, times * sample.cpu
    # Workers share the shards, but none makes the cores of the machine faster.
    shared = max(wall * ceil(shards / side) / shards, min(wall, cpu / (psutil.cpu_count() or 1)))
    gpu = stage.num_gpus * (side * sample.loading_wall + wall)
    cpu += side * sample.loading_cpu
    larger = max(0.0, units / shards - sample.units / sample.shards) * sample.disk / sample.units
    return Quote(
        fingerprint=stage.artifact.fingerprint,
        stage=stage.name,
        runner="serial" if parameters.runner == "serial" else "ray",
        workers=workers,
        rows=round(share * sample.rows if rows is None else rows),
        tokens=round(tokens),
        wall_seconds=sample.loading_wall + shared,
        cpu_seconds=cpu,
        gpu_seconds=gpu,
        peak_memory_bytes=round(sample.memory + larger + (0 if parameters.runner == "serial" else RAY_WORKER)),
        disk_bytes=round(share * sample.disk),
        usd=charge(cpu, gpu, tokens, stage.model_name),
    )


def timed(store: Path, stage: Stage, quote: Quote) -> Quote | None:
    """An estimate with the time that a server's model has taken per token in earlier runs; None if it was never
    asked."""
    rows = [row for path in files.find(store, "costs/*/*.parquet") for row in read_ledger(path)]
    own = [row for row in rows if (row["stage"], row["model"]) == (stage.name, stage.model_name) and row["shard"] >= 0]
    if not (tokens := sum(row["tokens"] for row in own)):
        return None
    wall, cpu = (quote.tokens / tokens * sum(row[name] for row in own) for name in ("wall_seconds", "cpu_seconds"))
    return replace(quote, wall_seconds=wall, cpu_seconds=cpu, usd=charge(cpu, 0, quote.tokens, stage.model_name))


def worker_count(parameters: Execution) -> int:
    """The number of parallel workers that a run has."""
    return (parameters.workers or psutil.cpu_count() or 1) if parameters.runner != "serial" else 1


def start_seconds(parameters: Execution, stages: int) -> float:
    """Seconds outside the stages, if so many of them are missing."""
    return START_RAY + START_STAGE * stages if parameters.runner != "serial" and stages else 0.0


_SAMPLED, _OWNING = ("question_id", "passage_id", "sentence_id"), ("question_id", "passage_id", "id")
"""The columns that name what is sampled, and the columns, the first of which there is, that say what a row is of."""
_RUN = ("load", "ask", "terms")
"""Stages that run on a sample although they are finished."""


def try_missing(
    pairs: Sequence[tuple[Stage, Stage]],
    plan: Plan,
    units: float,
    announce: Announce,
    shards: Sequence[int] | None = None,
) -> dict[str, Sample]:
    """Run the stages that are missing on a sample, and return what they took, by the artifact of the plan. `pairs`: in
    order, a stage on the sample and the one of the plan. Finished stages give their rows, of `shards` where the sample
    is in these."""
    due, read = list[tuple[Stage, Stage]](), set[str]()
    for stage, whole in reversed(pairs):
        if stage.artifact.name in read or not plan.manifest(whole):
            due.insert(0, (stage, whole))
            read |= {each.name for each in stage.inputs.values()}
    found = dict[str, Sample]()
    for stage, whole in due:
        if isinstance(stage, ReusingStage):
            stage.trial_of = plan.store.absolute()  # what the store knows is not asked for
        manifest = plan.manifest(whole)
        if manifest is None:
            announce(f"{stage.name}: a sample")
            found[whole.artifact.name] = measured(stage, units)
        elif stage.name in _RUN:
            stage.run("plan")
        elif not stage.artifact.manifest():
            _take_over(whole.artifact, stage, shards or [record.shard for record in manifest.shards])
    return found


def _take_over(done: Artifact, stage: Stage, shards: Sequence[int]) -> None:
    """Make the artifact of a stage on a sample from rows that a finished artifact has, instead of doing the work."""
    stage.artifact.begin(stage.description())
    nothing = Cost(started=datetime.now(UTC).isoformat())
    over = stage.inputs[stage.counts or stage.over or next(iter(stage.inputs))]
    tables = dict.fromkeys(file.table for record in done.completed().shards for file in record.files)
    for shard in stage.shards():
        sample = over.read(shard)
        ids = pa.concat_arrays([sample[key].combine_chunks() for key in _SAMPLED if key in sample.column_names])
        written = []
        for table in tables:
            rows = pa.concat_tables(_among(done.read(each, table), ids) for each in shards)
            written.append(stage.artifact.write(shard, table, rows.combine_chunks()))
        stage.artifact.mark_done(ShardRecord(shard, "plan", written, sample.num_rows, nothing))
    stage.finish()


def _among(rows: pa.Table, ids: pa.Array) -> pa.Table:
    column = next((name for name in _OWNING if name in rows.column_names), None)
    return rows.filter(pc.is_in(rows[column], ids)) if column else rows.slice(0, 0)
