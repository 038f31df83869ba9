"""One question of an evaluation to look at: its candidates as the critic saw them and what the selectors took, and its
hits as vectors with what a refiner kept of them. Read from the first shard of an evaluation."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vitalfew.configs.evaluation import Method
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.ids import shard_of
from vitalfew.storage.indexes.units import Units
from vitalfew.storage.runs import Run
from vitalfew.tasks.reports.contents import Choice, ContextMap
from vitalfew.tasks.reports.runs import read_manifest
from vitalfew.tasks.selectors import Critiqued, front

Rows = list[dict[str, Any]]


def choice(store: Path, run: Run, methods: Sequence[Method]) -> Choice | None:
    """Of the methods that choose among the same candidates (most of them), the question that they differ most about."""
    families: dict[str, list[str]] = {}
    for method in methods:
        if method.select:
            families.setdefault(run.methods[method.name]["critiques"], []).append(method.name)
    if not families:
        return None
    critiques, names = max(families.items(), key=lambda family: len(family[1]))
    judged = _by_question(row for row in _rows(store, critiques) if not row["error"])
    taken = {name: _by_question(_rows(store, run.methods[name]["answers"])) for name in names}
    chosen = {
        question: {name: tuple(row["candidate"] for row in taken[name][question]) for name in names}
        for question in judged
    }
    if not chosen:
        return None
    question = max(chosen, key=lambda number: (len(set(chosen[number].values())), len(judged[number])))
    rows = judged[question]
    asked = {row["question_id"]: row["text"] for row in _rows(store, run.methods[names[0]]["asked"])}
    return Choice(
        question=asked[question],
        candidates=tuple(row["candidate"] for row in rows),
        points=tuple((row["utility_f1"], row["isrel"]) for row in rows),
        on_front=tuple(map(bool, _front(rows))),
        chosen=chosen[question],
    )


def context_map(store: Path, run: Run, methods: Sequence[Method]) -> ContextMap | None:
    """Of the first method whose refiner keeps some of its hits by the index's vectors, the first question that it
    leaves a better hit out of than one that it keeps; else the first one."""
    # A context that reaches beyond its hit is no hit; a refiner that chooses by vectors has those of the questions.
    # So does one whose hits stand beside noise.
    able = [method for method in methods if method.retrieve and not method.refine.is_wider]
    with_hits = [method for method in able if not method.perturb.changes]
    evidences = {method.name: read_manifest(store, run.methods[method.name]["evidence"]) for method in with_hits}
    method = next((method for method in with_hits if "question_vectors" in evidences[method.name].inputs), None)
    if method is None:
        return None
    artifacts, inputs = run.methods[method.name], evidences[method.name].inputs
    hits, evidence = (_by_question(_rows(store, artifacts[table])) for table in ("hits", "evidence"))
    kept = {question: _kept(hits[question], rows) for question, rows in evidence.items()}
    if not kept:
        return None
    left_out = (number for number, places in kept.items() if max(places, default=0) >= len(places))
    question = next(left_out, next(iter(kept)))
    used = {role: Artifact(store, *name.split("/")) for role, name in inputs.items()}
    if any(artifact.recorded_manifest() is None for artifact in used.values()):  # the index was removed since
        return None
    asked = _rows(store, artifacts["asked"])
    number = [row["question_id"] for row in asked].index(question)
    return ContextMap(
        question=asked[number]["text"],
        documents=_vectors(used, hits[question]),
        query=tuple(_rows(store, inputs["question_vectors"])[number]["vector"]),
        kept=tuple(kept[question]),
        refiner=method.refine.refiner,
    )


def _rows(store: Path, name: str) -> Rows:
    artifact = Artifact(store, *name.split("/"))
    return artifact.read(artifact.completed().shards[0].shard).to_pylist()


def _by_question(rows: Iterator[dict[str, Any]] | Rows) -> dict[int, Rows]:
    by_question: dict[int, Rows] = {}
    for row in rows:
        by_question.setdefault(row["question_id"], []).append(row)
    return by_question


def _front(rows: Rows) -> np.ndarray:
    isrel, issup, isuse = (np.array([[row[name] for row in rows]]) for name in ("isrel", "issup", "isuse"))
    unknown, same = np.full(isrel.shape, np.nan), np.zeros(isrel.shape, np.int64)
    return front(Critiqued(isrel, issup, isuse, unknown, same, usable=np.ones(isrel.shape, bool)))[0]


def _kept(hits: Rows, evidence: Rows) -> list[int]:
    """The places of the hits that became contexts, in the contexts' order."""
    spans = [span for context in evidence for span in context["origin"]]
    return [next(place for place, hit in enumerate(hits) if _holds(hit, span)) for span in spans]


def _holds(hit: dict[str, Any], span: dict[str, Any]) -> bool:
    return hit["passage_id"] == span["passage_id"] and hit["start"] <= span["start"] < hit["end"]


def _vectors(used: Mapping[str, Artifact], hits: Rows) -> tuple[tuple[float, ...], ...]:
    passages = np.array([row["passage_id"] for row in hits], np.int64)
    shards = shard_of(passages, len(used["passages"].completed().shards))
    ids = np.array([row["unit_id"] for row in hits], np.int64)
    vectors = Units(used).vectors(hits[0]["unit"], shards, ids)
    return tuple(tuple(map(float, vector)) for vector in vectors)
