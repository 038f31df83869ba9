"""Methods of a finished evaluation as SQL over the files of their artifacts, and questions by who is right."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vitalfew.storage import files
from vitalfew.storage.catalog.database import answers
from vitalfew.storage.catalog.views import quoted
from vitalfew.storage.runs import Run
from vitalfew.tasks.reports.runs import read_manifest

if TYPE_CHECKING:
    from polars import DataFrame

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
        seeds = [
            f"SELECT question_id, value FROM {self.rows('scores', seed)} WHERE metric = {quoted(metric)}"
            for seed in range(len(self.tables["scores"]))
        ]
        if len(seeds) == 1:
            return seeds[0]
        return f"SELECT question_id, avg(value) AS value FROM ({' UNION ALL '.join(seeds)}) GROUP BY question_id"

    def answered(self) -> str:
        """SQL of question_id, text and error: the answer that was chosen first, or the only one."""
        table, chosen = ("answers", "rank = 1") if "answers" in self.tables else ("candidates", "candidate = 0")
        if table not in self.tables:
            return "SELECT NULL::BIGINT AS question_id, NULL::VARCHAR AS text, NULL::VARCHAR AS error WHERE false"
        return f"SELECT question_id, text, error FROM {self.rows(table)} WHERE {chosen}"


class QuestionFilter:
    """Questions that fit, with the values and answers of one method or two. Every call reads just what it returns.

    A notebook shows the first of them; `len` counts them.
    """

    def __init__(
        self,
        store: Path,
        sides: tuple[Explored, ...],
        metric: str,
        right: bool | None = None,
        other_right: bool | None = None,
        changed: bool = False,
        source: str = "",
        containing: str = "",
    ) -> None:
        self.store, self.sides, self.metric = store, sides, metric
        self.right, self.other_right, self.changed = right, other_right, changed
        self.source, self.containing = source, containing

    def pl(
        self, order: str = "difference", descending: bool = True, limit: int | None = None, offset: int = 0
    ) -> "DataFrame":
        """A row per question: question_id, question, gold_answers, source, value, answer, error; with a second method
        also other_value, other_answer, other_error and difference (the second minus the first).

        `order`: one of `ORDERS`; by "difference" the greatest of either sign come first. Raises ValueError for another.
        """
        rows = f"LIMIT {int(limit)} OFFSET {int(offset)}" if limit is not None else ""
        shown = "WHERE question_id IN (SELECT question_id FROM shown)"
        sides = enumerate(self.sides)
        answers = "".join(f", answer_{n} AS (SELECT * FROM ({side.answered()}) {shown})" for n, side in sides)
        columns = "s.question_id, s.question, s.gold_answers, s.source, s.value, a.text AS answer, a.error"
        joined = "LEFT JOIN answer_0 AS a USING (question_id)"
        if len(self.sides) > 1:
            columns += ", s.other_value, b.text AS other_answer, b.error AS other_error, s.difference"
            joined += " LEFT JOIN answer_1 AS b USING (question_id)"
        by = self._order(order, descending)
        return self._read(
            f"{self._with()}, shown AS (SELECT *, row_number() OVER (ORDER BY {by}) AS place "
            f"FROM fitting ORDER BY place {rows}){answers} SELECT {columns} FROM shown AS s {joined} ORDER BY s.place"
        )

    def __len__(self) -> int:
        return int(self._read(f"{self._with()} SELECT count(*) AS n FROM fitting")["n"][0])

    def cells(self) -> "DataFrame":
        """How many questions there are of every kind, whatever `right` and `other_right` say: is_right, other_is_right
        (null: no value, or no second method), questions."""
        return self._read(
            f"{self._with()} SELECT is_right, other_is_right, count(*) AS questions FROM base GROUP BY ALL"
        )

    def around(
        self, question: int, order: str = "difference", descending: bool = True
    ) -> tuple[int | None, int | None]:
        """The ids of the questions before and after one; None where it is the first, the last, or not among these."""
        by = self._order(order, descending)
        rows = self._read(
            f"{self._with()}, placed AS (SELECT question_id, lag(question_id) OVER w AS before, "
            f"lead(question_id) OVER w AS after FROM fitting WINDOW w AS (ORDER BY {by})) "
            f"SELECT before, after FROM placed WHERE question_id = {int(question)}"
        ).rows()
        return rows[0] if rows else (None, None)

    def __repr__(self) -> str:
        return f"QuestionFilter({' / '.join(side.name for side in self.sides)}, {self.metric}: {len(self):,} questions)"

    def _repr_html_(self) -> str:
        return self.pl(limit=20)._repr_html_()

    def _order(self, order: str, descending: bool) -> str:
        if order not in ORDERS or (order in ORDERS[3:] and len(self.sides) < 2 and order != "difference"):
            raise ValueError(f"order: give one of {', '.join(ORDERS)}, got {order!r}")
        by = (
            {"difference": "abs(difference)"}.get(order, order)
            if len(self.sides) > 1 or order != "difference"
            else "value"
        )
        return f"{by} {'DESC' if descending else 'ASC'} NULLS LAST, question_id"

    def _with(self) -> str:
        one, other = self.sides[0], self.sides[-1]
        conditions = ["true"]
        if other.tables["asked"][0] != one.tables["asked"][0]:
            conditions.append(f"t.question_id IN (SELECT question_id FROM {other.rows('asked')})")
        if self.source:
            conditions.append(f"t.source = {quoted(self.source)}")
        if self.containing:
            text = quoted(self.containing.replace("\0", ""))
            conditions.append(f"contains(lower(t.text), lower({text}))")
        second = "b.value" if len(self.sides) > 1 else "NULL::DOUBLE"
        fits = [f"{name} = {str(wanted).lower()}" for name, wanted in
                (("is_right", self.right), ("other_is_right", self.other_right)) if wanted is not None]  # fmt: skip
        fits += ["value IS NOT NULL AND other_value IS NOT NULL AND value <> other_value"] if self.changed else []
        return (
            f"WITH a AS ({one.scored(self.metric)}), b AS ({other.scored(self.metric)}), base AS ("
            f"SELECT t.question_id, t.text AS question, t.answers AS gold_answers, t.source, a.value, "
            f"{second} AS other_value, {second} - a.value AS difference, a.value >= {RIGHT} AS is_right, "
            f"{second} >= {RIGHT} AS other_is_right FROM {one.rows('asked')} AS t LEFT JOIN a USING (question_id) "
            f"LEFT JOIN b USING (question_id) WHERE {' AND '.join(conditions)}), "
            f"fitting AS (SELECT * FROM base WHERE {' AND '.join(fits) or 'true'})"
        )

    def _read(self, sql: str) -> "DataFrame":
        return read_frames(self.store, sql)[0]


def read_frames(store: Path, *statements: str) -> "list[DataFrame]":
    """The rows of statements. Raises QueryError."""
    import polars as pl

    return [pl.DataFrame(table) for table in answers(store, *statements)]
