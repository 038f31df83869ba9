"""select: candidates and critiques → answers."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from vitalfew.configs.evaluation import SelectConfig
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.tasks.metrics.answers import normalise
from vitalfew.tasks.registry import make
from vitalfew.tasks.selectors import Critiqued, Selected, Selector, front
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

    make = staticmethod(make)
    config: SelectConfig
    method: Selector

    def method_identity(self) -> dict[str, Any]:
        return {"selector": self.config.selector, "version": self.method.version}

    def work(self, shard: int, progress: Progress) -> ShardResult:
        columns = ["question_id", "candidate", "text", "logprob", "completion_tokens", "error"]
        candidates = self.inputs["candidates"].read(shard, columns=columns).to_pylist()
        critiques = self.inputs["critiques"].read(shard).to_pylist()
        judged = {(row["question_id"], row["candidate"]): row for row in critiques}
        questions: dict[int, list[Row]] = {}
        for row in candidates:
            questions.setdefault(row["question_id"], []).append(row)
        matrix = critiqued([*questions.values()], judged)
        chosen, on_front = self.method.select(matrix), front(matrix)
        rows = [
            {**row, "question_id": question, "strategy": self.config.selector}
            for line, (question, answers) in enumerate(questions.items())
            for row in _answers(answers, chosen, on_front, line)
        ]
        progress(len(candidates), 0)
        notes = {"errors": sum(bool(row["error"]) for row in rows)}
        return ShardResult(len(candidates), {self.table: pa.Table.from_pylist(rows, schemas.ANSWERS)}, notes=notes)


def critiqued(questions: list[list[Row]], critiques: dict[tuple[int, int], Row]) -> Critiqued:
    """The candidates as a matrix: a line per question, padded with unusable entries."""
    shape = (len(questions), max(map(len, questions), default=0))
    scores = {name: np.full(shape, np.nan) for name in ("isrel", "issup", "isuse", "logprob")}
    same, usable = np.full(shape, -1, np.int64), np.zeros(shape, bool)
    for line, candidates in enumerate(questions):
        numbers: dict[str, int] = {}
        for place, row in enumerate(candidates):
            critique = critiques[row["question_id"], row["candidate"]]
            same[line, place] = numbers.setdefault(normalise(row["text"]), len(numbers))
            if row["error"] or critique["error"]:
                continue
            usable[line, place] = True
            for name in ("isrel", "issup", "isuse"):
                scores[name][line, place] = critique[name]
            if row["logprob"] is not None:
                scores["logprob"][line, place] = row["logprob"] / max(1, row["completion_tokens"])
    return Critiqued(**scores, same=same, usable=usable)


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
