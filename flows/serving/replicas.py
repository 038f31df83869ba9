"""Replicas on the nodes of a Ray cluster, for more questions than one process can answer.

The application stays in the process of the command, so its addresses, keys, limits and figures are the same. Ray Serve
starts the replicas, spreads requests over them, and replaces those that are lost. A replica is an `Answering` with the
line and the thread that a server of one process has. It answers a question before it gets a request, follows the
index's name by itself, and removes its deployment when the server is gone.

A request is computed again only if its replica was lost: if its process or node ended before the answer was here.
"""

import asyncio
import logging
import math
import os
import pickle
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from threading import Lock, Thread
from typing import Any

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import Execution
from vitalfew.flows import ray_pool
from vitalfew.flows.pipelines.answering import Answering, Configured
from vitalfew.flows.serving.batching import Bounds, Closed, Full, Lost
from vitalfew.flows.serving.configurations import Served
from vitalfew.flows.serving.errors import DAMAGED, place
from vitalfew.storage import generations
from vitalfew.storage.runs import IndexNotFound
from vitalfew.tasks.models.batches import THREADS

# isort: split
# The pool, above, sets what Ray reads when it is imported.
import ray
from ray import serve
from ray.exceptions import ActorDiedError, RayError, RayTaskError
from ray.serve._private import replica as ray_serve_replica
from ray.serve.exceptions import RayServeException

logger = logging.getLogger("vitalfew")

FOLLOW = 3.0
"""Seconds between two looks of a replica at the index's name, and at the server that started it."""
FAILED = "DEPLOY_FAILED"
"""Ray Serve's status of an application if none of its replicas could be started."""


@dataclass(frozen=True)
class Replicas:
    """The number of replicas of a configuration: from `least` to `most`, as the load needs them."""

    least: int = 1
    most: int = 1

    @classmethod
    def parse(cls, text: str) -> "Replicas":
        """Read `N` or `MIN-MAX`. Raises ConfigError."""
        found = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", text)
        least, most = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= least <= most:
            raise ConfigError(f"--replicas must be a number such as 2, or a range such as 2-8, got {text!r}")
        return cls(least, most)


@dataclass(frozen=True)
class ReplicaResult:
    """The result of a request, or its error: as a value, because Ray would write an error's text, which may quote a
    question, into its logs."""

    result: Any = None
    error: Exception | None = None


@dataclass(frozen=True)
class ReplicaPlan:
    """All that a replica needs. `secrets`: see `Job` of the pool; `application`: its name for Ray Serve;
    `presence`: the actor that lives as long as the server; `budget`: grants what requests to servers
    cost, if that is capped."""

    name: str
    store: Path
    chosen: Configured
    bounds: Bounds
    secrets: Mapping[str, str] = field(repr=False)
    application: str
    presence: Any
    budget: ray_pool.RayBudget | None = None


class Replica:
    """A configuration on a node of the cluster. Ray Serve makes it, and calls `compute` from an event loop."""

    def __init__(self, plan: ReplicaPlan) -> None:
        """Return when a question was answered. Raises ConfigError for what this node lacks, and the errors of
        `Answering`."""
        os.environ[THREADS] = "1"  # the replicas are the parallelism
        ray_pool.take_over(plan.secrets)
        node = ray.util.get_node_ip_address()
        _listen_at(node)
        self.plan = plan
        self.served = Served(plan.name, Answering(plan.store, _up_to_date(plan, node), plan.budget), plan.bounds)
        self.served.line.start()
        self.served.warm().result()
        Thread(target=self._watch, name="watch", daemon=True).start()

    async def compute(self, task: str, item: Any, size: int) -> ReplicaResult:
        """Compute a request together with those that wait here. One that is cancelled leaves the line."""
        try:
            return ReplicaResult(await asyncio.wrap_future(self.served.line.submit(task, item, size)))
        except Exception as error:
            return ReplicaResult(error=portable(error))

    def _watch(self) -> None:
        """Follow the index's name. End when the server is gone."""
        while not self._is_left():
            time.sleep(FOLLOW)
            try:
                self.served.follow()
            except Exception as error:
                # What is served goes on; the name may be half-written, or its artifacts be damaged.
                logger.warning("%s: the index cannot be followed: %s", self.plan.name, place(error))
        serve.delete(self.plan.application, _blocking=False)

    def _is_left(self) -> bool:
        try:
            ray.get(self.plan.presence.ping.remote(), timeout=FOLLOW)
        except ActorDiedError:
            return True
        except Exception as error:  # it is moved to another node, or the cluster has no answer now
            logger.info("%s: the server does not answer: %s", self.plan.name, type(error).__name__)
        return False


def _listen_at(address: str) -> None:
    """Have the server that Ray Serve starts in this process, for other deployments, listen at the node's address alone.

    Ray Serve 2.60 has it listen at every address of the machine, also on a Ray of one machine, which is to be private.
    """
    listen = ray_serve_replica.add_port_to_grpc_server
    host = f"[{address}]" if ":" in address else address
    ray_serve_replica.add_port_to_grpc_server = lambda server, place: listen(server, place.replace("[::]", host))


def _up_to_date(plan: ReplicaPlan, node: str) -> Configured:
    """The configuration with the artifacts that its index's name points at now: a replica may start long after the
    server. Raises ConfigError on a node that has another store."""
    if plan.chosen.index is None:
        return plan.chosen
    try:
        return replace(plan.chosen, index=generations.named(plan.store, plan.chosen.index.name))
    except IndexNotFound:
        raise ray_pool.missing_store(plan.store, node) from None


def portable(error: Exception) -> Exception:
    """The error with its place, if another process can make it from its pickle; else one that names its class."""
    vars(error)["place"] = where = place(error)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever the class of an error does with its arguments
        error = (RuntimeError if isinstance(error, DAMAGED) else Exception)(type(error).__name__)
        vars(error)["place"] = where
    return error


class ReplicasLine:
    """Requests that wait for a replica, and those that replicas compute. Ray Serve gives a replica no more than the
    requests of one batch at a time; the others wait here, and are free to go to any other."""

    def __init__(self, name: str, compute: Any, bounds: Bounds, note: Callable[[bool], None]) -> None:
        """`compute`: Ray Serve's handle of that method; `bounds.room`: requests at a time, with those that are being
        computed; `note` is called with true when a replica has answered, with false when there is none."""
        self.name, self.compute, self.bounds, self.note = name, compute, bounds, note
        self.again = 0
        self._asked: set[Future[Any]] = set()
        self._at_work: set[asyncio.Task[Any]] = set()  # of the loop
        self._failed = False
        self._lost: set[str] = set()
        self._seconds = 0.0  # of the last request, from its arrival
        self._closed = False
        self._lock = Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name=f"replicas of {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of requests that have no answer yet, with those that are being computed."""
        return len(self._asked)

    def submit(self, task: str, item: Any, size: int) -> "Future[Any]":
        """Ask a replica. Raises Full, Closed, Lost; the future has the error of the work itself, or Lost."""
        with self._lock:
            if self._closed:
                raise Closed
            if self._failed and task != "warm":
                raise self._no_replica()
            if len(self._asked) >= self.bounds.room:
                raise Full(len(self._asked), max(1, math.ceil(self._seconds)))
            future = asyncio.run_coroutine_threadsafe(self._computed(task, item, size), self._loop)
            self._asked.add(future)
        future.add_done_callback(self._asked.discard)
        return future

    def fail(self) -> None:
        """Refuse what waits, and everything until a replica was warmed: none could be started."""
        self._failed = True
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._at_work])

    def close(self, seconds: float | None = None) -> None:
        """Accept nothing more, and wait at most `seconds` for what was accepted."""
        with self._lock:
            self._closed = True
        wait([*self._asked], seconds)
        self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread.is_alive():
            self._thread.join(seconds)

    async def _computed(self, task: str, item: Any, size: int) -> Any:
        began = time.monotonic()
        if (own := asyncio.current_task()) is not None:
            self._at_work.add(own)
            own.add_done_callback(self._at_work.discard)
        try:
            outcome = await self._outcome(task, item, size)
        except Lost:
            self.note(False)
            raise
        self._seconds, self._failed = time.monotonic() - began, False
        self.note(True)
        if outcome.error:
            raise outcome.error
        return outcome.result

    async def _outcome(self, task: str, item: Any, size: int) -> ReplicaResult:
        """Ask until a replica has answered. Raises Lost if there is none, or if every one is lost that tries."""
        for attempt in range(1 + ray_pool.LOSSES):
            self.again += attempt > 0
            response = self.compute.remote(task, item, size)
            try:
                answer: ReplicaResult = await response
                return answer
            except asyncio.CancelledError:
                response.cancel()  # also where a replica has it in its line already
                if self._failed:
                    raise self._no_replica() from None
                raise
            except RayTaskError:
                raise
            except RayError as error:
                self._report(error)
            except RayServeException:
                raise self._no_replica() from None
        raise Lost(f"{attempt + 1} replicas of {self.name} were lost while they computed this request")

    def _no_replica(self) -> Lost:
        return Lost(f"no replica of {self.name} could be started; the server's output says why")

    def _report(self, error: RayError) -> None:
        """Warn once of a replica that is lost, not for every request of it."""
        actor = str(getattr(error, "actor_id", ""))
        if actor not in self._lost:
            self._lost.add(actor)
            logger.warning("%s: a replica was lost; what it was computing is computed again", self.name)


class Replicated(Served):
    """A configuration whose replicas compute. Its `Answering` loads no model: it says what is served, and reads
    passages."""

    def __init__(self, served: Served, replicas: Replicas, presence: Any) -> None:
        """Start the replicas, and return before they are there. As many requests as have room may wait while every
        replica computes a batch."""
        super().__init__(served.name, served.answering)
        self.line: ReplicasLine
        bounds, answering = Bounds(), self.answering
        self.application = f"vitalfew-{re.sub(r'[^A-Za-z0-9]+', '-', self.name)[-60:]}-{token_hex(4)}"
        self._options = options(answering, replicas, bounds)
        secrets = {name: text for stage in answering.stages for name, text in ray_pool.secrets_of(stage).items()}
        self._plan = ReplicaPlan(
            self.name, answering.store, answering.configured, bounds, secrets, self.application, presence,
            answering.budget if isinstance(answering.budget, ray_pool.RayBudget) else None,
        )  # fmt: skip
        room = bounds.room + replicas.most * bounds.requests
        self.line = ReplicasLine(self.name, self.deploy().compute, replace(bounds, room=room), self._note)

    def deploy(self) -> Any:
        """Have Ray Serve start the replicas, and return a handle of them before they are there."""
        application = serve.deployment(**self._options)(Replica).bind(self._plan)
        target = serve.RunTarget(application, self.application, route_prefix=None)
        (handle,) = serve.run_many([target], wait_for_applications_running=False)
        return handle

    def follow(self) -> bool:
        """Plan for the artifacts that the index's name points at now; true if they are others. Replicas follow by
        themselves. If none could be started, try again."""
        if not self.ready:
            self._retry()
        if (following := self.moved()) is None:
            return False
        self.answering = following
        return True

    def _retry(self) -> None:
        found = serve.status().applications.get(self.application)
        if found is not None and found.status == FAILED:
            said = " ".join(each.message for each in found.deployments.values()).strip()
            logger.warning("%s: no replica could be started: %s", self.name, said.splitlines()[-1] if said else "")
            self.line.fail()
            self.deploy()

    def _note(self, answered: bool) -> None:
        self.ready = answered


def options(answering: Answering, replicas: Replicas, bounds: Bounds) -> dict[str, Any]:
    """Ray Serve's options of a deployment. More replicas are started if the present ones have had more than half a
    batch to do for some seconds."""
    number: dict[str, Any] = {"num_replicas": replicas.least}
    if replicas.least < replicas.most:
        range_of = {"min_replicas": replicas.least, "max_replicas": replicas.most}
        when = {"target_ongoing_requests": bounds.requests / 2, "look_back_period_s": 10, "upscale_delay_s": 5}
        number = {"autoscaling_config": {**range_of, **when}}
    return {
        **number,
        "name": "Replica",
        "max_ongoing_requests": bounds.requests,
        "ray_actor_options": {"num_cpus": 1, "num_gpus": max(stage.num_gpus for stage in answering.stages)},
        "logging_config": {"enable_access_log": False},
    }


@contextmanager
def on_ray(served: Sequence[Served], replicas: Replicas) -> Iterator[list[Served]]:
    """The same configurations with replicas, on the cluster at RAY_ADDRESS or on a Ray of this machine. They are
    removed with the block; a named cluster keeps Ray Serve's controller, which takes no CPU.

    Raises ConfigError if this machine cannot join the cluster."""
    wanted = replicas.most * len(served)
    with ray_pool.ray_cluster(Execution(workers=max(wanted, os.cpu_count() or 1))):
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
        serve.start(proxy_location="Disabled")
        if (there := ray.cluster_resources().get("CPU", 0)) < replicas.least * len(served):
            logger.warning("the cluster has %g CPUs, and a replica needs one: some replicas wait for a node", there)
        presence = _presence()
        _share_cap(served)
        made: list[Replicated] = []
        try:
            for each in served:
                made.append(Replicated(each, replicas, presence))
            yield [*made]
        finally:
            for replicated in made:
                serve.delete(replicated.application)


def _share_cap(served: Sequence[Served]) -> None:
    """Let the replicas of all configurations pay from one cap, where there is one."""
    if budget := next((each.answering.budget for each in served), None):
        shared = ray_pool.shared_budget(budget.most)
        for each in served:
            each.answering.budget = shared


def _presence() -> Any:
    """A Ray actor that ends with this process, however that ends."""

    class Presence:  # travels whole: its process has no module of ours to import
        def ping(self) -> None: ...

    remote: Any = ray.remote
    return remote(num_cpus=0, max_restarts=-1)(Presence).remote()
