"""critique: question, evidence, candidates → critiques."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from vitalfew.configs.evaluation import CritiqueConfig
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.tasks.critics.base import Candidate, Critic, Judgement, uncritical
from vitalfew.tasks.models.ticks import Counted
from vitalfew.tasks.selectors import geometric_mean, harmonic_mean
from vitalfew.tasks.stage import MethodStage, Progress, ShardResult

SCORES = ("isrel", "issup", "isuse")


class Critique(MethodStage):
    """Stage `critique` over `candidates`, by one critic. All candidates of a shard are judged in one batch."""

    name: ClassVar[str] = "critique"
    table: ClassVar[str] = "critiques"
    over: ClassVar[str] = "candidates"
    section: ClassVar[str] = "critique"
    role: ClassVar[str | None] = "critic"

    def __init__(
        self, store: Path, asked: Artifact, evidence: Artifact | None, candidates: Artifact, config: CritiqueConfig
    ) -> None:
        """Raises UnknownName, ConfigError, CriticUnavailable, EngineUnavailable."""
        inputs = {"asked": asked, "candidates": candidates} | ({"evidence": evidence} if evidence else {})
        super().__init__(store, inputs, config)

    config: CritiqueConfig
    method: Critic

    def work(self, shard: int, progress: Progress) -> ShardResult:
        candidates = self.inputs["candidates"].read(shard).to_pylist()
        answered = [row for row in candidates if not row["error"]]
        progress(len(candidates) - len(answered), 0)
        tick = Counted(progress)
        judgements = iter(self.method.critique(self._candidates(answered, shard), tick))
        rows = [
            _row(row, uncritical(f"no answer: {row['error']}") if row["error"] else next(judgements))
            for row in candidates
        ]
        notes = {"errors": sum(bool(row["error"]) for row in rows)}
        table = pa.Table.from_pylist(rows, schemas.CRITIQUES)
        return ShardResult(len(candidates), {self.table: table}, tokens=tick.tokens, notes=notes)

    def _candidates(self, candidates: list[dict[str, Any]], shard: int) -> list[Candidate]:
        asked = self.inputs["asked"].read(shard, columns=["question_id", "text"])
        questions = dict(zip(asked["question_id"].to_pylist(), asked["text"].to_pylist(), strict=True))
        contexts: dict[tuple[int, int], str] = {}
        if "evidence" in self.inputs:
            evidence = self.inputs["evidence"].read(shard, columns=["question_id", "rank", "text"])
            contexts = {(row["question_id"], row["rank"]): row["text"] for row in evidence.to_pylist()}
        return [
            Candidate(
                question=questions[row["question_id"]],
                context="\n\n".join(contexts[row["question_id"], rank] for rank in row["contexts"]),
                answer=row["text"],
                probabilities={token["token"]: token["probability"] for token in row["probabilities"]},
            )
            for row in candidates
        ]


def _row(candidate: dict[str, Any], judgement: Judgement) -> dict[str, Any]:
    """A failed judgement has no scores; a score that is not a number from 0 to 1 makes the judgement fail."""
    key = {"question_id": candidate["question_id"], "candidate": candidate["candidate"]}
    scores = {name: float(getattr(judgement, name)) for name in SCORES}
    outside = [f"{name} = {score:g}" for name, score in scores.items() if not 0 <= score <= 1]  # so is NaN
    error = judgement.error or (f"the critic gave {', '.join(outside)}; scores must be from 0 to 1" if outside else "")
    if error:
        return {**key, "error": error}
    isrel, issup, isuse = (np.array([scores[name]]) for name in SCORES)
    means = {"utility_f1": harmonic_mean(isuse, issup), "geometric_mean": geometric_mean(isrel, issup, isuse)}
    return {**key, **scores, **{name: mean.item() for name, mean in means.items()}, "error": ""}
