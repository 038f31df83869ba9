"""select: candidates and critiques → answers."""

from pathlib import Path
from typing import Any, ClassVar

from vitalfew.configs.evaluation import SelectConfig
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.tasks.selectors.fronts import Selector, critiqued, front
from vitalfew.tasks.stage import MethodStage, Progress, ShardResult


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
        import polars as pl

        columns = ["question_id", "candidate", "text", "logprob", "completion_tokens", "error"]
        candidates = pl.DataFrame(self.inputs["candidates"].read(shard, columns=columns))
        critiques = pl.DataFrame(self.inputs["critiques"].read(shard)).rename({"error": "critique_error"})
        judged = candidates.join(critiques, on=["question_id", "candidate"], how="left", maintain_order="left")
        if judged["critique_error"].null_count():
            raise ValueError(f"shard {shard} of {self.inputs['critiques'].name} lacks critiques of some candidates")
        usable = judged.with_columns(
            error=pl.when(pl.col("error") == "").then("critique_error").otherwise("error"),
            logprob=pl.col("logprob") / pl.max_horizontal(1, "completion_tokens"),
        )
        matrix = critiqued([rows.to_dicts() for rows in usable.partition_by("question_id", maintain_order=True)])
        # The candidates of a question stand together, so the matrix, line by line, has them in the frame's order.
        there, chosen = matrix.same >= 0, self.method.select(matrix)
        marked = judged.with_columns(
            line=pl.col("question_id").rle_id(),
            chosen=chosen.answers[there],
            score=chosen.score[there],
            on_front=front(matrix)[there],
        )
        fallback = marked.filter(~pl.col("chosen").any().over("line")).sort(pl.col("error") != "", maintain_order=True)
        fallback = fallback.unique("line", keep="first").with_columns(score=pl.lit(None, pl.Float64), on_front=False)
        answers = pl.concat([marked.filter("chosen"), fallback])
        best = pl.col("score").fill_nan(float("-inf"))  # a selector's NaN comes last
        answers = answers.sort("line", best, descending=[False, True], maintain_order=True).with_columns(
            rank=pl.int_range(1, pl.len() + 1).over("line"), strategy=pl.lit(self.config.selector)
        )
        progress(len(candidates), 0)
        notes = {"errors": answers.filter(pl.col("error") != "").height}
        table = answers.select(schemas.ANSWERS.names).to_arrow().cast(schemas.ANSWERS)
        return ShardResult(len(candidates), {self.table: table}, notes=notes)
