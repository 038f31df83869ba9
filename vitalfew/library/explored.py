"""Questions of one method of a finished evaluation, or of two, by who is right."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl
from polars import DataFrame

from vitalfew.tasks.reports.runs import EvaluatedMethod

RIGHT = 0.5
"""An answer is right where the metric is at least this: 1 of a metric of right or wrong, half of one from 0 to 1."""
ORDERS = ("question", "source", "value", "other_value", "difference")
"""Columns by which questions are ordered."""


def answers_of(side: EvaluatedMethod) -> DataFrame:
    """question_id, text and error: the answer that was chosen first, or the only one."""
    table, place, first = ("answers", "rank", 1) if "answers" in side.tables else ("candidates", "candidate", 0)
    if table not in side.tables:
        return DataFrame(schema={"question_id": pl.Int64, "text": pl.String, "error": pl.String})
    rows = side.rows(table, ["question_id", "text", "error", place])
    return rows.filter(pl.col(place) == first).drop(place)


def scored(sides: Sequence[EvaluatedMethod], metric: str) -> DataFrame:
    """The values of a metric of one method, or of two on the questions that both were asked. A row per question:
    question_id, source, value, other_value and difference (null without a second method)."""
    one, other = sides[0], sides[-1]
    rows = one.rows("asked", ["question_id", "source"]).cast({"source": pl.String})
    if other.tables["asked"][0] != one.tables["asked"][0]:
        rows = rows.join(other.rows("asked", ["question_id"]), "question_id", "semi")
    rows = rows.join(one.values(metric), "question_id", "left")
    if len(sides) > 1:
        rows = rows.join(other.values(metric).rename({"value": "other_value"}), "question_id", "left")
    else:
        rows = rows.with_columns(other_value=pl.lit(None, pl.Float64))
    return rows.with_columns(difference=pl.col("other_value") - pl.col("value"))


@dataclass(frozen=True)
class QuestionFilter:
    """Questions that fit, with the `values` and answers of one method or two (`sides`); the `metric` says which answers
    are right. Texts are read when they are asked for. A notebook shows the first questions; `len` counts them."""

    sides: tuple[EvaluatedMethod, ...]
    metric: str
    values: DataFrame = field(repr=False, compare=False)
    right: bool | None = None
    other_right: bool | None = None
    changed: bool = False
    source: str = ""
    containing: str = ""

    def pl(
        self, order: str = "difference", descending: bool = True, limit: int | None = None, offset: int = 0
    ) -> DataFrame:
        """A row per question: question_id, question, gold_answers, source, value, answer, error; with a second method
        also other_value, other_answer, other_error and difference (the second minus the first).

        `order`: one of `ORDERS`; by "difference" the greatest of either sign come first. Raises ValueError for another.
        """
        rows = self._ordered(order, descending).slice(offset, limit)
        asked = self.sides[0].rows("asked", ["question_id", "text", "answers"])
        rows = rows.join(asked.rename({"text": "question", "answers": "gold_answers"}), "question_id", "left",
                         maintain_order="left")  # fmt: skip
        for prefix, side in zip(("", "other_"), self.sides, strict=False):
            own = answers_of(side).rename({"text": f"{prefix}answer", "error": f"{prefix}error"})
            rows = rows.join(own, "question_id", "left", maintain_order="left")
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
        rows = self.values
        if self.source:
            rows = rows.filter(source=self.source)
        if self.containing:
            asked = self.sides[0].rows("asked", ["question_id", "text"])
            has_words = pl.col("text").str.to_lowercase().str.contains(self.containing.lower(), literal=True)
            rows = rows.join(asked.filter(has_words), "question_id", "semi")
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
            rows = rows.join(self.sides[0].rows("asked", ["question_id", "text"]), "question_id", "left")
            by = pl.col("text")
        if order == "difference":
            by = pl.col("difference").abs() if len(self.sides) > 1 else pl.col("value")
        return rows.sort(by, "question_id", descending=[descending, False], nulls_last=True)
