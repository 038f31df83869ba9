"""The versions of a store's indexes: which artifacts an index has now, and which it had before.

A search finds an index by its record, so that record says what is current. The completed runs of that name say what
came before. Runs one after another with the same artifacts are one version: a run that changed nothing makes none.
"""

import logging
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any

from vitalfew.storage import decisions, generations, runs
from vitalfew.storage.decisions import Decision
from vitalfew.storage.files import DamagedRecord
from vitalfew.storage.generations import GateFigure, Generation
from vitalfew.storage.manifests import Manifest
from vitalfew.storage.runs import INDEXING, NamedIndex, Run

logger = logging.getLogger("vitalfew")


@dataclass(frozen=True, slots=True)
class IndexVersion:
    """`run_id`: the run that made this version; `ended`: when it ended, None if nothing says so; `artifacts`:
    TABLE/FINGERPRINT by role."""

    name: str
    current: bool
    run_id: str
    ended: str | None
    artifacts: dict[str, str]
    config: dict[str, Any]
    previous: str | None

    def row(self, known: Mapping[str, tuple[Manifest, int]]) -> tuple[Any, ...]:
        """A row of `schemas.INDEXES`. `known`: the manifest and the size of every artifact of the store."""
        there = {role: known[name] for role, name in self.artifacts.items() if name in known}
        counts = (there[table][0].rows.get(table) if table in there else None for table in _COUNTED)
        encode, index = self.config.get("encode", {}), self.config.get("index", {})
        made = self.ended or max((manifest.completed for manifest, _ in there.values()), default=None)
        settings = (self.config.get("datasets", []), encode.get("encoder"), encode.get("context"), index.get("type"))
        size = sum(size for _, size in there.values())
        fingerprints = [*self.artifacts.values()]
        return self.name, self.current, self.run_id, made, *settings, *counts, size, fingerprints, self.previous


_COUNTED = ("passages", "sentences", "vectors")


def versions(store: Path, recorded: Iterable[Run]) -> list[IndexVersion]:
    """Every version of every index, by name, oldest first. `recorded`: the store's runs."""
    made = defaultdict[str, list[Run]](list)
    for run in recorded:
        if run.flow == INDEXING and run.state == "completed":
            made[run.name].append(run)
    current = {index.name: index for index in _current(store)}
    names = sorted(made.keys() | current.keys())
    return [version for name in names for version in _versions_of(name, made[name], current.get(name))]


def _current(store: Path) -> Iterator[NamedIndex]:
    for name in runs.index_names(store):
        try:
            yield runs.find_index(store, name)
        except (DamagedRecord, runs.IndexNotFound) as error:  # the latter: it was removed meanwhile
            logger.warning("the index %s is left out of the tables: %s", name, error)


def _versions_of(name: str, made: list[Run], current: NamedIndex | None) -> Iterator[IndexVersion]:
    in_order = sorted(made, key=lambda run: run.ended or run.started)
    alike = [[*group] for _, group in groupby(in_order, key=lambda run: {*run.fingerprints})]
    now = _place(alike, current) if current else None
    previous = None
    for place, (run, *_) in enumerate(alike):
        artifacts = {artifact.partition("/")[0]: artifact for artifact in run.fingerprints}
        yield IndexVersion(name, place == now, run.run_id, run.ended, artifacts, run.config, previous)
        previous = run.run_id
    if current and now is None:  # its run was cut short after the index was named, or has no record here
        yield IndexVersion(name, True, current.run_id, None, current.artifacts, current.config, previous)


def _place(alike: list[list[Run]], current: NamedIndex) -> int | None:
    """The place of the last version that has the artifacts of the current index."""
    wanted = {*current.artifacts.values()}
    return max((place for place, (run, *_) in enumerate(alike) if {*run.fingerprints} == wanted), default=None)


Histories = Sequence[tuple[NamedIndex, Sequence[Generation], list[Decision]]]
"""Every index as its name stands now, with all its generations and what was decided about them."""


def histories(store: Path) -> Histories:
    return [(index, generations.history(store, index.name), _decisions(store, index.name)) for index in _current(store)]


def _decisions(store: Path, name: str) -> list[Decision]:
    try:
        return decisions.of(store, name)
    except DamagedRecord as error:
        logger.warning("the decisions about index %s are left out of the tables: %s", name, error)
        return []


def generation_rows(known_of: Histories, complete: Container[str]) -> Iterator[tuple[Any, ...]]:
    """The rows of `schemas.GENERATIONS`. `complete`: the names of the artifacts that are there."""
    for index, known, decided in known_of:
        current = index.generation or known[-1].number
        for each in known:
            last = decisions.latest(decided, each.number)
            said = (last.decision, last.decider) if last else ("", "")
            datasets = each.config.get("datasets", [])
            own = (each.number, each.made, each.run_id, each.settings, each.corpus, datasets, each.verdict, *said)
            removed = any(artifact not in complete for artifact in each.artifacts.values())
            yield each.name, *own, each.number == current, removed


def decision_rows(known_of: Histories) -> Iterator[tuple[Any, ...]]:
    """The rows of `schemas.DECISIONS`."""
    for each in (decision for _, _, decided in known_of for decision in decided):
        yield (each.index, each.time, each.generation, each.decision, each.by, each.who, each.note, each.instead_of)


def gate_rows(known_of: Histories) -> Iterator[tuple[Any, ...]]:
    """The rows of `schemas.GATES`: of every generation that a gate has judged, one without figures where it had
    none."""
    nothing = (None,) * len(fields(GateFigure))
    for each in (generation for _, known, _ in known_of for generation in known):
        if gate := each.gate:
            approval = (gate.approval.decision or "waiting") if gate.approval else None
            of_all = (gate.left_out, gate.said, gate.run_id or None, approval, [*gate.losses])
            for figures in [astuple(figure) for figure in gate.figures] or [nothing]:
                yield each.name, each.number, gate.against, each.verdict, *figures, *of_all


def of_indexes(known: Iterable[IndexVersion], recorded: Iterable[Run]) -> set[str]:
    """The artifacts that ever belonged to an index, finished or not."""
    made = {name for version in known for name in version.artifacts.values()}
    return made.union(*(run.fingerprints for run in recorded if run.flow == INDEXING))


def holders(known: Iterable[IndexVersion]) -> dict[str, list[str]]:
    """By artifact, the names of the indexes that it belongs to now."""
    names = defaultdict[str, list[str]](list)
    for version in known:
        if version.current:
            for artifact in version.artifacts.values():
                names[artifact].append(version.name)
    return names
