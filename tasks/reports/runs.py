"""Which run a name stands for, and its artifacts' manifests."""

from pathlib import Path

from vitalfew.storage.artifacts import Artifact, Manifest
from vitalfew.storage.runs import Run, read_runs

LATEST = "latest"


class NoReport(ValueError):
    """There is nothing to report on: the message says what there is."""


def find_run(store: Path, name: str) -> Run:
    """The evaluation by its id or the beginning of it, else the latest of that experiment, or of all ("latest").

    Raises NoReport where there is none, or it did not complete.
    """
    runs = [run for run in read_runs(store) if run.flow == "evaluate"]
    named = [run for run in runs if run.run_id.startswith(name)]
    named = named or [run for run in runs if run.name == name or name == LATEST]
    complete = [run for run in named if run.state == "completed"]
    if complete:
        return complete[-1]
    if named:
        last = named[-1]
        reason = f" ({last.error})" if last.error else ""
        raise NoReport(
            f"run {last.run_id} of {last.name} is {last.state}{reason}; run the same `vitalfew evaluate` to continue it"
        )
    known = ", ".join(f"{run.run_id} ({run.name})" for run in runs[-5:])
    raise NoReport(
        f"no evaluation {name!r} in {store}; " + (f"the latest: {known}" if known else "run `vitalfew evaluate`")
    )


def run_of(store: Path, run_id: str) -> Run | None:
    """The run of an id; None where its record is gone."""
    return next((run for run in read_runs(store) if run.run_id == run_id), None)


def read_manifest(store: Path, name: str) -> Manifest:
    """Of an artifact `table/fingerprint`. Raises NoReport where it was removed since."""
    try:
        return Artifact(store, *name.split("/")).completed()
    except FileNotFoundError:
        raise NoReport(f"{name} was removed; run the same `vitalfew evaluate` to make it again") from None
