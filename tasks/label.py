"""label: hits → `labels`, one for every pair of question and passage: is the passage relevant to the question?"""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from vitalfew.configs.evaluation import LabelConfig
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.ids import shard_of
from vitalfew.storage.indexes.units import Units
from vitalfew.tasks.labellers.base import Label as Verdict
from vitalfew.tasks.labellers.base import Labelled, Labeller
from vitalfew.tasks.models.ticks import Counted
from vitalfew.tasks.stage import MethodStage, Progress, ShardResult


class Label(MethodStage):
    """Stage `label` over the hits of a method. A passage with several retrieved units is labelled once."""

    name: ClassVar[str] = "label"
    table: ClassVar[str] = "labels"
    over: ClassVar[str] = "hits"
    section: ClassVar[str] = "label"
    role: ClassVar[str | None] = "labeller"

    def __init__(self, store: Path, asked: Artifact, hits: Artifact, passages: Artifact, config: LabelConfig) -> None:
        """`passages`: the load artifact of the index that was searched. Raises UnknownName, ConfigError."""
        super().__init__(store, {"asked": asked, "hits": hits, "passages": passages}, config)

    config: LabelConfig
    method: Labeller

    def work(self, shard: int, progress: Progress) -> ShardResult:
        hits = self.inputs["hits"].read(shard, columns=["question_id", "passage_id"])
        pairs = list(dict.fromkeys(zip(hits["question_id"].to_pylist(), hits["passage_id"].to_pylist(), strict=True)))
        progress(hits.num_rows - len(pairs), 0)
        tick = Counted(progress)
        verdicts = self.method.label(self._labelled(shard, pairs), tick)
        rows = [_row(*pair, verdict) for pair, verdict in zip(pairs, verdicts, strict=True)]
        notes = {"errors": sum(bool(verdict.error) for verdict in verdicts)}
        table = pa.Table.from_pylist(rows, schemas.LABELS)
        return ShardResult(hits.num_rows, {self.table: table}, tokens=tick.tokens, notes=notes)

    def _labelled(self, shard: int, pairs: list[tuple[int, int]]) -> list[Labelled]:
        questions = {row["question_id"]: row for row in self.inputs["asked"].read(shard).to_pylist()}
        passages = _Passages(self.inputs["passages"])
        labelled = []
        for question_id, passage_id in pairs:
            question, passage = questions[question_id], passages.row(passage_id)
            facts = [fact for fact in question["supporting_facts"] if fact["passage_id"] == passage_id]
            titles = dict.fromkeys(title for gold in question["gold_passages"] if (title := passages.title(gold)))
            labelled.append(
                Labelled(
                    question=question["text"],
                    answers=tuple(question["answers"]),
                    gold_passages=tuple(question["gold_passages"]),
                    facts=tuple((fact["start"], fact["end"]) for fact in facts),
                    passage_id=passage_id,
                    title=passage["title"],
                    text=passage["text"],
                    gold_titles=tuple(titles),
                )
            )
        return labelled


class _Passages:
    """The rows of `passages`, by id."""

    def __init__(self, load: Artifact) -> None:
        self.units, self.shards = Units({"passages": load}), len(load.completed().shards)

    def row(self, passage_id: int) -> dict[str, Any]:
        return self.units.passage(self._shard(passage_id), passage_id)

    def title(self, passage_id: int) -> str:
        """'' where the corpus lacks the passage, as it may lack gold ones."""
        row = self.units.find_passage(self._shard(passage_id), passage_id)
        return str(row["title"]) if row else ""

    def _shard(self, passage_id: int) -> int:
        return int(shard_of(np.array(passage_id, np.int64), self.shards))


def _row(question_id: int, passage_id: int, verdict: Verdict) -> dict[str, Any]:
    """A row of `labels`."""
    columns = {"rater": verdict.rater, "critic": verdict.critic, "label": verdict.label, "error": verdict.error}
    return {"question_id": question_id, "passage_id": passage_id, **columns}
