"""appraise: question, hits, evidence → `appraisals`: how faithful to the hits are the contexts, and how complete?

Hits are shown with their titles, contexts below each other, as the prompt has them. Contexts that reach beyond their
hits (refine.text=window, passage) are set beside the hits alone, and seem to add what stands around them.
"""

from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from vitalfew.configs.probing import AppraiseConfig
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.tasks.appraisers.base import Appraisal, Appraiser, Refined
from vitalfew.tasks.encoders import titles
from vitalfew.tasks.models.ticks import Counted
from vitalfew.tasks.stage import MethodStage, Progress, ShardResult

NO_CONTEXT = "there is no context to appraise"


class Appraise(MethodStage):
    """Stage `appraise` over `evidence`, by one appraiser. A question without contexts is an error row."""

    name: ClassVar[str] = "appraise"
    table: ClassVar[str] = "appraisals"
    over: ClassVar[str] = "evidence"
    counts: ClassVar[str] = "asked"
    section: ClassVar[str] = "appraise"
    role: ClassVar[str | None] = "appraiser"

    def __init__(
        self, store: Path, asked: Artifact, hits: Artifact, evidence: Artifact, config: AppraiseConfig
    ) -> None:
        """`hits`: as the refiner was given them. Raises UnknownName, ConfigError, EngineUnavailable."""
        super().__init__(store, {"asked": asked, "hits": hits, "evidence": evidence}, config)

    config: AppraiseConfig
    method: Appraiser

    def work(self, shard: int, progress: Progress) -> ShardResult:
        asked = self.inputs["asked"].read(shard, columns=["question_id", "text"])
        questions = dict(zip(asked["question_id"].to_pylist(), asked["text"].to_pylist(), strict=True))
        hits = _texts(self.inputs["hits"].read(shard, columns=["question_id", "title", "text"]))
        contexts = _texts(self.inputs["evidence"].read(shard, columns=["question_id", "text"]))
        due = [key for key in questions if key in contexts]
        progress(len(questions) - len(due), 0)
        tick = Counted(progress)
        batch = [Refined(questions[key], tuple(hits[key]), "\n".join(contexts[key])) for key in due]
        appraised = dict(zip(due, self.method.appraise(batch, tick), strict=True))
        rows = [_row(key, appraised.get(key, Appraisal(None, None, error=NO_CONTEXT))) for key in questions]
        notes = {"errors": sum(bool(row["error"]) for row in rows)}
        table = pa.Table.from_pylist(rows, schemas.APPRAISALS)
        return ShardResult(len(questions), {self.table: table}, tokens=tick.tokens, notes=notes)


def _texts(rows: pa.Table) -> dict[int, list[str]]:
    """By question its texts in their order, each with its title where there is one."""
    found: dict[int, list[str]] = {}
    for row in rows.to_pylist():
        found.setdefault(row["question_id"], []).append(titles.lead(row.get("title", "")) + row["text"].strip())
    return found


def _row(question: int, appraisal: Appraisal) -> dict[str, Any]:
    columns = {"faithfulness": appraisal.faithfulness, "completeness": appraisal.completeness}
    return {"question_id": question, **columns, "explanation": appraisal.explanation, "error": appraisal.error}
