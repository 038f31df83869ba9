"""ask: the questions that every method gets: a condition and a seeded choice, in shards of some hundred."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from configs.evaluation import Questions
from storage import files, schemas
from storage.artifacts import Artifact
from storage.ids import shard_of
from tasks.datasets.base import InputError
from tasks.stage import Progress, ShardResult, Stage

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Ask(Stage):
    """Stage `ask` over the table `questions` of a load artifact."""

    name: ClassVar[str] = "ask"
    table: ClassVar[str] = "asked"
    section: ClassVar[str] = "questions"

    def __init__(self, store: Path, load: Artifact, config: Questions) -> None:
        super().__init__(store, {"passages": load}, config)

    config: Questions

    def config_identity(self) -> dict[str, Any]:
        return self.config.model_dump(mode="json", exclude={"dataset"})  # the load artifact stands for its content

    def method_identity(self) -> dict[str, Any]:
        return {}

    @property
    def _chosen(self) -> Path:
        return self.artifact.file("chosen.npy")

    def prepared(self) -> list[Path]:
        return [self._chosen]

    def prepare(self, progress: Progress) -> None:
        """Choose the questions. Raises InputError if there are none, or if the condition is invalid."""
        ids = np.sort(self._matching())
        if self.config.sample is not None:
            ids = np.sort(ids[np.argsort(_mixed(ids, self.config.seed), kind="stable")[: self.config.sample]])
        files.write_array(self._chosen, ids)

    def _matching(self) -> np.ndarray:
        """The ids of the questions that fulfil the condition, int64."""
        with TemporaryDirectory(prefix="vitalfew-") as spill, duckdb.connect(config=_BOUNDED) as connection:
            connection.execute("SET temp_directory = ?", [spill])
            self._load(connection)
            try:
                # Whoever wrote the experiment wrote the condition: it is one expression, and reaches no file.
                connection.execute("SET enable_external_access = false")
                connection.execute("SET lock_configuration = true")
                condition = duckdb.SQLExpression(self.config.where or "true")
                rows = connection.view("titled").filter(condition).select("question_id").distinct()
                ids = rows.fetchnumpy()["question_id"]
            except duckdb.Error as error:
                raise InputError(f"questions.where = {self.config.where}: {error}") from None
            if not len(ids):
                raise InputError(self._none(connection))
        return np.asarray(ids, np.int64)

    def _load(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Copy the questions and the titles of their gold passages, so that memory follows the questions."""
        for table in ("questions", "passages"):
            connection.from_parquet([str(files.local(path)) for path in self._files(table)]).create_view(f"all_{table}")
        connection.execute(_QUESTIONS)
        connection.execute(_PASSAGES)
        connection.execute("DROP VIEW all_questions; DROP VIEW all_passages")
        connection.execute(_TITLED)

    def _none(self, connection: duckdb.DuckDBPyConnection) -> str:
        sources = connection.sql("SELECT source, count(*) FROM questions GROUP BY ALL ORDER BY ALL").fetchall()
        if not sources:
            return (
                "no questions: the data sets of this index have none; name some with "
                "--set questions.dataset=FORMAT:PATH (see `vitalfew datasets`)"
            )
        there = ", ".join(f"{count:,} of {source}" for source, count in sources)
        return f"questions.where = {self.config.where}: no question fulfils it; there are {there}"

    def _files(self, table: str) -> list[Path]:
        load = self.inputs["passages"]
        return [load.path(record.shard, table) for record in load.completed().shards]

    def _ids(self) -> np.ndarray:
        """The ids of the chosen questions, int64, in order. Raises FileNotFoundError, Damaged."""
        return files.read_array(self.prepared_file(self._chosen))

    def shards(self) -> list[int]:
        return list(range(-(-len(self._ids()) // self.config.batch)))

    def total_rows(self) -> int:
        return len(self._ids())

    def work(self, shard: int, progress: Progress) -> ShardResult:
        size = self.config.batch
        ids = self._ids()[shard * size : (shard + 1) * size]
        column = pc.field("question_id")
        within = (column >= int(ids[0])) & (column <= int(ids[-1]))
        # Both are in the order of ids: a shard of these questions lies in few of those that were loaded.
        loaded = self._files("questions")
        first, last = shard_of(ids[[0, -1]], len(loaded))
        rows = files.read_tables(loaded[first : last + 1], where=within)
        rows = rows.filter(pc.is_in(rows["question_id"], pa.array(ids))).sort_by("question_id")
        progress(rows.num_rows, 0)
        return ShardResult(len(ids), {"asked": rows.select(schemas.ASKED.names).cast(schemas.ASKED)})


_BOUNDED: dict[str, Any] = {
    "memory_limit": "512MB",
    "preserve_insertion_order": False,
    "python_enable_replacements": False,
}
"""What does not fit is spilled; a table that the condition names is none of this module's variables."""

_QUESTIONS = "CREATE TABLE questions AS FROM all_questions"
_PASSAGES = """
CREATE TABLE passages AS SELECT passage_id, title FROM all_passages
WHERE passage_id IN (SELECT unnest(gold_passages) FROM questions)
"""
_TITLED = """
CREATE VIEW titled AS
WITH gold AS (SELECT question_id, unnest(gold_passages) AS passage_id FROM questions),
titles AS (SELECT question_id, list(title) AS titles FROM gold JOIN passages USING (passage_id) GROUP BY ALL)
SELECT questions.*, ifnull(titles, []) AS titles FROM questions LEFT JOIN titles USING (question_id)
"""
"""Every question with the titles of its gold passages."""


def _mixed(ids: np.ndarray, seed: int) -> np.ndarray:
    """A random number for every id, uint64, determined by id and seed (Steele et al., SplitMix64, OOPSLA 2014): a
    question keeps its place in the random order, whatever the other questions are."""
    with np.errstate(over="ignore"):
        mixed = ids.astype(np.uint64) + np.uint64(seed % 2**64) * GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))
