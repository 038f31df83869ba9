"""Critiqued candidates of an evaluation: what critics leave to choose, and single questions to look at.

Gold data show the calibration error of a critic. ISREL is true where a context holds a supporting fact (where none is
marked: is of a gold passage), as Self-RAG counts what helps to answer; ISUSE where the answer is right by a gold
answer. ISSUP is held against that, too, among relevant contexts that have a gold answer's text: one hop of several has
none to support.

A question to look at is read from the first shard of an evaluation: its candidates as the critic saw them and what the
selectors took, or its hits as vectors with what a refiner kept of them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from vitalfew.configs.evaluation import Method
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.ids import shard_of
from vitalfew.storage.indexes.units import Units
from vitalfew.storage.runs import Run
from vitalfew.tasks.metrics.answers import is_right
from vitalfew.tasks.raters.calibration import calibration_error
from vitalfew.tasks.reports.contents import CandidateChoice, ContextMap, CriticResult
from vitalfew.tasks.reports.runs import read_manifest
from vitalfew.tasks.selectors.fronts import critiqued, front, front_sizes, rank_correlations

Row = Mapping[str, Any]
ASPECTS = ("isrel", "issup", "isuse")


def critic_results(store: Path, run: Run, methods: Sequence[Method]) -> tuple[CriticResult, ...]:
    """A result for every set of candidates that methods choose from. Raises NoReport where an artifact was removed."""
    able = [method for method in methods if method.critique]
    return tuple(_result(store, run, family) for family in _families(run, able).values())


def _families(run: Run, methods: Sequence[Method]) -> dict[str, list[Method]]:
    """Group methods that choose among the same candidates, by their critiques."""
    families: dict[str, list[Method]] = {}
    for method in methods:
        if method.select:
            families.setdefault(run.methods[method.name]["critiques"], []).append(method)
    return families


def _result(store: Path, run: Run, family: Sequence[Method]) -> CriticResult:
    artifacts, critique = run.methods[family[0].name], family[0].critique
    shards = [record.shard for record in read_manifest(store, artifacts["critiques"]).shards]
    judged = pl.concat([_with_truth(store, artifacts, shard) for shard in shards])
    questions = judged.partition_by("question_id", maintain_order=True)
    matrix = critiqued([question.to_dicts() for question in questions])
    errors = {}
    for aspect in ASPECTS:
        known = judged.drop_nulls(f"true_{aspect}")
        if len(known):
            error = calibration_error(known[aspect].to_numpy(), known[f"true_{aspect}"].to_numpy())
            errors[aspect] = (error, len(known))
    return CriticResult(
        critic=critique.critic if critique else "",
        methods=tuple(method.name for method in family),
        questions=len(questions),
        candidates=len(judged) / max(1, len(questions)),
        front=_mean(front_sizes(matrix)),
        correlation=_mean(rank_correlations(matrix)),
        errors=errors,
    )


def _mean(values: np.ndarray) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _with_truth(store: Path, artifacts: Mapping[str, str], shard: int) -> pl.DataFrame:
    """The critiques without an error, with the candidate's text and the truth (`true_isrel`, …): null where gold data
    do not decide it."""

    def read(table: str) -> pl.DataFrame:
        return _rows(store, artifacts[table], shard)

    evidence = read("evidence") if "evidence" in artifacts else pl.DataFrame(schemas.EVIDENCE.empty_table())
    keys, gold = ["question_id", "candidate"], ["answers", "gold_passages", "supporting_facts"]
    judged = (
        read("critiques")
        .filter(pl.col("error") == "")
        .join(read("candidates").select(*keys, "contexts", "text"), keys, maintain_order="left")
        .join(read("asked").select("question_id", *gold), "question_id", maintain_order="left")
    )
    contexts = (
        judged.select(*keys, rank="contexts")
        .explode("rank")
        .join(
            evidence.select("question_id", "rank", "origin", context="text"),
            ["question_id", "rank"],
            maintain_order="left",
        )
        .group_by(keys, maintain_order=True)
        .agg("context", "origin")
    )
    whole = judged.join(contexts, keys, "left", maintain_order="left")
    truths = [_truth(row) for row in whole.iter_rows(named=True)]
    return judged.drop("contexts", *gold).hstack(pl.DataFrame(truths, {f"true_{own}": pl.Boolean for own in ASPECTS}))


def _truth(row: Row) -> dict[str, bool | None]:
    useful = is_right(row["text"], row["answers"]) if row["answers"] else None
    relevant = _relevant(row)
    text = "\n".join(row["context"] or ()).lower()
    answers = relevant and any(answer.lower() in text for answer in row["answers"])
    return {"true_isrel": relevant, "true_issup": useful if answers else None, "true_isuse": useful}


def _relevant(row: Row) -> bool | None:
    """Return whether a context holds a supporting fact, or, where none is marked, a part of a gold passage."""
    facts, passages = row["supporting_facts"], set(row["gold_passages"])
    if not facts and not passages:
        return None
    spans = [span for origin in row["origin"] or () for span in origin]
    if not facts:
        return any(span["passage_id"] in passages for span in spans)
    return any(
        span["passage_id"] == fact["passage_id"] and span["start"] <= fact["start"] and fact["end"] <= span["end"]
        for span in spans
        for fact in facts
    )


def choice(store: Path, run: Run, methods: Sequence[Method]) -> CandidateChoice | None:
    """The question with the most different answers of methods that choose among the same candidates."""
    families = _families(run, methods)
    if not families:
        return None
    critiques, family = max(families.items(), key=lambda family: len(family[1]))
    artifacts = {method.name: run.methods[method.name] for method in family}
    judged = _rows(store, critiques).filter(pl.col("error") == "")
    answers = [
        _rows(store, tables["answers"]).select("question_id", "candidate", method=pl.lit(name))
        for name, tables in artifacts.items()
    ]
    chosen = pl.concat(answers).group_by("question_id", "method", maintain_order=True).agg("candidate")
    different = (
        judged.group_by("question_id", maintain_order=True)
        .len()
        .join(chosen.group_by("question_id").agg(pl.col("candidate").n_unique()), "question_id", maintain_order="left")
        .sort("candidate", "len", descending=True, maintain_order=True)
    )
    if different.is_empty():
        return None
    is_shown = pl.col("question_id") == different["question_id"][0]
    candidates = judged.filter(is_shown)
    matrix = critiqued([candidates.with_columns(text=pl.lit("")).to_dicts()])
    return CandidateChoice(
        question=_rows(store, artifacts[family[0].name]["asked"]).filter(is_shown)["text"][0],
        candidates=tuple(candidates["candidate"]),
        points=tuple(candidates.select("utility_f1", "isrel").rows()),
        on_front=tuple(map(bool, front(matrix)[0])),
        chosen={name: tuple(own) for name, own in chosen.filter(is_shown).select("method", "candidate").rows()},
    )


def context_map(store: Path, run: Run, methods: Sequence[Method]) -> ContextMap | None:
    """The first question from whose hits a refiner leaves out a better one than one that it keeps, else the first one.

    The refiner is that of the first method that keeps some of its hits by the index's vectors."""
    # A context that reaches beyond its hit is no hit; a refiner that chooses by vectors has those of the questions.
    # So does one whose hits stand beside noise.
    able = [method for method in methods if method.retrieve and not method.refine.is_wider]
    with_hits = [method for method in able if "perturbed" not in run.methods[method.name]]
    evidences = {method.name: read_manifest(store, run.methods[method.name]["evidence"]) for method in with_hits}
    method = next((method for method in with_hits if "question_vectors" in evidences[method.name].inputs), None)
    if method is None:
        return None
    artifacts, inputs = run.methods[method.name], evidences[method.name].inputs
    hits, evidence = (
        _rows(store, artifacts[table]).rows_by_key("question_id", named=True, include_key=True)
        for table in ("hits", "evidence")
    )
    kept = {question: _kept(hits[question], rows) for question, rows in evidence.items()}
    if not kept:
        return None
    left_out = (number for number, places in kept.items() if max(places, default=0) >= len(places))
    question = next(left_out, next(iter(kept)))
    used = {role: Artifact(store, *name.split("/")) for role, name in inputs.items()}
    if any(artifact.recorded_manifest() is None for artifact in used.values()):  # the index was removed since
        return None
    asked = _rows(store, artifacts["asked"])
    place = asked["question_id"].to_list().index(question)
    return ContextMap(
        question=asked["text"][place],
        documents=_vectors(used, hits[question]),
        query=tuple(_rows(store, inputs["question_vectors"])["vector"][place]),
        kept=tuple(kept[question]),
        refiner=method.refine.refiner,
    )


def _rows(store: Path, name: str, shard: int | None = None) -> pl.DataFrame:
    """The rows of a shard, by default of the first one."""
    artifact = Artifact(store, *name.split("/"))
    return pl.DataFrame(artifact.read(artifact.completed().shards[0].shard if shard is None else shard))


def _kept(hits: Sequence[Row], evidence: Sequence[Row]) -> list[int]:
    """The places of the hits that became contexts, in the contexts' order."""

    def holds(hit: Row, span: Row) -> bool:
        return hit["passage_id"] == span["passage_id"] and hit["start"] <= span["start"] < hit["end"]

    spans = [span for context in evidence for span in context["origin"]]
    return [next(place for place, hit in enumerate(hits) if holds(hit, span)) for span in spans]


def _vectors(used: Mapping[str, Artifact], hits: Sequence[Row]) -> tuple[tuple[float, ...], ...]:
    passages, ids = (np.array([row[key] for row in hits], np.int64) for key in ("passage_id", "unit_id"))
    shards = shard_of(passages, len(used["passages"].completed().shards))
    vectors = Units(used).vectors(hits[0]["unit"], shards, ids)
    return tuple(tuple(map(float, vector)) for vector in vectors)
