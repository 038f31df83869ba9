"""Deployments of an earlier version."""

import pytest
from prefect import get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.schedules import CronSchedule
from prefect.exceptions import ObjectNotFound
from prefect.testing.utilities import prefect_test_harness

from vitalfew.flows.serve import FORMER, TAG, replace_former


def test_the_schedules_of_former_deployments_move_to_those_that_replaced_them() -> None:
    given = {"parameters": {"store": "/store", "experiment": "quickstart", "index": "wiki"}}
    nightly = DeploymentScheduleCreate(
        schedule=CronSchedule(cron="0 3 * * *", timezone="Europe/Berlin"), active=False, parameters=given
    )
    with prefect_test_harness(server_startup_timeout=120), get_client(sync_client=True) as client:
        for name, schedules in [*((old, [nightly]) for old in FORMER), *((new, []) for new in FORMER.values())]:
            client.create_deployment(client.create_flow_from_name(name), name, tags=[TAG], schedules=schedules)
        replace_former()
        for old, name in FORMER.items():
            with pytest.raises(ObjectNotFound):
                client.read_deployment_by_name(f"{old}/{old}")
            (moved,) = client.read_deployment_by_name(f"{name}/{name}").schedules
            assert (moved.schedule, moved.active, moved.parameters) == (nightly.schedule, False, given)
        replace_former()  # without any
