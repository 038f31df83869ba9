"""A stage's shards on a pool of Ray actors, which load their model once and keep it. Only this file uses Ray.

A shard costs only one Ray call. A killed actor is started again, and only its shard is repeated. An actor imports this
file, so the file imports no Prefect, which would delay the actor's start.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.actor_pool import ActorPool

from configs.loading import ConfigError
from configs.schema import Execution
from storage.artifacts import Manifest
from tasks.stage import Progress, Stage

if TYPE_CHECKING:
    from flows.pipelines.progress import StageProgress

OBJECT_STORE_BYTES = 80 << 20  # only small records travel between workers
POLL_SECONDS = 0.3


@contextmanager
def ray_cluster(execution: Execution) -> Iterator[None]:
    """The cluster at RAY_ADDRESS, or a local one that ends with the block."""
    if ray.is_initialized():
        yield
        return
    local = {} if "RAY_ADDRESS" in os.environ else _local_ray(execution)
    # In a separate thread, because in the main thread Ray replaces Prefect's handler of SIGTERM: a cancelled run would
    # count as crashed, and a cancellation during the start would be lost. The thread lives as long as the cluster,
    # because Linux kills Ray's processes when the thread that started them ends.
    with ThreadPoolExecutor(1) as starter:
        started = starter.submit(ray.init, log_to_driver=False, logging_level=logging.ERROR, **local)
        try:
            started.result()
            yield
        finally:
            wait([started])  # a cluster that is still starting cannot be shut down
            ray.shutdown()


def _local_ray(execution: Execution) -> dict[str, Any]:
    return {
        "num_cpus": execution.workers or os.cpu_count() or 1,
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",
        "object_store_memory": OBJECT_STORE_BYTES,
    }


class Workers:
    """A pool of Ray actors that execute the shards of stages of one kind, one stage after another: a model that several
    stages use is loaded once."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.num_gpus = 0.0
        self.counter: Any = None
        self.actors: list[Any] = []

    def run(self, stage: Stage, run_id: str, progress: "StageProgress") -> Manifest:
        """Execute a stage and return its manifest. Raises the errors of the actors unchanged."""
        if manifest := stage.manifest():
            return manifest  # without an actor: a finished run has no cluster, and an actor would start one
        remote: Any = ray.remote
        self.counter = self.counter or remote(num_cpus=0)(Counter).remote()
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
        except SystemError as error:  # Ray wraps the exception of a signal handler within its calls like this
            raise (error.__cause__ or error) from None
        return stage.finish()

    def _grow(self, stage: Stage, size: int) -> None:
        """Have `size` actors with the GPU share of the stage: one method of a flow may need a GPU, and another none."""
        if self.num_gpus != stage.num_gpus:
            self.num_gpus, self.actors = stage.num_gpus, []
        remote: Any = ray.remote
        actor = remote(num_cpus=1, num_gpus=stage.num_gpus, max_restarts=-1, max_task_retries=3)(Worker)
        self.actors += [actor.remote() for _ in range(size - len(self.actors))]


def most_workers(stage: Stage, workers: int | None, resources: Mapping[str, float]) -> int:
    """The number of a stage's workers that the cluster has room for, at most `workers`.

    Raises ConfigError if it has no GPU for a stage that needs one: Ray would wait for ever.
    """
    most = min(workers or int(resources.get("CPU", 1)), stage.workers or sys.maxsize)
    if not stage.num_gpus:
        return most
    gpus = resources.get("GPU", 0)
    if gpus < stage.num_gpus:
        raise ConfigError(
            f"stage {stage.name} wants {stage.num_gpus:g} GPU per worker and this Ray cluster has {gpus:g}; "
            f"join one that has (RAY_ADDRESS), or say --set {stage.setting('device')}=cpu"
        )
    # Whole workers per GPU: Ray does not spread one over two.
    return min(most, int(gpus) * int(1 / stage.num_gpus + 1e-9))


def _follow(call: Any, counter: Any, progress: "StageProgress") -> None:
    waiting = [call]
    while waiting:
        _, waiting = ray.wait(waiting, timeout=POLL_SECONDS)
        progress.add(*ray.get(counter.take.remote()))
    ray.get(call)


def is_lost(error: object) -> bool:
    """Whether Ray or one of its workers failed, not the work itself."""
    return isinstance(error, RayError)


class Counter:
    """A Ray actor that adds up the rows and tokens of the workers, so that the driver can show them."""

    def __init__(self) -> None:
        self.rows = self.tokens = 0

    def add(self, rows: int, tokens: int) -> None:
        self.rows += rows
        self.tokens += tokens

    def take(self) -> tuple[int, int]:
        taken = self.rows, self.tokens
        self.rows = self.tokens = 0
        return taken


class Worker:
    """A Ray actor that executes shards. Every call brings the stage's small description, so that an actor that was
    killed and started again has all it needs; the stage loads its model once."""

    def __init__(self) -> None:
        self.opened: Stage | None = None

    def prepare(self, stage: Stage, run_id: str, counter: Any) -> None:
        stage.run_preparation(run_id, _tell(counter))

    def do(self, stage: Stage, run_id: str, counter: Any, shard: int) -> None:
        if self.opened is None or self.opened.artifact != stage.artifact:
            stage.open()
            self.opened = stage
        self.opened.run_shard(shard, run_id, _tell(counter))


def _tell(counter: Any) -> Progress:
    def progress(rows: int, tokens: int) -> None:
        counter.add.remote(rows, tokens)

    return progress
