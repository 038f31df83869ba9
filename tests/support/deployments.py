"""A stand-in for the deployments of `vitalfew ui`, without Prefect's server."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from vitalfew.flows.server.deployed import FlowRunNow, Followed, LogLine, NoFlowRun, NoPrefect, StageNow

BEGAN = datetime(2026, 11, 27, 3, tzinfo=UTC)


def flow_run(number: int, state: str = "Completed", kind: str = "completed", **changed: Any) -> FlowRunNow:
    """A run of `re-encode` for the corpus `towns`, which took a minute."""
    run = FlowRunNow(
        id=f"00000000-0000-0000-0000-{number:012}",
        flow="re-encode",
        name="towns",
        state=state,
        kind=kind,
        message="",
        due=BEGAN,
        began=BEGAN,
        ended=BEGAN + timedelta(seconds=60) if kind == "completed" else None,
        by_cron=False,
        parameters={"parameters": {"corpus": "towns"}},
    )
    return replace(run, **changed)


class FakeDeployed:
    """Has the methods of `Deployed`. `runs`: by their ids; `answers`: false while Prefect's server does not."""

    def __init__(self, *runs: FlowRunNow) -> None:
        self.runs = {run.id: run for run in runs}
        self.started: list[tuple[str, Mapping[str, Any], datetime | None]] = []
        self.decided: list[bool] = []
        self.answers = True
        self.lines: list[LogLine] = []
        self.looks = 0

    def start(self, deployment: str, given: Mapping[str, Any], at: datetime | None = None) -> str:
        self.started.append((deployment, given, at))
        kind: dict[str, Any] = {"state": "Scheduled", "kind": "scheduled", "began": None, "due": at}
        run = flow_run(100 + len(self.started), **kind, flow=deployment, parameters={"parameters": given})
        self.runs[run.id] = run
        return run.id

    def follow(self, run: str, older: int = 0) -> Followed:
        self.looks += 1
        return Followed(
            self._run(run), (StageNow(40.0, "encode: 2 of 5 shards"),), ("20261127-030000-abc",), (*self.lines,)
        )

    def cancel(self, run: str) -> None:
        self.runs[run] = replace(self._run(run), state="Cancelled", kind="cancelled", ended=BEGAN)

    def decide(self, run: str, is_approved: bool, note: str = "") -> None:
        self.decided.append(is_approved)

    def planned(self, limit: int = 100) -> list[FlowRunNow]:
        return self._all(lambda run: run.is_waiting)

    def recent(self, limit: int = 100) -> list[FlowRunNow]:
        return self._all(lambda run: not run.is_waiting)

    def _all(self, wanted: Any) -> list[FlowRunNow]:
        if not self.answers:
            raise NoPrefect("Prefect's server does not answer (ConnectError); try again")
        return [*filter(wanted, self.runs.values())]

    def _run(self, run: str) -> FlowRunNow:
        if not self.answers:
            raise NoPrefect("Prefect's server does not answer (ConnectError); try again")
        if run not in self.runs:
            raise NoFlowRun("Prefect has no such run: it was deleted, or its address is not complete")
        return self.runs[run]
