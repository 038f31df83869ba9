"""The rows of the catalog's tables of indexes, generations, gates and decisions, from their records.

A version of an index in `indexes` is a generation of its name. A search finds an index by the name's record, so that
record says which one is current.
"""

import logging
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

from vitalfew.storage import decisions, generations, runs
from vitalfew.storage.decisions import Decision
from vitalfew.storage.files import DamagedRecord
from vitalfew.storage.generations import GateFigure, Generation
from vitalfew.storage.manifests import Manifest
from vitalfew.storage.runs import INDEXING, NamedIndex, Run

logger = logging.getLogger("vitalfew")

Histories = Sequence[tuple[NamedIndex, Sequence[Generation], list[Decision]]]
"""Every index as its name stands now, with all its generations, the oldest first, and what was decided about them."""
_COUNTED = ("passages", "sentences", "vectors")


def histories(store: Path) -> Histories:
    found = []
    for name in runs.index_names(store):
        try:
            found.append((runs.find_index(store, name), generations.history(store, name), _decisions(store, name)))
        except (DamagedRecord, runs.IndexNotFound) as error:  # the latter: it was removed meanwhile
            logger.warning("the index %s is left out of the tables: %s", name, error)
    return found


def _decisions(store: Path, name: str) -> list[Decision]:
    try:
        return decisions.of(store, name)
    except DamagedRecord as error:
        logger.warning("the decisions about index %s are left out of the tables: %s", name, error)
        return []


def index_rows(
    known_of: Histories, complete: Mapping[str, tuple[Manifest, int]], recorded: Iterable[Run]
) -> Iterator[tuple[Any, ...]]:
    """The rows of `schemas.INDEXES`. `complete`: the manifest and the size of every artifact of the store."""
    ended = {run.run_id: run.ended for run in recorded}
    for index, known in ((index, known) for index, known, _ in known_of):
        current, previous = index.generation or known[-1].number, None
        for each in known:
            there = {role: complete[name] for role, name in each.artifacts.items() if name in complete}
            counts = (there[table][0].rows.get(table) if table in there else None for table in _COUNTED)
            made = ended.get(each.run_id) or max((manifest.completed for manifest, _ in there.values()), default=None)
            datasets, encode = each.config.get("datasets", []), each.config.get("encode", {})
            kind = each.config.get("index", {}).get("type")
            settings = (datasets, encode.get("encoder"), encode.get("context"), kind)
            size, fingerprints = sum(size for _, size in there.values()), [*each.artifacts.values()]
            identity = (each.name, each.number == current, each.run_id, made)
            yield *identity, *settings, *counts, size, fingerprints, previous
            previous = each.run_id


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


def of_indexes(known_of: Histories, recorded: Iterable[Run]) -> set[str]:
    """The artifacts that ever belonged to an index, finished or not."""
    made = {name for _, known, _ in known_of for each in known for name in each.artifacts.values()}
    return made.union(*(run.fingerprints for run in recorded if run.flow == INDEXING))


def holders(known_of: Histories) -> dict[str, list[str]]:
    """By artifact, the names of the indexes that it belongs to now."""
    names = defaultdict[str, list[str]](list)
    for index, _, _ in known_of:
        for artifact in index.artifacts.values():
            names[artifact].append(index.name)
    return names
