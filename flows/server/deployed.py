"""The deployments of `vitalfew ui`, for the product's pages: start one, follow its run, cancel it.

Calls are synchronous, for threads, and go to the server over HTTP: what checks a form there checks it here too. The
secret is read from Prefect's settings and stays in this module.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import UUID

from httpx import HTTPError, HTTPStatusError
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import ArtifactFilter, FlowRunFilter, LogFilter
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.responses import SetStateStatus
from prefect.client.schemas.sorting import ArtifactSort, FlowRunSort, LogSort
from prefect.exceptions import ObjectNotFound
from prefect.settings import get_current_settings
from prefect.states import Cancelled, Cancelling, Scheduled

from vitalfew.storage.names import RUN_ID

LINES = 200
"""Lines of a log that are read at once: Prefect's server gives no more."""
RUNS = 100
"""Runs that are read at once."""
NEVER_BEGAN = "Cancelled before it began."
"""The message of a run that was cancelled in time: Prefect gives it a start all the same."""
_WAITING = (StateType.SCHEDULED, StateType.PENDING)
_REPORT = re.compile(rf"/reports/({RUN_ID})\b")


class NoPrefect(OSError):
    """Prefect's server does not answer, or answers with an error."""


class NoFlowRun(ValueError):
    """Prefect knows no such run."""


class StartRefused(ValueError):
    """Prefect's server has refused the parameters of a run."""


@dataclass(frozen=True)
class FlowRunNow:
    """A run of a deployment. `flow`: the deployment's name; `name`: what it is about, an index or an experiment;
    `state`: as Prefect calls it (Running, Completed, Rejected); `kind`: its type, in small letters; `message`: of that
    state; `due`: when it begins, or was to; `began`, `ended`: in UTC; `by_cron`: a schedule planned it."""

    id: str
    flow: str
    name: str
    state: str
    kind: str
    message: str
    due: datetime | None
    began: datetime | None
    ended: datetime | None
    by_cron: bool
    parameters: Mapping[str, Any]

    @property
    def is_final(self) -> bool:
        return self.kind in ("completed", "failed", "crashed", "cancelled")

    @property
    def is_waiting(self) -> bool:
        """True before it begins."""
        return self.kind in ("scheduled", "pending") and self.began is None

    @property
    def about(self) -> str:
        """The corpus, index or experiment of its parameters."""
        given = self.parameters.get("parameters") or {}
        return str(given.get("corpus") or given.get("name") or given.get("experiment") or given.get("index") or "")


@dataclass(frozen=True)
class Followed:
    """A run as it is now. `stages`: in their order, the percent that is done and a line such as `encode: 12 of 30
    shards`; `reports`: the evaluations (runs of the store) that have a report; `log`: lines of a part of its log, the
    oldest first, with their times (UTC)."""

    run: FlowRunNow
    stages: tuple[tuple[float, str], ...]
    reports: tuple[str, ...]
    log: tuple[str, ...]


class Deployed:
    """The deployments of the `vitalfew ui` whose process this is. `corpora`: the user's directory of corpora.

    Every method raises NoPrefect where Prefect's server does not answer.
    """

    def __init__(self, store: Path, corpora: Path | None = None) -> None:
        self.store, self.corpora = store, corpora

    def start(self, deployment: str, given: Mapping[str, Any], at: datetime | None = None) -> str:
        """Start a run now or `at` a time, and return its id. `given`: the fields of its form. Raises StartRefused."""
        fields = {"store": str(self.store.absolute()), **given}
        if self.corpora and deployment == "re-encode":
            fields = {"corpora": str(self.corpora.absolute()), **fields}
        with self._client() as client:
            found = client.read_deployment_by_name(f"{deployment}/{deployment}")
            state: Any = Scheduled(scheduled_time=at) if at else None
            run = client.create_flow_run_from_deployment(found.id, parameters={"parameters": fields}, state=state)
        return str(run.id)

    def follow(self, run: str, older: int = 0) -> Followed:
        """A run as it is now, with the runs that it started: a re-encoding starts the evaluation of its gate. The log
        is its last LINES lines, after leaving out so many `older` pages of the latest. Raises NoFlowRun."""
        with self._client() as client:
            now = client.read_flow_run(_id(run))
            asked = FlowRunFilter.model_validate({"parent_flow_run_id": {"any_": [now.id]}})
            family = [now.id, *(child.id for child in client.read_flow_runs(flow_run_filter=asked))]
            own = {"flow_run_id": {"any_": family}}
            lines = client.read_logs(
                LogFilter.model_validate(own), limit=LINES, offset=older * LINES, sort=LogSort.TIMESTAMP_DESC
            )
            found = client.read_artifacts(
                artifact_filter=ArtifactFilter.model_validate(own), sort=ArtifactSort.CREATED_DESC, limit=LINES
            )
        shown: list[Any] = found[::-1]
        stages = ((float(each.data or 0), each.description or "") for each in shown if each.type == "progress")
        reports = (_REPORT.search(str(each.data)) for each in shown if each.key == "report")
        return Followed(
            self._now(now),
            tuple(stages),
            tuple(dict.fromkeys(match[1] for match in reports if match)),
            tuple(logged(line.timestamp, line.level, line.message) for line in reversed(lines)),
        )

    def cancel(self, run: str) -> None:
        """End a run; one that waits never begins. Raises NoFlowRun."""
        with self._client() as client:
            now = client.read_flow_run(_id(run))
            is_waiting = now.state_type in _WAITING and not now.start_time
            state: Any = Cancelled(message=NEVER_BEGAN) if is_waiting else Cancelling()
            client.set_flow_run_state(now.id, state, force=is_waiting)

    def decide(self, run: str, is_approved: bool, note: str = "") -> None:
        """Resume a run that waits for a person's decision on a new generation. `note`: the reason, kept with the
        verdict. Raises NoFlowRun, and StartRefused where it does not wait any more."""
        decision = {"decision": "promote" if is_approved else "decline", "note": note}
        with self._client() as client:
            answer = client.resume_flow_run(_id(run), run_input=decision)
        if answer.status is not SetStateStatus.ACCEPT:
            raise StartRefused(f"the run no longer waits for a decision: {getattr(answer.details, 'reason', '')}")

    def planned(self) -> list[FlowRunNow]:
        """The runs that wait for their time or for room, the next first, at most `RUNS`."""
        return self._runs([*_WAITING], FlowRunSort.EXPECTED_START_TIME_ASC)

    def recent(self) -> list[FlowRunNow]:
        """The runs that have begun, the latest first, at most `RUNS`."""
        return self._runs([kind for kind in StateType if kind not in _WAITING], FlowRunSort.START_TIME_DESC)

    def _runs(self, kinds: list[StateType], sort: FlowRunSort) -> list[FlowRunNow]:
        asked = FlowRunFilter.model_validate({"state": {"type": {"any_": kinds}}, "deployment_id": {"is_null_": False}})
        with self._client() as client:
            return [self._now(each) for each in client.read_flow_runs(flow_run_filter=asked, sort=sort, limit=RUNS)]

    def _now(self, run: FlowRun) -> FlowRunNow:
        state = run.state
        return FlowRunNow(
            str(run.id),
            self._names.get(run.deployment_id, ""),
            run.name,
            state.name or "" if state else "",
            state.type.value.lower() if state else "",
            state.message or "" if state else "",
            run.expected_start_time,
            run.start_time,
            run.end_time,
            bool(run.auto_scheduled),
            run.parameters,
        )

    @cached_property
    def _names(self) -> dict[UUID | None, str]:
        """The names of the deployments, which this process outlives none of."""
        with self._client() as client:
            return {each.id: each.name for each in client.read_deployments()}

    @contextmanager
    def _client(self) -> Iterator[SyncPrefectClient]:
        settings = get_current_settings()
        secret = settings.server.api.auth_string
        try:
            with SyncPrefectClient(
                settings.api.url or "", auth_string=secret.get_secret_value() if secret else None
            ) as client:
                yield client
        except ObjectNotFound:
            raise NoFlowRun("Prefect has no such run: it was deleted, or its address is not complete") from None
        except HTTPStatusError as error:
            if error.response.status_code in (409, 422):
                raise StartRefused(f"Prefect refused it: {_detail(error)}") from None
            raise NoPrefect(f"Prefect's server answered with status {error.response.status_code}; try again") from None
        except HTTPError as error:
            raise NoPrefect(f"Prefect's server does not answer ({type(error).__name__}); try again") from None


def _id(run: str) -> UUID:
    try:
        return UUID(run)
    except ValueError:
        raise NoFlowRun(f"{run[:100]!r} is not the id of a run of Prefect; the page Corpora lists the runs") from None


def logged(at: datetime, level: int, text: str) -> str:
    """A line of a run's log. `level`: Python's numbers, 40 for an error."""
    bad = "ERROR " if level >= 40 else "WARNING " if level >= 30 else ""
    return f"{at.astimezone(UTC):%H:%M:%S} {bad}{text}"


def _detail(error: HTTPStatusError) -> str:
    """The server's reason for refusing a request."""
    try:
        found = error.response.json()
    except ValueError:
        return str(error.response.status_code)
    return str(found.get("detail") or found.get("exception_detail") or found) if isinstance(found, dict) else str(found)


def moment(text: str) -> datetime:
    """A time in UTC, of ISO 8601 with its zone, that lies ahead. Raises StartRefused."""
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise StartRefused(f"{text[:50]!r} is not a time; choose a date and a time") from None
    if at.tzinfo is None:
        raise StartRefused(f"{text[:50]!r} names no time zone")
    if at <= datetime.now(UTC):
        raise StartRefused(f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC has passed; choose a later time")
    return at.astimezone(UTC)
