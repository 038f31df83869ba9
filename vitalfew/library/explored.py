"""Methods of a finished evaluation as SQL over the files of their artifacts, and questions by who is right."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl
from polars import DataFrame

from vitalfew.storage import files
from vitalfew.storage.catalog.database import answers
from vitalfew.storage.catalog.views import quoted
from vitalfew.storage.runs import Run
from vitalfew.tasks.reports.runs import read_manifest

RIGHT = 0.5
"""An answer is right where the metric is at least this: 1 of a metric of right or wrong, half of one from 0 to 1."""
ORDERS = ("question", "source", "value", "other_value", "difference")
"""Columns by which questions are ordered."""


@dataclass(frozen=True)
class Explored:
    """A method of a run, under the name of its row in the report. `tables`: by table the names of its artifacts, one
    for every seed; the answers are those of the first."""

    store: Path
    run: Run
    name: str
    tables: dict[str, tuple[str, ...]]

    def rows(self, table: str, seed: int = 0, shard: int | None = None) -> str:
        """SQL of the rows of a table, of all shards or one. Raises NoReport where the artifact was removed."""
        root = files.absolute(self.store)
        manifest = read_manifest(self.store, self.tables[table][seed])
        shards = [record for record in manifest.shards if shard is None or record.shard == shard]
        paths = [str(root / file.path) for record in shards for file in record.files if file.table == table]
        return f"read_parquet([{', '.join(map(quoted, paths))}])"

    def scored(self, metric: str) -> str:
        """SQL of question_id and value: the mean over seeds."""
        seeds = (
            f"SELECT question_id, value FROM {self.rows('scores', seed)} WHERE metric = {quoted(metric)}"
            for seed in range(len(self.tables["scores"]))
        )
        return f"SELECT question_id, avg(value) AS value FROM ({' UNION ALL '.join(seeds)}) GROUP BY question_id"

    def answered(self) -> str:
        """SQL of question_id, text and error: the answer that was chosen first, or the only one."""
        table, chosen = ("answers", "rank = 1") if "answers" in self.tables else ("candidates", "candidate = 0")
        if table not in self.tables:
            return "SELECT NULL::BIGINT AS question_id, NULL::VARCHAR AS text, NULL::VARCHAR AS error WHERE false"
        return f"SELECT question_id, text, error FROM {self.rows(table)} WHERE {chosen}"


@dataclass(frozen=True)
class Scored:
    """One method, or two on the questions that both were asked, with the values of a metric: read once, and kept."""

    sides: tuple[Explored, ...]
    metric: str

    @cached_property
    def values(self) -> DataFrame:
        """A row per question: question_id, source, value, other_value and difference (null without a second method).

        Raises QueryError, and NoReport where an artifact was removed."""
        one, other = self.sides[0], self.sides[-1]
        both = f"WHERE question_id IN (SELECT question_id FROM {other.rows('asked')})"
        second = "b.value" if len(self.sides) > 1 else "NULL::DOUBLE"
        return read_frames(
            one.store,
            f"WITH a AS ({one.scored(self.metric)}), b AS ({other.scored(self.metric)}) "
            f"SELECT question_id, source, a.value, {second} AS other_value, {second} - a.value AS difference "
            f"FROM {one.rows('asked')} LEFT JOIN a USING (question_id) LEFT JOIN b USING (question_id) "
            f"{both if other.tables['asked'][0] != one.tables['asked'][0] else ''}",
        )[0]


@dataclass(frozen=True)
class QuestionFilter:
    """Questions that fit, with the values and answers of one method or two. Texts are read of what is returned alone.

    A notebook shows the first of them; `len` counts them.
    """

    scored: Scored
    right: bool | None = None
    other_right: bool | None = None
    changed: bool = False
    source: str = ""
    containing: str = ""

    @property
    def sides(self) -> tuple[Explored, ...]:
        """The methods."""
        return self.scored.sides

    @property
    def metric(self) -> str:
        """The metric that says which answers are right."""
        return self.scored.metric

    def pl(
        self, order: str = "difference", descending: bool = True, limit: int | None = None, offset: int = 0
    ) -> DataFrame:
        """A row per question: question_id, question, gold_answers, source, value, answer, error; with a second method
        also other_value, other_answer, other_error and difference (the second minus the first).

        `order`: one of `ORDERS`; by "difference" the greatest of either sign come first. Raises ValueError for another.
        """
        rows = self._ordered(order, descending).slice(offset, limit)
        among = f"WHERE question_id IN ({', '.join(map(str, rows['question_id'])) or 'NULL'})" if limit else ""
        asked = self.sides[0].rows("asked")
        texts = [f"SELECT question_id, text AS question, answers AS gold_answers FROM {asked} {among}"]
        texts += [f"SELECT * FROM ({side.answered()}) {among}" for side in self.sides]
        for place, table in enumerate(read_frames(self.sides[0].store, *texts)):
            prefix = "other_" if place == 2 else ""
            named = table.rename({"text": f"{prefix}answer", "error": f"{prefix}error"}, strict=False)
            rows = rows.join(named, "question_id", "left", maintain_order="left")
        columns = ["question_id", "question", "gold_answers", "source", "value", "answer", "error"]
        second = ["other_value", "other_answer", "other_error", "difference"] if len(self.sides) > 1 else []
        return rows.select(columns + second)

    def __len__(self) -> int:
        return len(self._fitting)

    def cells(self) -> DataFrame:
        """How many questions there are of every kind, whatever `right` and `other_right` say: is_right, other_is_right
        (null: no value, or no second method), questions."""
        kinds = self._among.group_by("is_right", "other_is_right").len("questions")
        return kinds.with_columns(pl.col("questions").cast(pl.Int64))

    def around(
        self, question: int, order: str = "difference", descending: bool = True
    ) -> tuple[int | None, int | None]:
        """The ids of the questions before and after one; None where it is the first, the last, or not among these."""
        ids = self._ordered(order, descending)["question_id"]
        place = ids.index_of(question)
        if place is None:
            return None, None
        return ids[place - 1] if place else None, ids[place + 1] if place + 1 < len(ids) else None

    def __repr__(self) -> str:
        return f"QuestionFilter({' / '.join(side.name for side in self.sides)}, {self.metric}: {len(self):,} questions)"

    def _repr_html_(self) -> str:
        return self.pl(limit=20)._repr_html_()

    @cached_property
    def _among(self) -> DataFrame:
        """Those of the data set and with the text, and on which of them the methods are right."""
        rows = self.scored.values
        if self.source:
            rows = rows.filter(source=self.source)
        if self.containing:
            text = quoted(self.containing.replace("\0", ""))
            found = f"SELECT question_id FROM {self.sides[0].rows('asked')} WHERE contains(lower(text), lower({text}))"
            rows = rows.join(read_frames(self.sides[0].store, found)[0], "question_id", "semi")
        return rows.with_columns(is_right=pl.col("value") >= RIGHT, other_is_right=pl.col("other_value") >= RIGHT)

    @cached_property
    def _fitting(self) -> DataFrame:
        rows = self._among
        for name, wanted in (("is_right", self.right), ("other_is_right", self.other_right)):
            rows = rows if wanted is None else rows.filter(pl.col(name) == wanted)
        return rows.filter(pl.col("value") != pl.col("other_value")) if self.changed else rows

    def _ordered(self, order: str, descending: bool) -> DataFrame:
        if order not in ORDERS or (order == "other_value" and len(self.sides) < 2):
            raise ValueError(f"order: give one of {', '.join(ORDERS)}, got {order!r}")
        rows, by = self._fitting, pl.col(order)
        if order == "question":
            places = (
                f"SELECT question_id, row_number() OVER (ORDER BY text) AS question FROM {self.sides[0].rows('asked')}"
            )
            rows = rows.join(read_frames(self.sides[0].store, places)[0], "question_id", "left")
        if order == "difference":
            by = pl.col("difference").abs() if len(self.sides) > 1 else pl.col("value")
        return rows.sort(by, "question_id", descending=[descending, False], nulls_last=True)


def read_frames(store: Path, *statements: str) -> list[DataFrame]:
    """The rows of statements. Raises QueryError."""
    return [DataFrame(table) for table in answers(store, *statements)]
