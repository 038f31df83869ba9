"""The process of the runner that serves the deployments to Prefect's server (`vitalfew ui`).

    python -m vitalfew.flows.deployments STORE READY [CORPORA]

It ends with the process that started it. All settings are environment variables of Prefect's
(`flows/server/service.py`).
"""

import asyncio
import logging
import sys
import time
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self, cast
from uuid import UUID

from httpx import HTTPError
from prefect import get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter
from prefect.client.schemas.objects import DeploymentSchedule, StateType
from prefect.client.schemas.schedules import CronSchedule
from prefect.deployments.runner import RunnerDeployment
from prefect.flows import Flow
from prefect.runner import Runner
from prefect.types.entrypoint import EntrypointType

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.paths import store_place
from vitalfew.configs.schema import Corpus
from vitalfew.flows.pipelines.named import read_corpora
from vitalfew.flows.server.access import PATIENCE
from vitalfew.flows.server.api import end_with_parent
from vitalfew.flows.workers.holders import TAG, end

logger = logging.getLogger("vitalfew")

AT_ONCE = 2
"""Runs that work at the same time; others wait. A run takes the whole machine unless its `workers` say otherwise.

The runner keeps to it. Deployments for workers have limits of Prefect's instead, whose places are leases: a run that
cannot renew its lease is ended (flows/workers/deploy.py)."""
FLOWS = (
    "vitalfew.flows.evaluate:evaluate",
    "vitalfew.flows.evaluate:write_questions",
    "vitalfew.flows.index_corpus:index_corpus",
    "vitalfew.flows.re_encode:re_encode",
    "vitalfew.flows.train:train",
)
"""The flows of the deployments, in the order of the UI: flows whose one parameter, `parameters`, is a `Place`."""
SCHEDULED = "re-encode"
"""The deployment that has the schedules of the corpora."""
LOOK_EVERY = 15.0
"""Seconds between two looks at the files of the corpora: a `cron` counts within a minute."""


class OrderlyRunner(Runner):
    """Ends as it is meant to: the handler of Prefect 3.7.7 makes a coroutine that nobody awaits, and cancels no run.

    Writes the file `ready` when runs can be started, and be cancelled.
    """

    def __init__(self, ready: Path, **settings: Any) -> None:
        super().__init__(**settings)
        self.ready = ready

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.ready.touch()
        return self

    def handle_sigterm(self, *args: Any, **kwargs: Any) -> None:
        """Cancel the runs that work, and end."""
        if self.started:
            loop = asyncio.get_running_loop()
            loop.call_soon_threadsafe(lambda: loop.create_task(self.astop()))
        elif not self.stopping:  # it does not serve yet
            sys.exit(0)


def serve_deployments(store: Path, ready: Path, own: Path | None) -> None:
    """Serve every flow until SIGTERM, which cancels the runs that work. `ready` is written when all can be started."""
    served = deployments(store, own)
    with get_client(sync_client=True) as client:
        _await(client)
    # What is missed while nothing serves is not made up for: a schedule is paused until this serves again.
    runner = OrderlyRunner(ready, name=TAG, limit=AT_ONCE, pause_on_shutdown=True)
    identifiers = [cast(UUID, runner.add_deployment(deployment)) for deployment in served]
    _settle_lost_runs(identifiers)
    scheduled = next(each for each in served if each.flow_name == SCHEDULED)
    followed = FollowedSchedules(store, own, identifiers[served.index(scheduled)])
    asyncio.run(_serve(runner, followed))


def flows() -> Iterator[Flow[..., Any]]:
    """The flows of all deployments."""
    for entrypoint in FLOWS:
        module, _, name = entrypoint.partition(":")
        yield getattr(import_module(module), name)


def deployments(store: Path, own: Path | None = None) -> list[RunnerDeployment]:
    """The deployments of all flows for this store, with the schedules of the corpora, except those whose files or
    schedules cannot be read. Raises ConfigError."""
    served = []
    for flow in flows():
        has_schedules = flow.name == SCHEDULED
        deployment = flow.to_deployment(
            flow.name,
            parameters={"parameters": _place(store, own) if has_schedules else {"store": str(store)}},
            schedules=schedules(store, own) if has_schedules else None,
            tags=[TAG],
            version=version("vitalfew"),
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        served.append(cast(RunnerDeployment, deployment))  # not awaitable: no event loop runs here
    return served


async def _serve(runner: Runner, followed: "FollowedSchedules") -> None:
    following = asyncio.create_task(followed.follow())
    try:
        await runner.start()
    finally:
        following.cancel()


def _place(store: Path, own: Path | None) -> dict[str, Any]:
    return {"store": str(store)} | ({"corpora": str(own)} if own else {})


def schedules(store: Path, own: Path | None = None) -> list[DeploymentScheduleCreate]:
    """The schedules of re-encoding in the files of the corpora. Raises ConfigError where their directory is gone."""
    made = []
    for name, corpus in read_corpora(store, own)[0].items():
        if schedule := schedule_of(corpus):
            given = {"parameters": {**_place(store, own), "corpus": name}}
            made.append(DeploymentScheduleCreate(schedule=schedule, parameters=given))
    return made


def schedule_of(corpus: Corpus) -> CronSchedule | None:
    """When a corpus is re-encoded; None without a `cron`, and with a warning for one that Prefect cannot read."""
    if not corpus.cron:
        return None
    try:
        return CronSchedule(cron=corpus.cron, timezone=corpus.timezone)
    except ValueError as error:
        _warn_once(f"the corpus {corpus.name} is not scheduled: cron {corpus.cron!r}: {error}")
        return None


@cache
def _warn_once(message: str) -> None:
    logger.warning("%s", message)


class FollowedSchedules:
    """The schedules of a deployment, which follow the files of the corpora while this process serves it.

    Only a schedule whose file has changed is replaced, by itself: what people schedule or pause in the UI stays so, and
    the runs that other schedules have planned stay planned.
    """

    def __init__(self, store: Path, own: Path | None, deployment: UUID) -> None:
        self.store, self.own, self.deployment = store, own, deployment
        self.asked = schedules(store, own)

    async def follow(self) -> None:
        """Look at the files until this is cancelled."""
        is_new = True  # Prefect keeps the schedules of an earlier start if this one has none
        while True:
            try:
                asked = await asyncio.to_thread(schedules, self.store, self.own)
                if is_new or asked != self.asked:
                    await self.update(asked)
                    is_new = False
            except (ConfigError, OSError, HTTPError) as error:
                logger.warning("The schedules of the corpora could not be updated: %s", error)
            await asyncio.sleep(LOOK_EVERY)

    async def update(self, asked: list[DeploymentScheduleCreate]) -> None:
        """Remove the schedules of files that have changed or gone, and add those that are new. Raises HTTPError."""
        kept = [each.parameters for each in asked if each in self.asked]
        async with get_client() as client:
            for there in await client.read_deployment_schedules(self.deployment):
                if _is_of_a_corpus(there) and there.parameters not in kept:
                    await client.delete_deployment_schedule(self.deployment, there.id)
            if new := [each for each in asked if each.parameters not in kept]:
                await client.create_deployment_schedules(self.deployment, new)
        self.asked = asked


def _is_of_a_corpus(schedule: DeploymentSchedule) -> bool:
    """Return true for a schedule of this module: a form of the UI sends more."""
    given = schedule.parameters.get("parameters")
    return isinstance(given, dict) and "corpus" in given and given.keys() <= {"store", "corpora", "corpus"}


def _settle_lost_runs(identifiers: list[Any]) -> None:
    """Runs that were left as running by a server or machine that went away: no process works on them any more."""
    working = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]
    lost = FlowRunFilter.model_validate({"state": {"type": {"any_": working}}})
    mine = DeploymentFilter.model_validate({"id": {"any_": identifiers}})
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(flow_run_filter=lost, deployment_filter=mine):
            end(client, run, "`vitalfew ui` ended during this run. Start the run again: finished shards are kept.")


def _await(client: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while (error := client.api_healthcheck()) is not None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"Prefect's server does not answer: {error}. Stop `vitalfew ui` and start it again")
        time.sleep(0.2)


if __name__ == "__main__":
    end_with_parent()
    place, *others = sys.argv[1:]
    ready, *own = map(Path, others)
    serve_deployments(store_place(place), ready, own[0] if own else None)
