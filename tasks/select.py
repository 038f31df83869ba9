"""select: candidates and critiques → answers."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from vitalfew.configs.evaluation import SelectConfig
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.tasks.selectors import Selected, Selector, critiqued, front
from vitalfew.tasks.stage import MethodStage, Progress, ShardResult

Row = dict[str, Any]


class Select(MethodStage):
    """Stage `select` over `candidates` and their `critiques`, by one selector: at least one answer to a question.

    If no candidate of a question could be critiqued, its answer is the first candidate without an error; if there is
    none, the question gets a row with an error.
    """

    name: ClassVar[str] = "select"
    table: ClassVar[str] = "answers"
    over: ClassVar[str] = "candidates"
    section: ClassVar[str] = "select"

    def __init__(self, store: Path, candidates: Artifact, critiques: Artifact, config: SelectConfig) -> None:
        """Raises UnknownName, ConfigError."""
        super().__init__(store, {"candidates": candidates, "critiques": critiques}, config)

    shared: ClassVar[bool] = False
    config: SelectConfig
    method: Selector

    def method_identity(self) -> dict[str, Any]:
        return {"selector": self.config.selector, "version": self.method.version}

    def work(self, shard: int, progress: Progress) -> ShardResult:
        columns = ["question_id", "candidate", "text", "logprob", "completion_tokens", "error"]
        candidates = self.inputs["candidates"].read(shard, columns=columns).to_pylist()
        critiques = self.inputs["critiques"].read(shard).to_pylist()
        judgements = {(row["question_id"], row["candidate"]): row for row in critiques}
        questions: dict[int, list[Row]] = {}
        for row in candidates:
            questions.setdefault(row["question_id"], []).append(row)
        matrix = critiqued(
            [
                [_judged(row, judgements[row["question_id"], row["candidate"]]) for row in answers]
                for answers in questions.values()
            ]
        )
        chosen, on_front = self.method.select(matrix), front(matrix)
        rows = [
            {**row, "question_id": question, "strategy": self.config.selector}
            for line, (question, answers) in enumerate(questions.items())
            for row in _answers(answers, chosen, on_front, line)
        ]
        progress(len(candidates), 0)
        notes = {"errors": sum(bool(row["error"]) for row in rows)}
        return ShardResult(len(candidates), {self.table: pa.Table.from_pylist(rows, schemas.ANSWERS)}, notes=notes)


def _judged(candidate: Row, critique: Row) -> Row:
    """A candidate with its scores."""
    logprob = candidate["logprob"]
    per_token = None if logprob is None else logprob / max(1, candidate["completion_tokens"])
    error = candidate["error"] or critique["error"]
    return {**critique, "text": candidate["text"], "error": error, "logprob": per_token}


def _answers(candidates: list[Row], chosen: Selected, on_front: np.ndarray, line: int) -> list[Row]:
    """The answers of a question, best first; on a tie the earlier candidate comes first."""
    places = np.flatnonzero(chosen.answers[line])
    places = places[np.argsort(-chosen.score[line, places], kind="stable")]
    if not len(places):
        first = next((place for place, row in enumerate(candidates) if not row["error"]), 0)
        return [{**_taken(candidates[first]), "rank": 1, "score": None, "on_front": False}]
    return [
        {
            **_taken(candidates[place]),
            "rank": rank,
            "score": float(chosen.score[line, place]),
            "on_front": bool(on_front[line, place]),
        }
        for rank, place in enumerate(places, 1)
    ]


def _taken(candidate: Row) -> Row:
    return {name: candidate[name] for name in ("candidate", "text", "error")}
