"""`runner: auto`: one process, or Prefect and Ray, whichever ends sooner.

Workers share the shards of the work, but Ray and Prefect's server take seconds to start (forecast.py). The seconds of
the work are those of the quotes, where `vitalfew plan` has made them; else they are estimated from the size of the
sources. Ray is taken where nobody knows them, as with a model whose speed is unknown. The result is the same.
"""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import psutil

from vitalfew.configs.schema import RunnerName
from vitalfew.flows.pipelines.quote.forecast import start_seconds
from vitalfew.flows.pipelines.run import Plan
from vitalfew.flows.pipelines.secrets import asks_servers
from vitalfew.storage import files
from vitalfew.storage.costs import find_quote
from vitalfew.tasks.datasets.base import Dataset
from vitalfew.tasks.datasets.limits import CorpusSize, shard_count
from vitalfew.tasks.load import Load
from vitalfew.tasks.stage import Stage

SAMPLE, SURVEY_SECONDS = 64, 0.3
"""Passages that show the size of the others, and how long the sources are read for an estimate."""
A_PASSAGE, A_QUESTION = 0.001, 0.02
"""Seconds of a stage without a network for a passage of an index, and for a question of an evaluation: guesses."""
NETWORKS = ("reader", "embedded", "oreo", "cxmi")
"""Methods whose networks one process computes on all cores, as OpenVINO computes encoders: workers save nothing."""
QUESTION_BYTES = 200
"""Bytes of a source for a question, at least."""


@dataclass(frozen=True)
class _Size:
    """Shards of the unfinished work, and its seconds on one core in one process; None if nobody knows."""

    shards: float
    seconds: float | None


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
    size = _size(plan, stages)
    saved = 1 - ceil(size.shards / workers) / size.shards
    if not saved or size.seconds is None:
        return "ray" if saved else "serial"
    starting = start_seconds(plan.parameters, len({stage.name for stage in stages}))
    return "ray" if size.seconds * saved > starting else "serial"


def _size(plan: Plan, stages: Sequence[Stage]) -> _Size:
    """The size of stages that are left."""
    size = _SIZES.get(plan.flow, _unknown)(plan, stages)
    quotes = [find_quote(plan.store, stage.artifact.fingerprint) for stage in stages if not _fills_all_cores(stage)]
    quoted = [quote.cpu_seconds for quote in quotes if quote]
    return _Size(size.shards, sum(quoted)) if quotes and len(quoted) == len(quotes) else size


def _fills_all_cores(stage: Stage) -> bool:
    """Return whether one process computes the stage's network on all cores."""
    computation = getattr(getattr(stage, "encoder", None), "computation", None)
    return getattr(computation, "engine", "") == "openvino" or stage.model_name in NETWORKS


def _of_index(plan: Any, stages: Sequence[Stage]) -> _Size:
    from vitalfew.flows.pipelines.quote.corpus import survey  # a finished run estimates nothing

    surveyed = survey([dataset for _, dataset in plan.load.datasets], plan.parameters.load, SAMPLE, SURVEY_SECONDS)
    lengths = [len(passage.title) + len(passage.text) for _, passage in surveyed.sample]
    characters = surveyed.passages * sum(lengths) / max(1, len(lengths))
    shards = shard_count(CorpusSize(surveyed.passages, characters, 0), plan.parameters.load)
    return _Size(shards, _sum([_working(stage, A_PASSAGE, surveyed.passages) for stage in stages]))


def _of_evaluation(plan: Any, stages: Sequence[Stage]) -> _Size:
    """A choice asks both halves."""
    asked = _questions(plan)
    halves = 2 if hasattr(plan, "whole") else 1
    seconds = [_working(stage, A_QUESTION, halves * asked) for stage in stages]
    return _Size(max(1, ceil(asked / plan.parameters.questions.batch)), _sum(seconds))


def _questions(plan: Any) -> float:
    """The questions that are asked, at most."""
    if done := plan.manifest(plan.ask):
        return float(done.rows["asked"])
    sample = plan.parameters.questions.sample or float("inf")
    loaded = plan.ask.inputs["passages"].manifest()
    if loaded:
        return float(min(sample, loaded.rows["questions"]))
    datasets = [dataset for stage in plan.stages if isinstance(stage, Load) for _, dataset in stage.datasets]
    return float(min(sample, sum(map(_records, datasets))))


def _records(dataset: Dataset) -> float:
    """The records of a source, at most."""
    known = dataset.total_records()
    return sum(files.status(path).size for path in dataset.files()) / QUESTION_BYTES if known is None else known


def _working(stage: Stage, rate: float, units: float) -> float | None:
    """Seconds that workers could share of a stage for passages or questions, at `rate` if it has no network; None if
    its speed is unknown."""
    if _fills_all_cores(stage):
        return 0.0
    if any(hasattr(stage.config, name) for name in ("device", "engine", "model")):
        return None
    return rate * units


def _sum(seconds: Sequence[float | None]) -> float | None:
    known = [each for each in seconds if each is not None]
    return sum(known) if len(known) == len(seconds) else None


def _unknown(plan: Any, stages: Sequence[Stage]) -> _Size:
    return _Size(sys.maxsize, None)


def _of_writing(plan: Any, stages: Sequence[Stage]) -> _Size:
    settings = plan.parameters.write
    seconds = [_working(stage, A_PASSAGE, settings.n * settings.spare) for stage in stages]
    return _Size(max(1, ceil(settings.n / settings.batch)), _sum(seconds))


_SIZES: dict[str, Callable[[Any, Sequence[Stage]], _Size]] = {
    "index_corpus": _of_index,
    "evaluate": _of_evaluation,
    "write_questions": _of_writing,
}
"""By the name of the flow: an import of its plan would take a second."""
