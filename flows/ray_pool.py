"""A stage's shards on a pool of Ray actors, which load their model once and keep it.

Only this file and the replicas of a server (`serving/replicas.py`) use Ray.

A shard costs only one Ray call. The shard of a lost actor, of a killed process or a lost node, is done again by another
one. An actor imports this file, so the file imports no Prefect, which would delay the actor's start.

A node of a cluster shares nothing with the command that runs but the store. Variables and secrets travel with the work;
local files do not: sources are read where the command runs (`Stage.at_home`), and of a model's directory or
a file of rankings a node that lacks it says so.
"""

import logging
import os
import pickle
import shutil
import socket
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir, mkdtemp
from typing import TYPE_CHECKING, Any

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import Execution
from vitalfew.configs.section import Section
from vitalfew.flows.ending import end_workers, end_working_in
from vitalfew.flows.pipelines.paying import secrets
from vitalfew.storage import files
from vitalfew.storage.artifacts import PREPARATION, Artifact, Manifest
from vitalfew.storage.costs import working
from vitalfew.tasks.models.batches import THREADS
from vitalfew.tasks.models.causal.engines.budget import Budget, CapReached, budget_now, spending
from vitalfew.tasks.models.causal.engines.remote import Unanswered
from vitalfew.tasks.models.files import is_in_bucket
from vitalfew.tasks.stage import Stage

if TYPE_CHECKING:
    from vitalfew.flows.pipelines.run import StageProgress


PASSED = (
    "DO_NOT_TRACK",
    "HF_HUB_DISABLE_PROGRESS_BARS",
    "HF_HUB_OFFLINE",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TOKENIZERS_PARALLELISM",
    "TRANSFORMERS_VERBOSITY",
)
"""What workers of a named cluster get, with all VITALFEW_* that hold no secret: Ray shows and logs it. A local Ray's
workers inherit the whole environment."""
OWN = ("VITALFEW_CACHE", "VITALFEW_CACHE_GB", "VITALFEW_PRICES")
"""Variables that every machine has for itself."""
ON_EVERY_NODE = (
    "A file or model directory that a setting names must be on every node, at the same path. A model may also have a "
    "name that every node knows, or be in a bucket (s3://BUCKET/PLACE). Finished work is kept"
)
SECRET = ("KEY", "PASSWORD", "SECRET", "TOKEN", "WEBHOOK")
SERVERS = ("OPENAI_", "VITALFEW_API_KEYS")


def passed(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that the workers of a named cluster get."""
    return {
        name: value
        for name, value in environment.items()
        if name in PASSED
        or (name.startswith("VITALFEW_") and name not in OWN and not any(word in name for word in SECRET))
    }


def secrets_of(stage: Stage) -> dict[str, str]:
    """The secrets that the stage needs, as they are set here: those that its method reads, the addresses of their
    servers, and the credentials of the bucket of its store or model. They travel with every call, which Ray neither
    shows nor logs."""
    names = secrets(stage.config, stage.section) if isinstance(stage.config, Section) else {}
    own = {name: os.environ[name] for name in os.environ if name in names or (names and name.startswith(SERVERS))}
    if not (files.is_in_bucket(stage.store) or any(map(is_in_bucket, _texts(stage.config.model_dump())))):
        return own
    for name, value in os.environ.items():  # but for names of files, which are of this machine
        if name.startswith(files.variables_of_buckets()) and not (value.startswith("/") and files.exists(Path(value))):
            own[name] = value
    return own


def _texts(section: Any) -> Iterator[str]:
    """Every value of some settings."""
    if isinstance(section, Mapping):
        section = [*section.values()]
    if isinstance(section, list | tuple):
        yield from chain.from_iterable(map(_texts, section))
    else:
        yield str(section)


def take_over(given: Mapping[str, str]) -> None:
    """Set them in this process. A key does not go with the token of another one that this node has."""
    if "AWS_ACCESS_KEY_ID" in given:
        os.environ.pop("AWS_SESSION_TOKEN", None)
    os.environ.update(given)


def missing_store(store: Path, node: str) -> ConfigError:
    """For a node that does not find what the command has begun there."""
    if files.is_in_bucket(store):
        return ConfigError(
            f"the node {node} does not see this run in {store}: it uses a different server or account than this "
            "command. Set AWS_ENDPOINT_URL and the credentials in the environment of the command (AWS_*, GOOGLE_*, "
            "AZURE_*): the nodes get them from there. Do not use 127.0.0.1: it is a different server on every node"
        )
    return ConfigError(
        f"the node {node} has no store at {store}, or a different one. Share the store's directory among all nodes "
        "under the same path, or use a store in a bucket (--store s3://BUCKET/PREFIX)"
    )


def on_node(node: str, error: Exception) -> Exception:
    """An error that a user has to correct, with the node on which it came up, and what to do where it lacks a file."""
    told = str(error) if node in str(error) else f"on the node {node}: {error}"
    if isinstance(error, FileNotFoundError):
        told += f". {ON_EVERY_NODE}"
    try:
        same: Exception = pickle.loads(pickle.dumps(type(error)(told)))
    except Exception:  # its class wants more than a text: what it says is what counts
        return ConfigError(told)
    return same


def _named_cluster() -> str | None:
    address = os.environ.get("RAY_ADDRESS")
    return None if address == "local" else address or None


if "ray" not in sys.modules:  # it reads these when it is imported
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if not _named_cluster():
        # By this name Ray means: one machine alone. Else it replaces 127.0.0.1 by the machine's address in the network,
        # and all of its servers listen there.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")

import ray  # noqa: E402
from ray import cloudpickle  # noqa: E402
from ray.exceptions import RayError, RayTaskError  # noqa: E402
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

logger = logging.getLogger("vitalfew")

OBJECT_STORE_BYTES = 80 << 20  # only small records travel between workers
POLL_SECONDS = 0.3
BUDGET_SECONDS = 60.0
"""How long an answer of the actor that grants money is waited for."""
STARTS = 5
"""How often a local Ray is started at most: it waits 30 s for its own processes."""
LOSSES = 3
"""How often a shard may lose its actor before the run fails."""
PREFIX, PROCESS = "ray-", "process"
"""The start of a local Ray's folder, and the file in there with the name of the process that started it."""
LOST = object()
"""The result of a call to a lost actor."""


@contextmanager
def ray_cluster(execution: Execution) -> Iterator[None]:
    """The cluster at RAY_ADDRESS, or a local one that ends with the block. Raises ConfigError where this machine is no
    node of the cluster: Ray lets its nodes alone work with it."""
    if ray.is_initialized():
        yield
        return
    # In a separate thread, because in the main thread Ray replaces Prefect's handler of SIGTERM: a cancelled run would
    # count as crashed, and a cancellation during the start would be lost. The thread lives as long as the cluster,
    # because Linux kills Ray's processes when the thread that started them ends.
    address = _named_cluster()
    named = {"address": address, "runtime_env": {"env_vars": passed(os.environ)}}
    with nullcontext(named) if address else _local(execution) as settings, ThreadPoolExecutor(1) as starter:
        started = starter.submit(_start, settings)
        try:
            started.result()
            yield
        except Exception:
            raise
        except BaseException:  # somebody cancels
            end_workers()
            raise
        finally:
            wait([started])  # a cluster that is still starting cannot be shut down
            ray.shutdown()


def _start(settings: Mapping[str, Any]) -> None:
    for left in reversed(range(STARTS)):
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **settings)
            return
        except Exception as error:
            if isinstance(error, ConnectionError) and settings["address"] != "local":
                raise ConfigError(
                    f"cannot join the Ray cluster at {settings['address']} ({' '.join(str(error).split())[:200]}). The "
                    "machine where a command runs must be a node: run `ray start --address=HOST:PORT --num-cpus=0` "
                    "here first"
                ) from None
            if not left or "timed out during startup" not in str(error):  # which only one that starts here does
                raise
            logger.warning("Ray did not start in time, as this machine is busy. It is started again.")
            end_working_in(settings["_temp_dir"])


@contextmanager
def _local(execution: Execution) -> Iterator[dict[str, Any]]:
    """A Ray that nobody else can use or look into: on the loopback interface, with a token that is nowhere on the disk,
    and with its sockets and logs in a separate folder. After a failure or a kill this stays until the next start."""
    os.environ.setdefault("RAY_AUTH_TOKEN", token_hex(32))  # Ray reads it once per process
    _sweep()
    folder = mkdtemp(prefix=PREFIX)  # Ray opens the folders that it makes to everybody, so they are put into this one
    files.write_private(Path(folder, PROCESS), files.this_process())
    yield {
        "address": "local",  # also where a cluster runs on this machine already
        "num_cpus": execution.workers or os.cpu_count() or 1,
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",
        "_temp_dir": str(Path(folder, "r")),
        "object_store_memory": OBJECT_STORE_BYTES,
    }
    shutil.rmtree(folder, ignore_errors=True)


def _sweep() -> None:
    """Remove the folders of this user's processes that are known to have ended."""
    for left in Path(gettempdir()).glob(f"{PREFIX}*/{PROCESS}"):
        with suppress(OSError):  # another user's, or another process sweeps as well
            folder = left.parent
            if folder.lstat().st_uid == os.getuid() and files.has_ended(left.read_text(encoding="utf-8")):
                shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Job:
    """A stage as a worker gets it: its pickle and artifact, whose run it is, and the secrets that it needs."""

    pickled: bytes
    artifact: Artifact
    run_id: str
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, stage: Stage, run_id: str) -> "Job":
        return cls(cloudpickle.dumps(stage), stage.artifact, run_id, secrets_of(stage))


class RayBudget(Budget):
    """A budget that is counted in another process, by an actor. Where that is lost, nothing more is granted: nobody
    knows what was paid."""

    def __init__(self, actor: Any, most: float) -> None:
        super().__init__(most)
        self.actor = actor

    def __reduce__(self) -> Any:
        return RayBudget, (self.actor, self.most)

    def reserve(self, usd: float) -> bool:
        return bool(self._told(self.actor.reserve.remote(usd), False))

    def settle(self, reserved: float, paid: float) -> None:
        self._told(self.actor.settle.remote(reserved, paid), None)

    def paid(self) -> float:
        return float(self._told(self.actor.paid.remote(), self.most))

    def set(self, paid: float) -> None:
        self._told(self.actor.set.remote(paid), None)

    def spent(self) -> float:
        return float(self._told(self.actor.spent.remote(), self.most))

    @staticmethod
    def _told(call: Any, lost: Any) -> Any:
        try:
            return ray.get(call, timeout=BUDGET_SECONDS)
        except RayTaskError:
            raise
        except RayError:
            return lost


def shared_budget(most: float) -> RayBudget:
    """Start a budget of `most` USD for several processes: an actor on this machine, which lasts as long as this one."""
    remote: Any = ray.remote
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return RayBudget(remote(num_cpus=0, scheduling_strategy=here)(Budget).remote(most), most)


class Workers:
    """A pool of Ray actors that execute the shards of stages of one kind, one stage after another: a model that several
    stages use is loaded once. An actor has one shard at a time: no more are on their way than there are actors."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.num_gpus = 0.0
        self.counter: Any = None
        self.budget: RayBudget | None = None
        self.idle: list[Any] = []
        self.starting: dict[Any, Any] = {}
        """Actors that wait for room, by the call that returns when they have started."""
        self.nodes: dict[Any, str] = {}
        """The nodes of the actors that have started."""
        self.warnings: set[str] = set()
        """Warnings of actors so far: all actors may give the same one."""

    def run(self, stage: Stage, run_id: str, progress: "StageProgress") -> Manifest:
        """Execute a stage and return its manifest. Raises the errors of the actors; of a named cluster's, with the node
        for a user-correctable error. What the actors pay counts in this process's budget."""
        if manifest := stage.manifest():
            return manifest  # without an actor: a finished run has no cluster, and an actor would start one
        stage.artifact.begin(stage.description())  # by which a worker knows the store
        remote: Any = ray.remote
        self.counter = self.counter or remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Tally).remote()
        limit = max(1, most_workers(stage, self.limit, ray.cluster_resources()))
        if self.num_gpus != stage.num_gpus:  # one method of a flow may need a GPU, and another none
            self.num_gpus, self.idle, self.starting = stage.num_gpus, [], {}
        try:
            if stage.at_home and _named_cluster():
                with working(alone=True):  # this process has started Prefect's server, maybe, but nothing that prepares
                    stage.run_preparation(run_id, progress.add)
            else:
                with self._granting():
                    self._do(stage, run_id, [PREPARATION], 1, progress)
            progress.expect(stage.total_rows())
            with self._granting():
                self._do(stage, run_id, stage.pending(), limit, progress)
        except RayTaskError as error:
            raise (error.cause if isinstance(error.cause, Exception) else error) from None
        except SystemError as error:  # Ray wraps the exception of a signal handler within its calls like this
            raise (error.__cause__ or error) from None
        return stage.finish()

    @contextmanager
    def _granting(self) -> Iterator[None]:
        """Within the block the actors have `budget` to ask for money, if that is capped. Nobody else pays meanwhile."""
        budget = budget_now()
        if budget is None or isinstance(budget, RayBudget):
            self.budget = None
            yield
            return
        if self.budget is None or self.budget.most != budget.most:
            self.budget = shared_budget(budget.most)
        self.budget.set(budget.paid())
        try:
            yield
        finally:
            budget.set(self.budget.spent())

    def _do(self, stage: Stage, run_id: str, shards: Sequence[int], limit: int, progress: "StageProgress") -> None:
        """Do shards on at most `limit` actors. The others do the work of those that Ray finds no room for, as after the
        loss of a node. Raises Unanswered at the end, once all other shards are done, and CapReached once no actor is at
        work, so that the answers that they have paid for are kept."""
        waiting, busy, losses = deque(shards), dict[Any, tuple[Any, int]](), Counter[int | None]()
        job, unanswered, stopped = Job.of(stage, run_id), list[Unanswered](), list[CapReached]()
        while waiting or busy:
            self._hire(min(limit, len(waiting) + len(busy)) - len(busy))
            while waiting and self.idle and len(busy) < limit:
                actor, number = self.idle.pop(), waiting.popleft()
                busy[actor.do.remote(job, self.counter, number, self.budget)] = actor, number
            progress.at_work({node for actor, _ in busy.values() if "/" in (node := self.nodes[actor])})
            done, _ = ray.wait([*busy, *self.starting], timeout=POLL_SECONDS)
            for call in done:
                actor, shard = busy.pop(call, None) or (self.starting.pop(call), None)
                if (result := _returned(call, losses, shard)) is not LOST:
                    self.idle.append(actor)
                elif shard is not None:
                    waiting.appendleft(shard)
                if isinstance(result, str):  # it has started
                    self.nodes[actor] = result
                if isinstance(result, Unanswered):
                    unanswered.append(result)
                if isinstance(result, CapReached):
                    stopped.append(result)
            if stopped:
                waiting.clear()
            self._listen(progress)
        progress.at_work(())
        if stopped:
            raise stopped[-1]
        if unanswered:
            raise Unanswered.together(unanswered, stage.name)

    def _listen(self, progress: "StageProgress") -> None:
        """Take over what the actors have done, and what they warn of, which no terminal shows."""
        counted, warnings = ray.get(self.counter.take.remote())
        for node, (rows, tokens) in counted.items():
            progress.add(rows, tokens, node if "/" in node else "")
        for warning in dict.fromkeys(warnings):
            if warning not in self.warnings:
                logger.warning("%s", warning)
        self.warnings.update(warnings)

    def _hire(self, wanted: int) -> None:
        """Have `wanted` actors that are idle or starting."""
        remote: Any = ray.remote
        worker = remote(num_cpus=1, num_gpus=self.num_gpus)(Worker)
        for _ in range(wanted - len(self.idle) - len(self.starting)):
            actor = worker.remote(in_cluster=bool(_named_cluster()))
            self.starting[actor.ready.remote()] = actor


def _returned(call: Any, losses: Counter[int | None], shard: int | None) -> Any:
    """Return the result of a call; LOST if its actor was lost. Raises the error of the work itself, and of Ray where
    actors are lost again and again."""
    try:
        return ray.get(call)
    except RayTaskError:
        raise
    except RayError as error:
        losses[shard] += 1
        if losses[shard] > LOSSES:
            raise
        logger.warning("A worker was lost; its work is repeated: %s", str(error).partition("\n")[0])
        return LOST


def most_workers(stage: Stage, workers: int | None, resources: Mapping[str, float]) -> int:
    """The number of a stage's workers that the cluster has room for, at most `workers`.

    Raises ConfigError if it has no GPU for a stage that needs one: Ray would never start.
    """
    most = min(workers or int(resources.get("CPU", 1)), stage.workers or sys.maxsize)
    if not stage.num_gpus:
        return most
    gpus = resources.get("GPU", 0)
    if gpus < stage.num_gpus:
        raise ConfigError(
            f"stage {stage.name} needs {stage.num_gpus:g} GPU per worker, but this Ray cluster has {gpus:g}; "
            f"use a cluster with GPUs (RAY_ADDRESS), or --set {stage.setting('device')}=cpu"
        )
    # Whole workers per GPU: Ray does not spread one over two.
    return min(most, int(gpus) * int(1 / stage.num_gpus + 1e-9))


def is_lost(error: object) -> bool:
    """Return true if Ray or one of its workers failed, not the work itself."""
    return isinstance(error, RayError)


class Tally:
    """A Ray actor that adds up the rows and tokens of the workers by their nodes, and collects their warnings, so that
    the driver can show them. One that was lost with its node begins again at 0."""

    def __init__(self) -> None:
        self.counted: dict[str, tuple[int, int]] = {}
        self.warnings: list[str] = []

    def add(self, node: str, rows: int, tokens: int) -> None:
        before = self.counted.get(node, (0, 0))
        self.counted[node] = before[0] + rows, before[1] + tokens

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    def take(self) -> tuple[dict[str, tuple[int, int]], list[str]]:
        taken = self.counted, self.warnings
        self.counted, self.warnings = {}, []
        return taken


class Telling(logging.Handler):
    """While it is entered, the warnings of this process go to the driver as well."""

    def __init__(self, counter: Any) -> None:
        super().__init__(logging.WARNING)
        self.counter = counter

    def emit(self, record: logging.LogRecord) -> None:
        ray.get(self.counter.warn.remote(record.getMessage()))  # so that it is there before the shard is done

    def __enter__(self) -> None:
        logger.addHandler(self)

    def __exit__(self, *_: object) -> None:
        logger.removeHandler(self)


class Worker:
    """A Ray actor that executes shards. Every call brings the stage's small description, so that any actor has all it
    needs; the stage loads its model once."""

    def __init__(self, in_cluster: bool = False) -> None:
        """`in_cluster`: of several nodes, or one that may get others."""
        os.environ[THREADS] = "1"  # the workers are the parallelism
        self.pickled = b""
        self.opened = False
        host = socket.gethostname()
        self.node = f"{host}/{ray.get_runtime_context().get_node_id()[:6]}" if in_cluster else host
        self.in_cluster = in_cluster

    def ready(self) -> str:
        """The actor's node, once it has been started: HOST, or HOST/NODE in a cluster."""
        return self.node

    def do(
        self, job: "Job", counter: Any, shard: int, budget: RayBudget | None = None
    ) -> Unanswered | CapReached | None:
        """Do a shard, or what comes before the first; `budget` grants what it costs, if that is capped. Returns why it
        is not done where that may pass. Raises ConfigError where this node does not see the store, or lacks a file."""
        take_over(job.secrets)
        try:
            with working(self.node), Telling(counter), spending(budget):
                stage, progress = self._stage(job), partial(counter.add.remote, self.node)
                if shard == PREPARATION:
                    stage.run_preparation(job.run_id, progress)
                    return None
                if not self.opened:
                    stage.open()
                    self.opened = True
                stage.run_shard(shard, job.run_id, progress)
        except (Unanswered, CapReached) as error:
            return error
        except (OSError, ValueError) as error:
            if not self.in_cluster:
                raise
            raise on_node(self.node, error) from error
        return None

    def _stage(self, job: "Job") -> Stage:
        if job.pickled != self.pickled:
            node = f"{self.node} ({ray.util.get_node_ip_address()})"
            if job.artifact.description() is None:
                raise missing_store(job.artifact.store, node)
            # A stage constructs its method when it is unpickled, which may look for its key and its model.
            self.stage: Stage = cloudpickle.loads(job.pickled)
            self.pickled, self.opened = job.pickled, False
        return self.stage
