"""Who holds a run of Prefect, and the end of runs whose holder has gone.

A worker reports a process that dies. Nobody reports one that dies together with its worker, so Prefect would show
"Running" without end, and keep the run's place. A run therefore has the name of its process as a label, and Prefect's
heartbeats say that a process on another machine works. A run that begins, `vitalfew deploy`, and `vitalfew ui` at its
start end the runs that nobody holds; `rule` is an automation by which Prefect's server does so by itself.
"""

import logging
import os
from datetime import UTC, datetime
from typing import Any

from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.events import AutomationCore, EventTrigger
from prefect.events.actions import ChangeFlowRunState
from prefect.events.filters import EventFilter
from prefect.settings import get_current_settings
from prefect.states import Cancelled, Crashed

from vitalfew.configs.paths import store_place
from vitalfew.flows.forms import STORE
from vitalfew.flows.server.access import BEATS
from vitalfew.storage import files, runs

logger = logging.getLogger("vitalfew")

HOLDER, BEAT = "vitalfew.process", "vitalfew.heartbeat"
"""Labels of a run: the name of its process, and the seconds between two heartbeats."""
SILENT_BEATS = 3
"""A run on another machine counts as lost after this many missed heartbeats. A server that restarts within a minute
ends no run."""
BEGINNING = 300.0
"""Seconds that a run has to begin: as long as Prefect keeps its place."""
HEARTBEAT = "prefect.flow-run.heartbeat"
LOST = "The process of this run died without a message. Start the run again; finished shards are kept."
TAG = "vitalfew"
"""Of every deployment."""
_WORKING = (StateType.RUNNING, StateType.PENDING, StateType.CANCELLING)


def hold(flow: Any, flow_run: FlowRun, state: Any) -> None:
    """A hook of flows that begin: say which process holds the run, and end the runs that nobody holds."""
    beat = get_current_settings().flows.heartbeat_frequency or 0
    with get_client(sync_client=True) as client:
        client.update_flow_run_labels(flow_run.id, {HOLDER: files.this_process(), BEAT: beat})
        end_lost_runs(client)


def take_over(flow: Any, flow_run: FlowRun, state: Any) -> None:
    """A hook of a corpus's run that begins: cancel the planned runs that wait for its place, which would do the same.

    So one run makes up for all that were due while an earlier one worked.
    """
    if flow_run.deployment_id is None:
        return
    asked = {
        "deployment_id": {"any_": [flow_run.deployment_id]},
        "state": {"name": {"any_": ["AwaitingConcurrencySlot"]}},
    }
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(asked)):
            if run.auto_scheduled and run.parameters == flow_run.parameters:
                message = f"The run {flow_run.id} began after this one was due, and does the same."
                client.set_flow_run_state(run.id, Cancelled(message=message))


def lost_runs(client: SyncPrefectClient) -> list[FlowRun]:
    """The runs that Prefect takes for working, and that nobody holds."""
    working = FlowRunFilter.model_validate({"state": {"type": {"any_": _WORKING}}})
    found = client.read_flow_runs(flow_run_filter=working)
    return [run for run in found if (HOLDER in run.labels or TAG in run.tags) and _is_lost(client, run)]


def names_of_lost_runs(address: str, secret: str | None) -> list[str]:
    """For a server at an address without `/api`."""
    with SyncPrefectClient(f"{address}/api", auth_string=secret) as client:
        return [run.name for run in lost_runs(client)]


def end_lost_runs(client: SyncPrefectClient) -> None:
    """End the runs that nobody holds, which frees their places, and record it in their stores."""
    for run in lost_runs(client):
        end(client, run)
        given = run.parameters.get("parameters") or {}
        if store := given.get("store") or os.environ.get(STORE):
            _record(str(store), str(run.labels.get(HOLDER, "")))


def _record(store: str, holder: str) -> None:
    """Say in a store that a process was interrupted; the store may be one that this machine cannot reach."""
    try:
        runs.interrupt(store_place(store), holder)
    except (OSError, ValueError) as error:
        logger.warning("The record of an ended run in %s stays as it is: %s", store, error)


def end(client: SyncPrefectClient, run: FlowRun, message: str = LOST) -> None:
    """Give a run that nobody holds its last state: cancelled if somebody wished that, else crashed."""
    cancelled = run.state is not None and run.state.is_cancelling()
    client.set_flow_run_state(run.id, (Cancelled if cancelled else Crashed)(message=message))


def _is_lost(client: SyncPrefectClient, run: FlowRun) -> bool:
    holder = str(run.labels.get(HOLDER, ""))
    if files.is_in_sight(holder):
        return files.has_ended(holder)
    if holder and not run.labels.get(BEAT):  # it sends no heartbeats
        return False
    patience = SILENT_BEATS * float(str(run.labels[BEAT])) if holder else BEGINNING
    return (datetime.now(UTC) - _last_sign(client, run)).total_seconds() > patience


def _last_sign(client: SyncPrefectClient, run: FlowRun) -> datetime:
    """When the server last heard of a run, by the server's clock."""
    asked = {"event": {"name": [HEARTBEAT]}, "resource": {"id": [f"prefect.flow-run.{run.id}"]}}
    beats = client.read_events(EventFilter.model_validate(asked), limit=1).events
    assert run.state
    return max([run.state.timestamp, *(each.received for each in beats)])


def rule() -> AutomationCore:
    """The automation of Prefect's server that ends a silent run. `deploy/automations.yaml` has it too."""
    silent = EventTrigger.model_validate(
        {
            "posture": "Proactive",
            "match": {"prefect.resource.id": "prefect.flow-run.*"},
            "match_related": {"prefect.resource.id": f"prefect.tag.{TAG}"},
            "for_each": ["prefect.resource.id"],
            "after": [HEARTBEAT],
            "expect": ["prefect.flow-run.*"],
            "threshold": 1,
            "within": SILENT_BEATS * int(BEATS["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"]),
        }
    )
    return AutomationCore(
        name="vitalfew-run-silent",
        description="End a run whose process has been silent for three heartbeats.",
        trigger=silent,
        actions=[ChangeFlowRunState(state=StateType.CRASHED, message=LOST)],
    )


def make_rule(client: SyncPrefectClient) -> None:
    """Register the automation, unless it is there; one that somebody has changed or disabled stays so."""
    if not client.read_automations_by_name(rule().name):
        client.create_automation(rule())
