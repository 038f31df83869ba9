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
    return _runs(store)


def _runs(store: Path) -> list[str]:
    evaluated = _evaluated(store)
    return [*evaluated, *(run for ids in evaluated.values() for run in ids)]


def _evaluated(store: Path) -> dict[str, dict[str, list[str]]]:
    """The latest runs by experiment and id, the newest first, with their methods."""
    from vitalfew.storage.runs import read_runs

    found: dict[str, dict[str, list[str]]] = {}
    for run in reversed(read_runs(store, latest=LATEST)):
        if run.flow == "evaluate" and run.state == "completed":
            found.setdefault(run.name, {})[run.run_id] = [*run.methods]
    return found


@_of_store
def methods(store: Path, incomplete: str) -> Iterable[str]:
    """RUN:METHOD of what was evaluated; of another experiment its name, and its methods behind the colon."""
    from vitalfew.flows.pipelines.experiments import find, names

    run, colon, _ = incomplete.partition(":")
    evaluated = _evaluated(store)
    for experiment, ids in evaluated.items():
        yield from (f"{experiment}:{method}" for own in ids.values() for method in own)
        yield from (f"{run_id}:{method}" for run_id, own in ids.items() if colon for method in own)
    if colon and run not in evaluated:
        yield from (f"{run}:{method}" for method in find(run, store)[1].get("methods", {}))
    if not colon:
        yield from names(store)
