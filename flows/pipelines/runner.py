"""`runner: auto`: one process, or Prefect and Ray, whichever ends sooner.

Workers share the shards of the work, but Ray and Prefect's server take seconds to start. The seconds of the work are
those of the estimates, where `vitalfew plan` has made them; else they are guessed from the number of passages or
questions. Ray is taken where nobody knows them, as with a model whose speed is unknown. The result is the same.
"""

import os
from collections.abc import Sequence
from math import ceil
from typing import Any

import psutil

from vitalfew.configs.schema import Execution, RunnerName
from vitalfew.flows.pipelines.paying import asks_servers
from vitalfew.flows.pipelines.run import Plan
from vitalfew.storage import files
from vitalfew.storage.costs import find_quote
from vitalfew.tasks.datasets.limits import CorpusSize, shard_count
from vitalfew.tasks.encode import EncodeLater
from vitalfew.tasks.stage import Stage

# Seconds that Prefect's server, Ray and its workers take to start and to end, and that a stage takes on them; measured
# on two cores of a Xeon, because no sample can show them.
START_RAY, START_STAGE = 17.0, 1.0
SECONDS = {"index_corpus": 0.001, "evaluate": 0.004, "write_questions": 0.001}
"""Seconds of a stage without a network for a passage or question, by flow: guesses."""
NETWORKS = ("reader", "embedded", "oreo", "cxmi")
"""Methods whose networks one process computes on all cores, as OpenVINO computes encoders: workers save nothing."""
QUESTIONS, RECORD, SENTENCES = 1000, 1000, 5
"""Guesses: the questions of a data set that was not read yet, the bytes of a record, and its sentences."""


def worker_count(parameters: Execution) -> int:
    """The number of parallel workers that a run has."""
    return (parameters.workers or psutil.cpu_count() or 1) if parameters.runner != "serial" else 1


def start_seconds(parameters: Execution, stages: int) -> float:
    """Seconds outside the stages, if so many of them are missing."""
    return START_RAY + START_STAGE * stages if parameters.runner != "serial" and stages else 0.0


def runner_for(plan: Plan, is_server_named: bool) -> RunnerName:
    """The runner that the parameters name, or the faster one if they leave it open: Ray where a server or a cluster is
    named, on GPUs, and for methods whose keys Prefect's blocks may hold."""
    if plan.parameters.runner != "auto":
        return plan.parameters.runner
    stages = plan.missing() or plan.stages  # of a choice, whose other half is left
    is_remote = is_server_named or os.environ.get("RAY_ADDRESS")
    if is_remote or any(stage.num_gpus or asks_servers(stage) for stage in stages):
        return "ray"
    workers = worker_count(plan.parameters)
    workers = min(workers, max(stage.workers or workers for stage in stages))
    if workers == 1:
        return "serial"
    if plan.flow not in SECONDS:
        return "ray"
    units, shards = _size(plan)
    seconds = _seconds(plan, stages, units)
    saved = 1 - ceil(shards / workers) / shards
    if not saved or seconds is None:
        return "ray" if saved else "serial"
    return "ray" if seconds * saved > start_seconds(plan.parameters, len({each.name for each in stages})) else "serial"


def _seconds(plan: Plan, stages: Sequence[Stage], units: float) -> float | None:
    """Seconds on one core that workers could share; None if nobody knows."""
    shared = [stage for stage in stages if not _fills_all_cores(stage) and not isinstance(stage, EncodeLater)]
    quoted = [quote for stage in shared if (quote := find_quote(plan.store, stage.artifact.fingerprint))]
    if shared and len(quoted) == len(shared):
        return sum(quote.cpu_seconds for quote in quoted)
    if any(hasattr(stage.config, name) for stage in shared for name in ("device", "engine", "model")):
        return None
    return SECONDS[plan.flow] * units * len(shared)


def _fills_all_cores(stage: Stage) -> bool:
    """Return whether one process computes the stage's network on all cores."""
    computation = getattr(getattr(stage, "encoder", None), "computation", None)
    return getattr(computation, "engine", "") == "openvino" or stage.model_name in NETWORKS


def _size(plan: Any) -> tuple[float, int]:
    """The passages or questions of a run, and its shards."""
    if plan.flow == "index_corpus":
        size = source_bytes(plan)
        records = size / RECORD
        return records, shard_count(CorpusSize(records, size, SENTENCES * records), plan.parameters.load)
    if plan.flow == "write_questions":
        settings = plan.parameters.write
        return settings.n * settings.spare, max(1, ceil(settings.n / settings.batch))
    loaded = plan.ask.inputs["passages"].manifest()
    there = loaded.rows["questions"] if loaded else QUESTIONS
    asked = min(there, plan.parameters.questions.sample or there)
    # A choice asks both halves.
    return asked * (2 if hasattr(plan, "whole") else 1), max(1, ceil(asked / plan.parameters.questions.batch))


def source_bytes(plan: Any) -> float:
    """The bytes of the sources of an index, which may be compressed; a source that knows only its records counts by
    these."""
    records = sum(dataset.total_records() or 0 for _, dataset in plan.load.datasets)
    return max(sum(files.status(path).size for path in plan.load.files), records * RECORD)
