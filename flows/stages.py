"""Stages as Prefect tasks, fanned out over their shards on Ray. No other file imports Prefect's tasks or Ray.

A stage is one Prefect task that drives a pool of Ray actors over its shards: an actor loads its model once and keeps
it, a shard costs no more than a Ray call, and an actor that is killed is started again and only its shard redone.
Prefect's own caching stays off: what is done is known from the store, and from nothing else.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, cast
from uuid import UUID

import ray
from prefect import task
from prefect.artifacts import create_progress_artifact, create_table_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from ray.exceptions import RayError, RayTaskError
from ray.util.actor_pool import ActorPool

from configs.loading import ConfigError
from configs.schema import Execution
from flows.progress import StageProgress
from flows.steps import Execute
from flows.workers import Counter, Worker
from storage.artifacts import Manifest
from tasks.stage import Stage

logger = logging.getLogger("vitalfew")
if logger.level == logging.NOTSET:  # a process of Prefect's, whose runs show what this logger says
    logger.setLevel(logging.INFO)

OBJECT_STORE_BYTES = 80 << 20  # only small records travel between workers
POLL_SECONDS = 0.3


@contextmanager
def ray_cluster(execution: Execution) -> Iterator[None]:
    """The cluster at RAY_ADDRESS, or a local one that ends with the block."""
    if ray.is_initialized():
        yield
        return
    local = {} if "RAY_ADDRESS" in os.environ else _local_ray(execution)
    try:
        # In a thread of its own, because in the main one Ray puts its handler of SIGTERM in the place of Prefect's: a
        # run that is cancelled would be taken for one that crashed, and a cancellation during the start would be lost.
        with ThreadPoolExecutor(1) as starter:
            starter.submit(ray.init, log_to_driver=False, logging_level=logging.ERROR, **local).result()
        yield
    finally:
        ray.shutdown()


def _local_ray(execution: Execution) -> dict[str, Any]:
    return {
        "num_cpus": execution.workers or os.cpu_count() or 1,
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",
        "object_store_memory": OBJECT_STORE_BYTES,
    }


class Workers:
    """A pool of Ray actors that do the shards of stages of one kind, one stage after the other: a model that several of
    them use is loaded once."""

    def __init__(self, limit: int | None) -> None:
        remote: Any = ray.remote
        self.limit = limit
        self.num_gpus = 0.0
        self.counter = remote(num_cpus=0)(Counter).remote()
        self.actors: list[Any] = []

    def run(self, stage: Stage, run_id: str, progress: StageProgress) -> Manifest:
        """Do a stage and return its manifest. What an actor raises is raised here as it was."""
        if manifest := stage.manifest():
            return manifest
        limit = most_workers(stage, self.limit, ray.cluster_resources())
        try:
            self._grow(stage, 1)
            _follow(self.actors[0].prepare.remote(stage, run_id, self.counter), self.counter, progress)
            progress.expect(stage.total_rows())
            pending = stage.pending()
            self._grow(stage, min(limit, len(pending)))
            pool = ActorPool(self.actors[: max(1, min(limit, len(pending)))])
            for shard in pending:
                pool.submit(lambda worker, number: worker.do.remote(stage, run_id, self.counter, number), shard)
            while pool.has_next():
                with suppress(TimeoutError):  # time to look at the counter
                    pool.get_next_unordered(timeout=POLL_SECONDS)
                progress.add(*ray.get(self.counter.take.remote()))
        except RayTaskError as error:
            raise (error.cause if isinstance(error.cause, Exception) else error) from None
        except SystemError as error:  # how Ray passes on what a signal's handler raised within a call of its own
            raise (error.__cause__ or error) from None
        return stage.finish()

    def _grow(self, stage: Stage, size: int) -> None:
        """`size` actors with what the stage needs of a GPU: one method of a flow may need one, and another none."""
        if self.num_gpus != stage.num_gpus:
            self.num_gpus, self.actors = stage.num_gpus, []
        remote: Any = ray.remote
        actor = remote(num_cpus=1, num_gpus=stage.num_gpus, max_restarts=-1, max_task_retries=3)(Worker)
        self.actors += [actor.remote() for _ in range(size - len(self.actors))]


def most_workers(stage: Stage, workers: int | None, resources: Mapping[str, float]) -> int:
    """How many workers of a stage the cluster has room for, `workers` at most.

    Raises ConfigError where it has no GPU for a stage that needs one: Ray would wait for it for ever.
    """
    most = min(workers or int(resources.get("CPU", 1)), stage.workers or sys.maxsize)
    if not stage.num_gpus:
        return most
    gpus = resources.get("GPU", 0)
    if gpus < stage.num_gpus:
        raise ConfigError(
            f"stage {stage.name} wants {stage.num_gpus:g} GPU per worker and this Ray cluster has {gpus:g}; "
            f"join one that has (RAY_ADDRESS), or say --set {_section(stage)}.device=cpu"
        )
    # Whole workers per GPU: Ray does not spread one over two.
    return min(most, int(gpus) * int(1 / stage.num_gpus + 1e-9))


def _section(stage: Stage) -> str:
    """Of the settings that its model's device is in."""
    return "encode" if stage.name == "encode_questions" else stage.name


def _follow(call: Any, counter: Any, progress: StageProgress) -> None:
    waiting = [call]
    while waiting:
        _, waiting = ray.wait(waiting, timeout=POLL_SECONDS)
        progress.add(*ray.get(counter.take.remote()))
    ray.get(call)


def _is_transient(task: Any, run: Any, state: Any) -> bool:
    """Retry what may go otherwise next time (a lost worker, a full disk), not what the user has to mend."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, (RayError, OSError, MemoryError)) and not isinstance(error, FileNotFoundError)


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
    """Stages of one kind as a Prefect task. `keep`: the same actors do all kinds, which saves their start where the
    work is small; else each kind has fresh ones, and their memory is its own."""
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
