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
from vitalfew.tasks.registry import make, with_options
from vitalfew.tasks.stage import Progress, ShardResult, Stage

NO_CONTEXT = "there is no context to appraise"


class Appraise(Stage):
    """Stage `appraise` over `evidence`, by one appraiser. A question without contexts is an error row."""

    name: ClassVar[str] = "appraise"
    table: ClassVar[str] = "appraisals"
    section: ClassVar[str] = "appraise"
    role: ClassVar[str | None] = "appraiser"

    def __init__(
        self, store: Path, asked: Artifact, hits: Artifact, evidence: Artifact, config: AppraiseConfig
    ) -> None:
        """`hits`: as the refiner was given them. Raises UnknownName, ConfigError, EngineUnavailable."""
        options = with_options(config, self.name)
        self.appraiser: Appraiser = make(options, self.name)
        super().__init__(store, {"asked": asked, "hits": hits, "evidence": evidence}, options)
        self.num_gpus = 1.0 if self.appraiser.uses_gpu else 0.0
        self.workers = self.appraiser.workers

    config: AppraiseConfig

    def __getstate__(self) -> dict[str, Any]:
        # A worker constructs its own appraiser: a model is not pickled.
        return {name: value for name, value in vars(self).items() if name != "appraiser"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.appraiser = make(self.config, self.name)

    def config_identity(self) -> dict[str, Any]:
        return self.config.identity()

    def method_identity(self) -> dict[str, Any]:
        return self.appraiser.identity()

    def shards(self) -> list[int]:
        return [record.shard for record in self.inputs["evidence"].completed().shards]

    def total_rows(self) -> int:
        return self.inputs["asked"].completed().rows["asked"]

    def work(self, shard: int, progress: Progress) -> ShardResult:
        asked = self.inputs["asked"].read(shard, columns=["question_id", "text"])
        questions = dict(zip(asked["question_id"].to_pylist(), asked["text"].to_pylist(), strict=True))
        hits = _texts(self.inputs["hits"].read(shard, columns=["question_id", "title", "text"]))
        contexts = _texts(self.inputs["evidence"].read(shard, columns=["question_id", "text"]))
        due = [key for key in questions if key in contexts]
        progress(len(questions) - len(due), 0)
        tokens = 0

        def tick(rows: int, computed: int) -> None:
            nonlocal tokens
            tokens += computed
            progress(rows, computed)

        batch = [Refined(questions[key], tuple(hits[key]), "\n".join(contexts[key])) for key in due]
        appraised = dict(zip(due, self.appraiser.appraise(batch, tick), strict=True))
        rows = [_row(key, appraised.get(key, Appraisal(None, None, error=NO_CONTEXT))) for key in questions]
        notes = {"errors": sum(bool(row["error"]) for row in rows)}
        table = pa.Table.from_pylist(rows, schemas.APPRAISALS)
        return ShardResult(len(questions), {self.table: table}, tokens=tokens, notes=notes)


def _texts(rows: pa.Table) -> dict[int, list[str]]:
    """By question its texts in their order, each with its title where there is one."""
    found: dict[int, list[str]] = {}
    for row in rows.to_pylist():
        found.setdefault(row["question_id"], []).append(titles.lead(row.get("title", "")) + row["text"].strip())
    return found


def _row(question: int, appraisal: Appraisal) -> dict[str, Any]:
    columns = {"faithfulness": appraisal.faithfulness, "completeness": appraisal.completeness}
    return {"question_id": question, **columns, "explanation": appraisal.explanation, "error": appraisal.error}
