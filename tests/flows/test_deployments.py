"""Deployments: those of `vitalfew ui`, whose schedules follow the corpora, and of workers."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect import get_client
from prefect.blocks.system import Secret
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.deployments.steps.core import run_step
from prefect.events import AutomationCore
from prefect.states import Pending, Running
from prefect.testing.utilities import prefect_test_harness
from typer.testing import CliRunner

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.paths import store_place
from vitalfew.flows.cli.main import app
from vitalfew.flows.cli.operate import operations
from vitalfew.flows.deployments import FollowedSchedules, flows, schedules
from vitalfew.flows.forms import EvaluateForm
from vitalfew.flows.workers.deploy import Target, deploy
from vitalfew.flows.workers.holders import hold, rule, take_over
from vitalfew.flows.workers.pull import write_files
from vitalfew.storage import files
from vitalfew.storage.runs import read_runs, recorded_run

pytestmark = pytest.mark.slow  # a real server of Prefect
ROOT = Path(__file__).parents[2]
FLOWS = ["evaluate/evaluate", "index-corpus/index-corpus", "train/train", "write-questions/write-questions"]


@pytest.fixture(scope="module")
def client() -> Iterator[SyncPrefectClient]:
    with prefect_test_harness(server_startup_timeout=900), get_client(sync_client=True) as client:
        yield client


def test_schedules_follow_the_files_of_the_corpora(client: SyncPrefectClient, tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "corpora"
    folder.mkdir()

    def write(name: str, *lines: str) -> None:
        (folder / f"{name}.yaml").write_text("\n".join(["datasets: [synthetic]", *lines]))

    def look() -> dict[str, tuple[str, bool]]:
        asyncio.run(followed.update(schedules(store)))
        there = client.read_deployment_by_name("re-encode/re-encode").schedules
        return {each.parameters["parameters"]["corpus"]: (each.schedule.cron, each.active) for each in there}  # type: ignore[union-attr]

    write("one", "cron: '0 1 * * *'")
    earlier = {"parameters": {"store": str(store), "corpus": "gone"}}
    own = {"parameters": {"store": str(store), "corpus": "by hand", "quote": False}}
    there = [
        DeploymentScheduleCreate(schedule=CronSchedule(cron="0 5 * * *"), parameters=each) for each in (earlier, own)
    ]
    flow = client.create_flow_from_name("re-encode")
    identifier = client.create_deployment(flow, "re-encode", schedules=[*there, *schedules(store)])
    followed = FollowedSchedules(store, None, identifier)
    by_hand = {"by hand": ("0 5 * * *", True)}
    assert look() == by_hand | {"one": ("0 1 * * *", True)}
    write("two", "cron: '0 2 * * *'")
    write("never", "cron: 'at noon'")
    assert look() == by_hand | {"one": ("0 1 * * *", True), "two": ("0 2 * * *", True)}
    told = {check.what: check for check in operations(store)}
    assert ("'at noon'" in told["corpus never"].found, told["corpus never"].fine) == (True, False)
    write("two", "cron: '0 3 * * *'")
    (folder / "one.yaml").unlink()
    assert look() == by_hand | {"two": ("0 3 * * *", True)}


# Of workers: `vitalfew deploy`


@pytest.fixture
def target(client: SyncPrefectClient, tmp_path: Path) -> Target:
    """A project with a corpus that is scheduled, and a server without deployments."""
    for each in client.read_deployments():
        client.delete_deployment(each.id)
    write(tmp_path, "notes", "cron: '0 3 * * *'", "timezone: Europe/Berlin")
    return Target("pool", tmp_path / "store")


def write(project: Path, name: str, *lines: str) -> Path:
    path = project / "corpora" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["datasets: [synthetic]", *lines]))
    return path


def changed(target: Target, **options: Any) -> dict[str, tuple[str, ...]]:
    """The deployments that deploying makes, updates or removes, with what differs."""
    changes = [change for change in deploy(target, **options) if change.state != "unchanged"]
    return {change.name: (change.state, *change.settings) for change in changes}


def there(client: SyncPrefectClient) -> dict[str, DeploymentResponse]:
    return {each.name: each for each in client.read_deployments()}


def test_deploying_again_changes_what_differs_and_nothing_else(client: SyncPrefectClient, target: Target) -> None:
    every = dict.fromkeys([*FLOWS, "re-encode/demo", "re-encode/notes"], ("new",))
    assert changed(target, dry_run=True) == every
    assert there(client) == {}
    assert changed(target) == every
    first = there(client)
    assert changed(target) == {}
    assert there(client) == first
    notes = write(target.store.parent, "notes", "cron: '0 4 * * *'")
    write(target.store.parent, "second")
    assert changed(target) == {"re-encode/notes": ("updated", "schedule"), "re-encode/second": ("new",)}
    (schedule,) = there(client)["notes"].schedules
    assert schedule.schedule == CronSchedule(cron="0 4 * * *", timezone="UTC")
    notes.unlink()
    assert changed(target) == {"re-encode/notes": ("removed",)}


def test_what_people_schedule_and_pause_in_the_page_stays(client: SyncPrefectClient, target: Target) -> None:
    changed(target)
    deployments = there(client)
    (nightly,) = deployments["notes"].schedules
    client.update_deployment_schedule(deployments["notes"].id, nightly.id, active=False)
    own = DeploymentScheduleCreate(
        schedule=CronSchedule(cron="0 5 * * 0"), parameters={"parameters": {"index": "wiki"}}
    )
    client.create_deployment_schedules(deployments["evaluate"].id, [own])
    assert changed(Target(target.pool, target.store, at_once=3)) == dict.fromkeys(
        FLOWS, ("updated", "description", "concurrency_limit")
    )
    (kept,) = there(client)["evaluate"].schedules
    assert (kept.schedule, kept.parameters) == (own.schedule, own.parameters)
    assert not there(client)["notes"].schedules[0].active


def test_a_deployment_says_what_operators_ask_for(
    client: SyncPrefectClient, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    Secret(value="hidden-value").save("aws-key", overwrite=True)
    secrets, variables = {"AWS_SECRET_ACCESS_KEY": "aws-key"}, {"AWS_REGION": "eu-central-1"}
    changed(Target(target.pool, target.store, variables=variables, secrets=secrets))
    evaluate, notes = (there(client)[name] for name in ("evaluate", "notes"))
    assert (notes.tags, notes.parameters) == (["vitalfew", "corpus:notes"], {"parameters": {"corpus": "notes"}})
    for each, limit in ((notes, 1), (evaluate, 2)):
        assert each.global_concurrency_limit
        assert each.global_concurrency_limit.limit == limit
        assert each.concurrency_options
        assert each.concurrency_options.collision_strategy == ConcurrencyLimitStrategy.ENQUEUE
    assert evaluate.job_variables["env"] == {
        "PREFECT_LOGGING_EXTRA_LOGGERS": "vitalfew",
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
        "VITALFEW_STORE": str(target.store),
        "AWS_REGION": "eu-central-1",
    }
    assert "hidden-value" not in evaluate.model_dump_json()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the worker")
    asyncio.run(run_step((evaluate.pull_steps or [])[0]))
    assert os.environ["AWS_SECRET_ACCESS_KEY"] == "hidden-value"


SECRET = ["--secret", "AWS_SECRET_ACCESS_KEY=aws-key"]


def printed(store: Path, *options: str) -> str:
    """The file that `vitalfew deploy` prints for the pool `vitalfew`."""
    return CliRunner().invoke(app, ["deploy", "--print-yaml", "--store", str(store), *options]).stdout


def test_prefect_deploy_registers_the_same(client: SyncPrefectClient, target: Target) -> None:
    Secret(value="hidden-value").save("aws-key", overwrite=True)
    changed(replace(target, pool="vitalfew", secrets={"AWS_SECRET_ACCESS_KEY": "aws-key"}))
    ours = {name: _comparable(each) for name, each in there(client).items()}
    for each in client.read_deployments():
        client.delete_deployment(each.id)
    project = target.store.parent
    (project / "prefect.yaml").write_text(printed(target.store, *SECRET))
    subprocess.run(
        [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"],
        cwd=project,
        env={**os.environ, "PREFECT_API_URL": str(client.api_url)},
        check=True,
    )
    theirs = {name: _comparable(each) for name, each in there(client).items()}
    assert theirs == ours
    assert "hidden-value" not in json.dumps(theirs)


def _comparable(deployment: DeploymentResponse) -> dict[str, Any]:
    """All fields but those that every registration makes anew."""
    own = {"id", "created", "updated", "deployment_id", "global_concurrency_limit", "version_id"}
    fields = deployment.model_dump(mode="json", exclude=own)
    assert deployment.global_concurrency_limit
    fields["schedules"] = [{name: each[name] for name in each.keys() - own} for each in fields["schedules"]]
    return fields | {"limit": deployment.global_concurrency_limit.limit}


def test_the_file_of_a_clone_has_what_is_printed(tmp_path: Path) -> None:
    """Except for the corpus `demo`, and for what Prefect takes from the flows and from Git."""
    write(tmp_path, "notes", "cron: '0 3 * * *'", "timezone: Europe/Berlin")
    whole = yaml.safe_load(printed(tmp_path / "store"))
    for each in whole["deployments"]:
        for field in ("description", "version", "version_type", "enforce_parameter_schema"):
            del each[field]
    example = re.sub("^  # ", "  ", (ROOT / "prefect.yaml").read_text(), flags=re.MULTILINE)
    clone = yaml.safe_load(example.replace("{{ $PWD }}", str(tmp_path)))
    assert clone["pull"] == whole["pull"]
    optional: dict[str, Any] = {"parameters": {}, "schedules": []}
    found = {each["name"]: optional | each for each in clone["deployments"]}
    assert found == {each["name"]: each for each in whole["deployments"] if each["name"] != "demo"}


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY=plain", "REGION={{ prefect.blocks.secret.aws-key }}"])
def test_no_value_of_a_secret_gets_into_a_deployment(variable: str) -> None:
    refused = CliRunner().invoke(app, ["deploy", "--print-yaml", "--env", variable])
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "everybody who sees the deployment would see the value" in refused.stderr


def test_what_belongs_to_others_is_refused(client: SyncPrefectClient, target: Target, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Prefect has no Secret block nowhere"):
        changed(Target(target.pool, target.store, secrets={"OPENAI_API_KEY": "nowhere"}))
    changed(target)
    other = Target(target.pool, tmp_path / "other")
    with pytest.raises(ConfigError, match=f"is for the store {target.store}, not for {other.store}"):
        changed(other)
    assert changed(other, replace=True)["evaluate/evaluate"] == ("updated", "job_variables")
    client.delete_deployment(there(client)["train"].id)
    client.create_deployment(client.create_flow_from_name("train"), "train", tags=["vitalfew"])
    with pytest.raises(ConfigError, match="train/train is served by a `vitalfew ui`"):
        changed(other)


# Runs whose process is gone

ELSEWHERE = "0123456789ab-1-1"
"""A process that cannot be seen from here."""


def started(client: SyncPrefectClient, name: str, **labels: Any) -> FlowRun:
    """A run of the corpus `notes` that Prefect takes for working, with the labels of its holder."""
    run = client.create_flow_run_from_deployment(there(client)["notes"].id, name=name)
    client.set_flow_run_state(run.id, Pending())
    client.set_flow_run_state(run.id, Running())
    if labels:
        client.update_flow_run_labels(run.id, {f"vitalfew.{label}": value for label, value in labels.items()})
    return client.read_flow_run(run.id)


@pytest.mark.parametrize(
    ("process", "heartbeat", "is_lost"),
    [
        (f"{files.this_process()}1", 30, True),
        (files.this_process(), 0.001, False),
        (ELSEWHERE, 0.001, True),
        (ELSEWHERE, 30, False),
        (ELSEWHERE, 0, False),
    ],
    ids=["ended", "works", "silent elsewhere", "elsewhere", "sends no heartbeats"],
)
def test_the_next_run_ends_the_one_that_nobody_holds(
    client: SyncPrefectClient,
    target: Target,
    monkeypatch: pytest.MonkeyPatch,
    process: str,
    heartbeat: float,
    is_lost: bool,
) -> None:
    monkeypatch.setenv("VITALFEW_STORE", str(target.store))
    monkeypatch.setenv("PREFECT_API_URL", str(client.api_url))  # for `vitalfew doctor`
    changed(target)
    with recorded_run(target.store, "index_corpus", "notes", {}, []) as record:
        record.process = process
        files.write_json(target.store / "runs" / f"{record.run_id}.json", asdict(record))
        run = started(client, "of the night", process=process, heartbeat=heartbeat)
        told = [check.found.partition(":")[0] for check in operations(target.store) if check.what == "lost runs"]
        assert told == ["of the night"] * is_lost
        waiting = client.create_flow_run_from_deployment(there(client)["notes"].id)
        client.set_flow_run_state(waiting.id, Pending())  # the place is taken
        other = client.create_flow_run(next(flows()), name="the next run")
        hold(None, other, None)
        state = client.read_flow_run(run.id).state
        assert state
        assert (state.type, "without a message" in (state.message or "")) == (
            "CRASHED" if is_lost else "RUNNING",
            is_lost,
        )
        client.set_flow_run_state(waiting.id, Pending())
        assert client.read_flow_run(waiting.id).state_name == ("Pending" if is_lost else "AwaitingConcurrencySlot")
        assert [each.state for each in read_runs(target.store)] == ["interrupted" if is_lost else "running"]
    assert client.read_flow_run(other.id).labels["vitalfew.process"] == files.this_process()


def test_a_run_makes_up_for_the_planned_ones_that_wait(client: SyncPrefectClient, target: Target) -> None:
    changed(target)
    notes = there(client)["notes"].id
    run = started(client, "works")
    client.request(
        "POST", "/deployments/{id}/schedule", path_params={"id": notes}, json={"min_runs": 2}
    ).raise_for_status()
    mine = {"deployment_id": {"any_": [notes]}, "state": {"name": {"any_": ["Scheduled"]}}}
    planned = client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(mine))
    by_hand, later = client.create_flow_run_from_deployment(notes), planned.pop()
    for each in (*planned, by_hand):
        client.set_flow_run_state(each.id, Pending())  # the place is taken
    take_over(None, run, None)
    states = {client.read_flow_run(each.id).state_name for each in planned}
    assert (len(planned) >= 1, states) == (True, {"Cancelled"})
    assert [client.read_flow_run(each.id).state_name for each in (by_hand, later)] == [
        "AwaitingConcurrencySlot",
        "Scheduled",
    ]


def test_the_rule_of_the_server_is_the_one_of_the_file(client: SyncPrefectClient, target: Target) -> None:
    changed(target)
    changed(target)
    (registered,) = client.read_automations_by_name(rule().name)
    [*_, written] = yaml.safe_load(Path("deploy/automations.yaml").read_text())["automations"]
    assert rule() == AutomationCore.model_validate(written)
    assert (registered.trigger, registered.actions) == (rule().trigger, rule().actions)


def test_beside_a_bucket_a_deployment_carries_corpora_and_experiments(
    client: SyncPrefectClient, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "about: '{{ question }} and {braces}'\nmethods: {naive: {}}\n"
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "mine.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    bucket = store_place("s3://bucket/store")
    changed(Target(target.pool, bucket))
    (step,) = there(client)["evaluate"].pull_steps or []
    assert "{{" not in json.dumps(step)  # Prefect would fill it in
    folder = Path(write_files(**step["vitalfew.flows.workers.pull.write_files"])["directory"])
    monkeypatch.chdir(folder)
    assert (folder / "experiments" / "mine.yaml").read_text() == text
    assert [method.name for method in EvaluateForm(experiment="mine", store=bucket).evaluation().methods] == ["naive"]
    monkeypatch.setenv("VITALFEW_STORE", str(bucket))
    assert EvaluateForm().store == bucket
