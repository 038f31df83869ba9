"""Critiqued candidates of an evaluation: what critics leave to choose, and single questions to look at.

Gold data show the calibration error of a critic. ISREL is true where a context holds a supporting fact (where none is
marked: is of a gold passage), as Self-RAG counts what helps to answer; ISUSE where the answer is right by a gold
answer. ISSUP is held against that, too, among relevant contexts that have a gold answer's text: one hop of several has
none to support.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from vitalfew.configs.evaluation import Method
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.runs import Run
from vitalfew.tasks.metrics.answers import is_right
from vitalfew.tasks.raters.calibration import calibration_error
from vitalfew.tasks.reports.contents import CriticResult
from vitalfew.tasks.reports.runs import read_manifest
from vitalfew.tasks.selectors.fronts import critiqued, front_sizes, rank_correlations

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


def _rows(store: Path, name: str, shard: int | None = None) -> pl.DataFrame:
    """The rows of a shard, by default of the first one."""
    artifact = Artifact(store, *name.split("/"))
    return pl.DataFrame(artifact.read(artifact.completed().shards[0].shard if shard is None else shard))
