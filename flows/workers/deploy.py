"""Deployments for the workers of a Prefect work pool (`vitalfew deploy`): all flows, and all corpora with schedules.

A worker needs the installed package alone: an entrypoint names a module, the pull step sets the working directory, and
the job variables name the store. Deploying again changes only what differs. `prefect_yaml` has the deployments as a
file for repositories, from which `prefect deploy --all` registers them; source of its fields:
https://docs.prefect.io/v3/how-to-guides/deployments/prefect-yaml
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import yaml
from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate, DeploymentUpdate, WorkPoolCreate
from prefect.client.schemas.filters import FlowFilter, WorkPoolFilter
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.flows import Flow
from prefect.workers.process import ProcessWorker

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.paths import beside
from vitalfew.flows.deployments import SCHEDULED, flows, schedule_of
from vitalfew.flows.execute import retries_of_stages
from vitalfew.flows.forms import STORE
from vitalfew.flows.pipelines.named import read_corpora
from vitalfew.flows.server.access import BEATS
from vitalfew.flows.workers.holders import TAG, end_lost_runs, make_rule
from vitalfew.flows.workers.pull import packed, set_environment, write_files
from vitalfew.storage import files

OF_THE_CORPUS = "corpus"
"""The slug of the schedule that is in a corpus's file; others are made in Prefect's page, and left alone."""
SET_FOLDER = "prefect.deployments.steps.set_working_directory"
WRITE_FILES, SET_ENVIRONMENT = (f"{step.__module__}.{step.__name__}" for step in (write_files, set_environment))

State = Literal["new", "updated", "unchanged", "removed"]


@dataclass(frozen=True)
class Target:
    """Where deployments are registered, and what their runs get.

    `corpora`: the user's directory of corpora; `folder`: the working directory of the runs on the workers;
    `variables`: environment variables of the runs; `secrets`: environment variables, with the Prefect Secret blocks
    that hold their values; `at_once`: runs of a deployment that work at the same time.
    """

    pool: str
    store: Path
    corpora: Path | None = None
    folder: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    at_once: int = 2

    def job_variables(self) -> dict[str, Any]:
        """The environment that a run begins with."""
        own = {"PREFECT_LOGGING_EXTRA_LOGGERS": "vitalfew", **BEATS}
        return {"env": {**own, STORE: str(self.store), **self.variables}}

    def shared_folder(self) -> Path | None:
        """The working directory of the runs if the workers see it; None beside a bucket."""
        return self.folder or (None if files.is_in_bucket(self.store) else self.store.absolute().parent)

    def pull_steps(self) -> list[dict[str, Any]]:
        """How a run gets its secrets, and the user's files: from a folder that the worker sees, or, beside a bucket,
        from the deployment itself.

        The deployment has the names of secrets alone: a pull step fills in their values when the run begins. In job
        variables `prefect deploy` would fill them in, and everybody who sees the deployment would see them.
        """
        hidden = {name: f"{{{{ prefect.blocks.secret.{block} }}}}" for name, block in self.secrets.items()}
        steps: list[dict[str, Any]] = [{SET_ENVIRONMENT: {"variables": hidden}}] if hidden else []
        if folder := self.shared_folder():
            return [*steps, {SET_FOLDER: {"directory": str(folder)}}]
        places = {name: beside(self.store, name) for name in ("corpora", "experiments")}
        own = {"corpora": self.corpora} if self.corpora else {}
        return [*steps, {WRITE_FILES: {"packed": packed(places | own)}}]


@dataclass(frozen=True)
class Wanted:
    """A deployment as it shall be. `settings`: the fields of Prefect's deployment."""

    flow: str
    name: str
    settings: Mapping[str, Any]
    schedule: CronSchedule | None = None

    def __str__(self) -> str:
        return f"{self.flow}/{self.name}"


@dataclass(frozen=True)
class Change:
    """A change of a deployment. `settings`: the fields that differ, by Prefect's names."""

    name: str
    state: State
    settings: tuple[str, ...] = ()
    schedule: str = ""


def wanted(target: Target) -> list[Wanted]:
    """Every flow, and for every corpus whose file can be read a deployment of re-encoding. Raises ConfigError."""
    made = []
    for flow in flows():
        if flow.name != SCHEDULED:
            made.append(Wanted(flow.name, flow.name, _settings(target, flow)))
            continue
        for name, corpus in read_corpora(target.store, target.corpora)[0].items():
            own = {"corpora": str(target.corpora)} if target.corpora and target.shared_folder() else {}
            settings = _settings(target, flow, {"corpus": name, **own})
            made.append(Wanted(flow.name, name, settings, schedule_of(corpus)))
    return made


def _settings(target: Target, flow: Flow[..., Any], corpus: Mapping[str, Any] | None = None) -> dict[str, Any]:
    limit = 1 if corpus else target.at_once
    return {
        "version": version("vitalfew"),
        "description": "\n\n".join([str(flow.description).partition("\n\n")[0], _told(limit), _retries(flow)]),
        "tags": [TAG, *([f"corpus:{corpus['corpus']}"] if corpus else [])],
        "parameters": {"parameters": {**corpus}} if corpus else {},
        "parameter_openapi_schema": flow.parameters.model_dump(exclude_unset=True),
        "enforce_parameter_schema": True,
        "entrypoint": f"{flow.__module__}.{flow.fn.__name__}",
        "pull_steps": target.pull_steps(),
        "work_pool_name": target.pool,
        "job_variables": target.job_variables(),
        # A further run waits, and none is dropped: the next run of a corpus makes up for it (`holders.take_over`).
        "concurrency_limit": limit,
        "concurrency_options": ConcurrencyOptions(collision_strategy=ConcurrencyLimitStrategy.ENQUEUE),
    }


def _told(limit: int) -> str:
    return f"At most {limit} run{'s work' if limit > 1 else ' works'} at a time; others wait."


def _retries(flow: Flow[..., Any]) -> str:
    delay = f"{flow.retry_delay_seconds} s" if flow.retries else ""
    whole = f"A failed run is retried, whatever the reason: {flow.retries} x, after {delay}. " if delay else ""
    return f"{whole}{retries_of_stages()}"


def deploy(target: Target, dry_run: bool = False, replace: bool = False) -> Iterator[Change]:
    """Register every deployment that is new or differs, and remove those of corpora that are gone. A corpus whose file
    cannot be read keeps its deployment as it is.

    `dry_run`: change nothing; `replace`: also take over the deployments of another store. Raises ConfigError.
    """
    with get_client(sync_client=True) as client:
        asked = wanted(target)
        there = {str(each): _read(client, each) for each in asked}
        _check(client, target, {name: found for name, found in there.items() if found}, replace)
        if not dry_run:
            _make_pool(client, target.pool)
            make_rule(client)
            end_lost_runs(client)
        for each in asked:
            yield _applied(client, each, there[str(each)], dry_run)
        known = {each.name for each in asked} | read_corpora(target.store, target.corpora)[1].keys()
        for gone in _gone(client, target.pool, known):
            if not dry_run:
                client.delete_deployment(gone.id)
            yield Change(f"{SCHEDULED}/{gone.name}", "removed")


def _read(client: SyncPrefectClient, each: Wanted) -> DeploymentResponse | None:
    try:
        return client.read_deployment_by_name(str(each))
    except ObjectNotFound:
        return None


def _check(client: SyncPrefectClient, target: Target, there: Mapping[str, DeploymentResponse], replace: bool) -> None:
    """Raises ConfigError for a secret that Prefect does not have, and for deployments of others."""
    for variable, block in target.secrets.items():
        try:
            client.read_block_document_by_name(block, "secret", include_secrets=False)
        except ObjectNotFound:
            raise ConfigError(
                f"--secret {variable}={block}: Prefect has no Secret block {block}; make one in its page (Blocks), or "
                f"name another"
            ) from None
    for name, found in there.items():
        if found.work_pool_name is None:
            raise ConfigError(
                f"{name} is served by a `vitalfew ui` and belongs to no work pool: set PREFECT_API_URL to another "
                f"server, or remove it (prefect deployment delete {name})"
            )
        other = found.job_variables.get("env", {}).get(STORE, str(target.store))
        if other != str(target.store) and not replace:
            raise ConfigError(
                f"{name} on this server is for the store {other}, not for {target.store}: give --store {other}, or "
                "--take-over to take over all deployments"
            )


def _make_pool(client: SyncPrefectClient, name: str) -> None:
    try:
        client.read_work_pool(name)
    except ObjectNotFound:
        template = ProcessWorker.get_default_base_job_template()
        client.create_work_pool(WorkPoolCreate(name=name, type=ProcessWorker.type, base_job_template=template))


def _applied(client: SyncPrefectClient, each: Wanted, there: DeploymentResponse | None, dry_run: bool) -> Change:
    schedule = f"{each.schedule.cron} {each.schedule.timezone}" if each.schedule else ""
    try:
        if there is None:
            if not dry_run:
                flow = client.create_flow_from_name(each.flow)
                client.create_deployment(flow, each.name, schedules=_scheduled(each), **each.settings)
            return Change(str(each), "new", schedule=schedule)
        differing = [name for name, value in each.settings.items() if _value(there, name) != value]
        if differing and not dry_run:
            client.update_deployment(there.id, DeploymentUpdate(**each.settings))
        differing += ["schedule"] if _reschedule(client, each, there, dry_run) else []
    except PrefectHTTPStatusError as error:
        told = f"{error.response.status_code} {error.response.text}"
        raise ConfigError(
            f"{each}: Prefect's server refused the deployment: {told}. "
            "Those before it in the list were deployed. Correct the cause, then run the command again"
        ) from None
    return Change(str(each), "updated" if differing else "unchanged", tuple(differing), schedule)


def _scheduled(each: Wanted) -> list[DeploymentScheduleCreate]:
    return [DeploymentScheduleCreate(schedule=each.schedule, slug=OF_THE_CORPUS)] if each.schedule else []


def _value(there: DeploymentResponse, name: str) -> Any:
    if name == "concurrency_limit":
        return there.global_concurrency_limit.limit if there.global_concurrency_limit else None
    return getattr(there, name)


def _reschedule(client: SyncPrefectClient, each: Wanted, there: DeploymentResponse, dry_run: bool) -> bool:
    """Replace the schedule of the corpus's file where that has changed: one that somebody has paused stays paused."""
    old = [schedule for schedule in there.schedules if schedule.slug == OF_THE_CORPUS]
    if [schedule.schedule for schedule in old] == ([each.schedule] if each.schedule else []):
        return False
    if not dry_run:
        for schedule in old:
            client.delete_deployment_schedule(there.id, schedule.id)
        if each.schedule:
            client.create_deployment_schedules(there.id, _scheduled(each))
    return True


def _gone(client: SyncPrefectClient, pool: str, kept: set[str]) -> list[DeploymentResponse]:
    """The pool's deployments of corpora that have no file any more."""
    found = client.read_deployments(
        flow_filter=FlowFilter.model_validate({"name": {"any_": [SCHEDULED]}}),
        work_pool_filter=WorkPoolFilter.model_validate({"name": {"any_": [pool]}}),
    )
    return [each for each in found if each.name not in kept and TAG in each.tags]


# As a file


SAME = ("description", "version", "tags", "parameters", "enforce_parameter_schema", "entrypoint")
"""The fields of a deployment that have the same names and values in the file."""


class _Dumper(yaml.SafeDumper):
    """Writes every deployment whole, without references to another one, and texts of several lines as such."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _Dumper.represent_str)


def prefect_yaml(target: Target) -> str:
    """Return the file's text. Raises ConfigError for folders that cannot be read."""
    made = {"name": TAG, "pull": target.pull_steps(), "deployments": [_deployment(each) for each in wanted(target)]}
    text = yaml.dump(made, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return (
        "# Written by `vitalfew deploy --print-yaml`. To register it:\n"
        f"#   prefect work-pool create {target.pool} --type process   # once\n"
        "#   prefect --no-prompt deploy --all\n"
        f"{text}"
    )


def _deployment(each: Wanted) -> dict[str, Any]:
    """Prefect reads the schema of the parameters from the flow itself."""
    settings = each.settings
    limit = {
        "limit": settings["concurrency_limit"],
        "collision_strategy": settings["concurrency_options"].collision_strategy.value,
    }
    pool = {"name": settings["work_pool_name"], "job_variables": settings["job_variables"]}
    when = each.schedule
    return {
        "name": each.name,
        **{field: settings[field] for field in SAME},
        "version_type": "prefect:simple",  # else Prefect adds the commit of the repository that has the file
        "concurrency_limit": limit,
        "work_pool": pool,
        "schedules": [{"cron": when.cron, "timezone": when.timezone, "slug": OF_THE_CORPUS}] if when else [],
    }
