"""Further stages for tests, as a user would have them: one with a table of its own, one that rewrites the evidence."""

from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from vitalfew.configs.section import Config
from vitalfew.storage import schemas
from vitalfew.storage.schemas import column, described
from vitalfew.tasks.stage import FurtherStage, Progress, ShardResult


class Longest(FurtherStage):
    """Which context is the longest."""

    name: ClassVar[str] = "longest"
    table: ClassVar[str] = "longest"
    section: ClassVar[str] = "stages.longest"
    after: ClassVar[str] = "generate"
    reads: ClassVar[tuple[str, ...]] = ("evidence", "candidates")
    schema: ClassVar[pa.Schema] = described(
        "the longest context of a question",
        column("question_id", pa.int64(), "the question"),
        column("tokens", pa.int32(), "its length", unit="words"),
    )

    def work(self, shard: int, progress: Progress) -> ShardResult:
        evidence = self.inputs["evidence"].read(shard, columns=["question_id", "tokens"])
        rows = evidence.group_by("question_id", use_threads=False).aggregate([("tokens", "max")])
        progress(evidence.num_rows, 0)
        written = pa.table([rows["question_id"], rows["tokens_max"]], schema=self.schema)
        return ShardResult(evidence.num_rows, {self.table: written})


class First(FurtherStage):
    """The first contexts alone."""

    class Options(Config):
        keep: int = Field(1, ge=1)

    name: ClassVar[str] = "first"
    table: ClassVar[str] = "evidence"
    section: ClassVar[str] = "stages.first"
    after: ClassVar[str] = "refine"
    reads: ClassVar[tuple[str, ...]] = ("evidence",)
    config: Options

    def work(self, shard: int, progress: Progress) -> ShardResult:
        evidence = self.inputs["evidence"].read(shard)
        kept = [row for row in evidence.to_pylist() if row["rank"] <= self.config.keep]
        progress(evidence.num_rows, 0)
        return ShardResult(evidence.num_rows, {self.table: pa.Table.from_pylist(kept, schemas.EVIDENCE)})
