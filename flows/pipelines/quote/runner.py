"""`runner: auto`: one process, or Prefect and Ray, whichever ends sooner.

Workers share the shards of the work, but Ray and Prefect's server take seconds to start (sample.py). The seconds of the
work are those of the estimates, where `vitalfew plan` has made them; else they are guessed from the number of passages
or questions. Ray is taken where nobody knows them, as with a model whose speed is unknown. The result is the same.
"""

import os
from collections.abc import Sequence
from math import ceil
from typing import Any

import psutil

from vitalfew.configs.schema import RunnerName
from vitalfew.flows.pipelines.paying import asks_servers
from vitalfew.flows.pipelines.quote.sample import start_seconds
from vitalfew.flows.pipelines.run import Plan
from vitalfew.storage.costs import find_quote
from vitalfew.tasks.datasets.limits import shard_count
from vitalfew.tasks.stage import Stage

SAMPLE, SURVEY_SECONDS = 64, 0.3
"""Passages that show the size of the others, and how long the sources are read for a guess."""
SECONDS = {"index_corpus": 0.001, "evaluate": 0.004, "write_questions": 0.001}
"""Seconds of a stage without a network for a passage or question, by flow: guesses."""
NETWORKS = ("reader", "embedded", "oreo", "cxmi")
"""Methods whose networks one process computes on all cores, as OpenVINO computes encoders: workers save nothing."""
QUESTIONS = 1000
"""Questions of a data set that was not read yet: a guess."""


def runner_for(plan: Plan, is_server_named: bool) -> RunnerName:
    """The runner that the parameters name, or the faster one if they leave it open: Ray where a server or a cluster is
    named, on GPUs, and for methods whose keys Prefect's blocks may hold."""
    if plan.parameters.runner != "auto":
        return plan.parameters.runner
    stages = plan.missing() or plan.stages  # of a choice, whose other half is left
    if (
        is_server_named
        or os.environ.get("RAY_ADDRESS")
        or any(stage.num_gpus or asks_servers(stage) for stage in stages)
    ):
        return "ray"
    workers = plan.parameters.workers or psutil.cpu_count() or 1
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
    shared = [stage for stage in stages if not _fills_all_cores(stage)]
    quotes = [find_quote(plan.store, stage.artifact.fingerprint) for stage in shared]
    quoted = [quote.cpu_seconds for quote in quotes if quote]
    if quotes and len(quoted) == len(quotes):
        return sum(quoted)
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
        from vitalfew.flows.pipelines.quote.corpus import survey  # a finished run estimates nothing

        surveyed = survey([own for _, own in plan.load.datasets], plan.parameters.load, SAMPLE, SURVEY_SECONDS)
        return surveyed.passages, shard_count(surveyed.size, plan.parameters.load)
    if plan.flow == "write_questions":
        settings = plan.parameters.write
        return settings.n * settings.spare, max(1, ceil(settings.n / settings.batch))
    loaded = plan.ask.inputs["passages"].manifest()
    there = loaded.rows["questions"] if loaded else QUESTIONS
    asked = min(there, plan.parameters.questions.sample or there)
    # A choice asks both halves.
    return asked * (2 if hasattr(plan, "whole") else 1), max(1, ceil(asked / plan.parameters.questions.batch))
