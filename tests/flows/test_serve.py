"""Deployments of an earlier version, and schedules that follow the files of the corpora."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.schedules import CronSchedule
from prefect.exceptions import ObjectNotFound
from prefect.testing.utilities import prefect_test_harness

from vitalfew.flows.cli.doctor import operations
from vitalfew.flows.serve import FORMER, TAG, FollowedSchedules, replace_former, schedules


@pytest.fixture(scope="module")
def client() -> Iterator[SyncPrefectClient]:
    with prefect_test_harness(server_startup_timeout=120), get_client(sync_client=True) as client:
        yield client


def test_the_schedules_of_former_deployments_move_to_those_that_replaced_them(client: SyncPrefectClient) -> None:
    given = {"parameters": {"store": "/store", "experiment": "quickstart", "index": "wiki"}}
    nightly = DeploymentScheduleCreate(
        schedule=CronSchedule(cron="0 3 * * *", timezone="Europe/Berlin"), active=False, parameters=given
    )
    for name, given_schedules in [*((old, [nightly]) for old in FORMER), *((new, []) for new in FORMER.values())]:
        client.create_deployment(client.create_flow_from_name(name), name, tags=[TAG], schedules=given_schedules)
    replace_former()
    for old, name in FORMER.items():
        with pytest.raises(ObjectNotFound):
            client.read_deployment_by_name(f"{old}/{old}")
        (moved,) = client.read_deployment_by_name(f"{name}/{name}").schedules
        assert (moved.schedule, moved.active, moved.parameters) == (nightly.schedule, False, given)
    replace_former()  # without any


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
    (folder / "bad.yaml").write_text("datasets: {")
    write("never", "cron: 'at noon'")
    assert look() == by_hand | {"one": ("0 1 * * *", True), "two": ("0 2 * * *", True)}
    told = {check.what: check for check in operations(store)}
    assert told["corpus two"].found == "re-encoded at 0 2 * * *"
    assert not told["corpus never"].fine
    assert "'at noon'" in told["corpus never"].found
    write("two", "cron: '0 3 * * *'")
    assert look()["two"] == ("0 3 * * *", True)
    write("two")
    (folder / "one.yaml").unlink()
    assert look() == by_hand
