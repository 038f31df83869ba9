"""Stages as Prefect tasks, whose shards run on Ray (flows/ray_pool.py).

A task executes the stages of one kind, with its own progress, retries and artifacts. Prefect's caching is off: only the
store knows which shards are finished.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast
from uuid import UUID

from prefect import task
from prefect.artifacts import create_progress_artifact, create_table_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import TerminationSignal

from vitalfew.flows.pipelines.progress import StageProgress
from vitalfew.flows.pipelines.run import Execute
from vitalfew.flows.ray_pool import Workers, is_lost
from vitalfew.storage.artifacts import Manifest
from vitalfew.tasks.stage import Stage

logger = logging.getLogger("vitalfew")
if logger.level == logging.NOTSET:  # a Prefect process: its runs show the messages of this logger
    logger.setLevel(logging.INFO)


def _hear_again(
    lost: "sys.UnraisableHookArgs", default: Callable[["sys.UnraisableHookArgs"], Any] = sys.unraisablehook
) -> None:
    """Send SIGTERM again if its exception was lost. Prefect's handler of SIGTERM raises an exception; Python discards
    it if a destructor is running, and the run would continue until it is killed."""
    if isinstance(lost.exc_value, TerminationSignal):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    else:
        default(lost)


sys.unraisablehook = _hear_again


def _is_transient(task: Any, run: Any, state: Any) -> bool:
    """Retry errors that may pass (a lost worker, a full disk), not errors that the user has to correct."""
    error = state.result(raise_on_failure=False)
    retried = is_lost(error) or isinstance(error, (OSError, MemoryError))
    return retried and not isinstance(error, FileNotFoundError)


@task(
    task_run_name="{name}",
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=2,
    retry_delay_seconds=5,
    retry_condition_fn=_is_transient,
    log_prints=False,
)
def run_stages(name: str, stages: Sequence[Stage], run_id: str, pool: Workers) -> list[Manifest]:
    """A flow's stages of one kind: live progress in the terminal and as an artifact of the run, costs as a table."""
    identifier = cast(UUID, create_progress_artifact(0.0, description=f"{name}: starting"))

    def show(percent: float, line: str) -> None:
        update_progress_artifact(identifier, min(percent, 100.0), description=f"{name}: {line}")

    manifests = []
    for number, stage in enumerate(stages, 1):
        label = name if len(stages) == 1 else f"{name} {number}/{len(stages)}"
        with stage.artifact.locked(), StageProgress(label, show) as progress:
            manifests.append(pool.run(stage, run_id, progress))
        logger.info("%s: done, %s", label, progress.line())
    rows = [row for manifest in manifests for row in cost_rows(manifest)]
    create_table_artifact(rows, key=f"costs-{name.replace('_', '-')}", description=f"Costs of {name}")
    return manifests


def on_ray(workers: int | None, keep: bool = False) -> Execute:
    """Execute stages of one kind as a Prefect task. `keep`: the same actors do all kinds, which saves their start if
    the work is small; else every kind has fresh actors, with their own memory."""
    kept: dict[float, Workers] = {}

    def execute(stages: Sequence[Stage], run_id: str) -> list[Manifest]:
        gpus = stages[0].num_gpus
        pool = kept.get(gpus) or Workers(workers)
        if keep:
            kept[gpus] = pool
        manifests: list[Manifest] = run_stages(stages[0].name, stages, run_id, pool)
        return manifests

    return execute


def cost_rows(manifest: Manifest) -> list[dict[str, Any]]:
    """The ledger of an artifact, a row per shard, for people."""
    return [
        {
            "artifact": manifest.artifact,
            "shard": record.shard,
            "rows": sum(file.rows for file in record.files),
            "tokens": record.cost.tokens,
            "wall seconds": round(record.cost.wall_seconds, 2),
            "CPU seconds": round(record.cost.cpu_seconds, 2),
            "peak MiB": record.cost.peak_memory_bytes >> 20,
            "USD": round(record.cost.usd, 6),
        }
        for record in manifest.shards
    ]
