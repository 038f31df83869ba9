"""Critiqued candidates of an evaluation: what critics leave to choose, and single questions to look at.

Gold data say how far a critic's probabilities are off. ISREL is true where a context holds a supporting fact (where
none is marked: is of a gold passage), as Self-RAG counts what helps to answer; ISUSE where the answer is right by a
gold answer. ISSUP is held against that, too, among relevant contexts that have a gold answer's text: one hop of several
has none to support.

A question to look at is read from the first shard of an evaluation: its candidates as the critic saw them and what the
selectors took, or its hits as vectors with what a refiner kept of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vitalfew.configs.evaluation import Method
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.ids import shard_of
from vitalfew.storage.indexes.units import Units
from vitalfew.storage.runs import Run
from vitalfew.tasks.metrics.answers import is_right
from vitalfew.tasks.raters.calibration import calibration_error
from vitalfew.tasks.reports.contents import CandidateChoice, ContextMap, CriticResult
from vitalfew.tasks.reports.runs import read_manifest
from vitalfew.tasks.selectors import critiqued, front, front_sizes, rank_correlations

Row = dict[str, Any]
Rows = list[Row]
ASPECTS = ("isrel", "issup", "isuse")


def critic_results(store: Path, run: Run, methods: Sequence[Method]) -> tuple[CriticResult, ...]:
    """Of every set of candidates that methods choose from. Raises NoReport where an artifact was removed since."""
    able = [method for method in methods if method.critique]
    return tuple(_result(store, run, family) for family in _families(run, able).values())


def _families(run: Run, methods: Sequence[Method]) -> dict[str, list[Method]]:
    """Methods that choose among the same candidates, by their critiques."""
    families: dict[str, list[Method]] = {}
    for method in methods:
        if method.select:
            families.setdefault(run.methods[method.name]["critiques"], []).append(method)
    return families


def _result(store: Path, run: Run, family: Sequence[Method]) -> CriticResult:
    artifacts = run.methods[family[0].name]
    judged: list[Rows] = []
    for shard in [record.shard for record in read_manifest(store, artifacts["critiques"]).shards]:
        judged += _with_truth(store, artifacts, shard)
    matrix = critiqued(judged)
    sizes, correlations = front_sizes(matrix), rank_correlations(matrix)
    rows = [row for question in judged for row in question]
    critique = family[0].critique
    return CriticResult(
        critic=critique.critic if critique else "",
        methods=tuple(method.name for method in family),
        questions=len(judged),
        candidates=len(rows) / max(1, len(judged)),
        front=_mean(sizes),
        correlation=_mean(correlations),
        errors={aspect: error for aspect in ASPECTS if (error := _error(rows, aspect)) is not None},
    )


def _with_truth(store: Path, artifacts: dict[str, str], shard: int) -> Iterator[Rows]:
    """The critiques of each question, with the truth of every aspect that gold data tell; None: they do not."""

    def read(table: str) -> Rows:
        return _rows(store, artifacts[table], shard)

    asked = {row["question_id"]: row for row in read("asked")}
    evidence = {(row["question_id"], row["rank"]): row for row in read("evidence")} if "evidence" in artifacts else {}
    candidates = {(row["question_id"], row["candidate"]): row for row in read("candidates")}
    questions: dict[int, list[Row]] = {}
    for row in read("critiques"):
        if row["error"]:
            continue
        question, candidate = asked[row["question_id"]], candidates[row["question_id"], row["candidate"]]
        contexts = [evidence[row["question_id"], rank] for rank in candidate["contexts"]]
        useful = is_right(candidate["text"], question["answers"]) if question["answers"] else None
        relevant = _relevant(question, contexts)
        text = "\n".join(each["text"] for each in contexts).lower()
        answers = relevant and any(answer.lower() in text for answer in question["answers"])
        truth = {"isrel": relevant, "issup": useful if answers else None, "isuse": useful}
        questions.setdefault(row["question_id"], []).append({**row, "text": candidate["text"], "truth": truth})
    yield from questions.values()


def _relevant(question: Row, contexts: Sequence[Row]) -> bool | None:
    """Return whether a context holds a supporting fact, or, where none is marked, a part of a gold passage."""
    facts, passages = question["supporting_facts"], set(question["gold_passages"])
    if not facts and not passages:
        return None
    spans = [span for context in contexts for span in context["origin"]]
    if not facts:
        return any(span["passage_id"] in passages for span in spans)
    return any(
        span["passage_id"] == fact["passage_id"] and span["start"] <= fact["start"] and fact["end"] <= span["end"]
        for span in spans
        for fact in facts
    )


def _mean(values: np.ndarray) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _error(rows: Sequence[Row], aspect: str) -> tuple[float, int] | None:
    known = [row for row in rows if row["truth"][aspect] is not None]
    truth = np.array([row["truth"][aspect] for row in known], bool)
    return (calibration_error(np.array([row[aspect] for row in known]), truth), len(known)) if known else None


def choice(store: Path, run: Run, methods: Sequence[Method]) -> CandidateChoice | None:
    """Of the methods that choose among the same candidates (most of them), the question that they differ most about."""
    families = _families(run, methods)
    if not families:
        return None
    critiques, family = max(families.items(), key=lambda family: len(family[1]))
    names = [method.name for method in family]
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
    return CandidateChoice(
        question=asked[question],
        candidates=tuple(row["candidate"] for row in rows),
        points=tuple((row["utility_f1"], row["isrel"]) for row in rows),
        on_front=tuple(map(bool, front(critiqued([[{**row, "text": ""} for row in rows]]))[0])),
        chosen=chosen[question],
    )


def context_map(store: Path, run: Run, methods: Sequence[Method]) -> ContextMap | None:
    """Of the first method whose refiner keeps some of its hits by the index's vectors, the first question that it
    leaves a better hit out of than one that it keeps; else the first one."""
    # A context that reaches beyond its hit is no hit; a refiner that chooses by vectors has those of the questions.
    # So does one whose hits stand beside noise.
    able = [method for method in methods if method.retrieve and not method.refine.is_wider]
    with_hits = [method for method in able if "perturbed" not in run.methods[method.name]]
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


def _rows(store: Path, name: str, shard: int | None = None) -> Rows:
    """The rows of a shard, by default of the first one."""
    artifact = Artifact(store, *name.split("/"))
    return artifact.read(artifact.completed().shards[0].shard if shard is None else shard).to_pylist()


def _by_question(rows: Iterable[Row]) -> dict[int, Rows]:
    by_question: dict[int, Rows] = {}
    for row in rows:
        by_question.setdefault(row["question_id"], []).append(row)
    return by_question


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
