"""What a shell completes besides commands: the names of indexes, corpora, experiments, runs and methods.

Only names of files and the records of the latest runs are read, and a store that cannot be read gives no names: an
error would be printed into the line that a user is writing.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import typer

from vitalfew.configs.paths import store_place

LATEST = 50
"""Runs whose records are read."""


def _of_store(names: Callable[[Path, str], Iterable[str]]) -> Callable[[typer.Context, str], list[str]]:
    """A completion by the store that the command line names, and by what is written of the word."""

    def completed(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            store = store_place(ctx.params.get("store") or os.environ.get("VITALFEW_STORE") or "store")
            return [*dict.fromkeys(names(store, incomplete))]
        except Exception:  # whatever is wrong with the store, the command itself will say it
            return []

    return completed


@_of_store
def indexes(store: Path, incomplete: str) -> Iterable[str]:
    from vitalfew.storage.runs import index_names

    return index_names(store)


@_of_store
def corpora(store: Path, incomplete: str) -> Iterable[str]:
    from vitalfew.flows.pipelines.named import corpora as known

    return sorted(known(store))


@_of_store
def experiments(store: Path, incomplete: str) -> Iterable[str]:
    from vitalfew.flows.pipelines.experiments import names

    return names(store)


@_of_store
def runs(store: Path, incomplete: str) -> Iterable[str]:
    """Names of evaluated experiments, then run ids."""
    evaluated = _evaluated(store)
    return [*(name for name, _, _ in evaluated), *(run_id for _, run_id, _ in evaluated)]


@_of_store
def methods(store: Path, incomplete: str) -> Iterable[str]:
    """RUN:METHOD of what was evaluated; of another experiment its name, and its methods behind the colon."""
    from vitalfew.flows.pipelines.experiments import find, names

    evaluated, (run, colon, _) = _evaluated(store), incomplete.partition(":")
    for name, run_id, own in evaluated:
        yield from (f"{named}:{method}" for named in (name, *([run_id] if colon else [])) for method in own)
    if not colon:
        yield from names(store)
    elif run not in {name for name, _, _ in evaluated}:
        yield from (f"{run}:{method}" for method in find(run, store)[1].get("methods", {}))


def _evaluated(store: Path) -> list[tuple[str, str, Iterable[str]]]:
    """Experiment, run id and methods of the latest evaluations, the newest first."""
    from vitalfew.storage.runs import read_runs

    latest = reversed(read_runs(store, latest=LATEST))
    done = (run for run in latest if run.flow == "evaluate" and run.state == "completed")
    return [(run.name, run.run_id, run.methods) for run in done]
