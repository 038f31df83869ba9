"""What the critics of an evaluation leave to choose, and how far their probabilities are off, where gold data tell.

ISREL is true where a context holds a supporting fact (where none is marked: is of a gold passage), as Self-RAG counts
what helps to answer; ISUSE where the answer is right by a gold answer. ISSUP is held against that, too, among relevant
contexts that have a gold answer's text: one hop of several has none to support.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vitalfew.configs.evaluation import Method
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.runs import Run
from vitalfew.tasks.critics.calibration import calibration_error
from vitalfew.tasks.metrics.answers import is_right
from vitalfew.tasks.reports.contents import CriticResult
from vitalfew.tasks.reports.runs import read_manifest
from vitalfew.tasks.selectors import Critiqued, front_sizes, rank_correlations

Row = dict[str, Any]
ASPECTS = ("isrel", "issup", "isuse")


def critic_results(store: Path, run: Run, methods: Sequence[Method]) -> tuple[CriticResult, ...]:
    """Of every set of candidates that methods choose from. Raises NoReport where an artifact was removed since."""
    families: dict[str, list[Method]] = {}
    for method in methods:
        if method.select and method.critique:
            families.setdefault(run.methods[method.name]["critiques"], []).append(method)
    return tuple(_result(store, run, family) for family in families.values())


def _result(store: Path, run: Run, family: Sequence[Method]) -> CriticResult:
    artifacts = run.methods[family[0].name]
    judged: list[list[Row]] = []
    for shard in [record.shard for record in read_manifest(store, artifacts["critiques"]).shards]:
        judged += _by_question(store, artifacts, shard)
    matrix = _matrix(judged)
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


def _by_question(store: Path, artifacts: dict[str, str], shard: int) -> Iterator[list[Row]]:
    """The critiques of each question, with the truth of every aspect that gold data tell; None: they do not."""

    def read(table: str) -> list[Row]:
        found: list[Row] = Artifact(store, *artifacts[table].split("/")).read(shard).to_pylist()
        return found

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
        questions.setdefault(row["question_id"], []).append({**row, "truth": truth})
    yield from questions.values()


def _relevant(question: Row, contexts: Sequence[Row]) -> bool | None:
    """Whether a context holds a supporting fact, or, where none is marked, a part of a gold passage."""
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


def _matrix(judged: Sequence[Sequence[Row]]) -> Critiqued:
    shape = len(judged), max(map(len, judged), default=0)
    scores, usable = np.full((3, *shape), np.nan), np.zeros(shape, bool)
    for line, rows in enumerate(judged):
        scores[:, line, : len(rows)] = [[row[aspect] for row in rows] for aspect in ASPECTS]
        usable[line, : len(rows)] = True
    isrel, issup, isuse = scores
    return Critiqued(isrel, issup, isuse, np.full(shape, np.nan), np.full(shape, -1, np.int64), usable)


def _mean(values: np.ndarray) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _error(rows: Sequence[Row], aspect: str) -> tuple[float, int] | None:
    known = [row for row in rows if row["truth"][aspect] is not None]
    truth = np.array([row["truth"][aspect] for row in known], bool)
    return (calibration_error(np.array([row[aspect] for row in known]), truth), len(known)) if known else None
