"""Questions on which methods differ, or that all answer wrong, with their answers and the evidence that they had.

Rows of these questions alone are kept, and only the shards that have them are read: a handful, however many were asked.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from vitalfew.tasks.metrics.ranking import first_correct
from vitalfew.tasks.reports.contents import Answered, Differing, DifferingQuestion, MethodResult
from vitalfew.tasks.reports.runs import EvaluatedMethod, QuestionScores
from vitalfew.tasks.reports.shown.text import one_line, shortened

SHOWN = 8
"""Questions on which methods differ that a report shows, at most."""
WRONG = 2
"""Questions that all methods answer wrong that it shows, at most."""
METHODS = 6
"""Methods whose answers it shows, at most: the baseline, then the best."""
_TEXT = 240
"""Characters of a question, of an answer and of a context, at most."""
_ANSWERS = 5
_TABLES = ("asked", "candidates", "answers", "evidence")
_Rows = Mapping[str, pl.DataFrame]
"""Rows of some questions of one method, by table."""


def differing(
    rows: Sequence[EvaluatedMethod],
    results: Sequence[MethodResult],
    scores: Mapping[str, QuestionScores],
    metric: str | None,
) -> Differing | None:
    """None where fewer than two methods answer, or nothing was scored. Raises NoReport where an artifact was removed
    since."""
    chosen = _chosen([own for own in results if "candidates" in own.fingerprints], metric)
    if metric is None or len(chosen) < 2:
        return None
    sides = [next(row for row in rows if row.name == name) for name in chosen]
    ids = scores[chosen[0]].ids
    values = np.stack([scores[name].of(metric, ids) for name in chosen])
    known = ~np.isnan(values).any(axis=0)
    spread = np.where(known, np.ptp(np.where(known, values, 0.0), axis=0), 0.0)
    differ = [int(place) for place in np.argsort(-spread, kind="stable")[:SHOWN] if spread[place] > 0]
    wrong = np.flatnonzero(known & ~np.where(known, values, 1.0).any(axis=0))[:WRONG]
    places = [*differ, *map(int, wrong)]
    wanted = [int(ids[place]) for place in places]
    read = [{table: side.rows_of(table, wanted) for table in _TABLES if table in side.tables} for side in sides]
    shown = [
        _question(question, {name: (read[row], float(values[row, place])) for row, name in enumerate(chosen)})
        for question, place in zip(wanted, places, strict=True)
    ]
    return Differing(int(known.sum()), int((spread > 0).sum()), tuple(chosen), tuple(shown))


def _chosen(methods: Sequence[MethodResult], metric: str | None) -> list[str]:
    """The names of the methods to show, in the report's order."""

    def rank(method: MethodResult) -> tuple[bool, float]:
        summary = method.summaries.get(metric or "")
        value = (summary.value or 0.0) if summary else 0.0
        return method.against is not None, value if summary and summary.column.direction == "lower" else -value

    kept = {method.name for method in sorted(methods, key=rank)[:METHODS]}
    return [method.name for method in methods if method.name in kept]


def _question(question: int, methods: Mapping[str, tuple[_Rows, float]]) -> DifferingQuestion:
    of = pl.col("question_id") == question
    own = {name: {table: rows.filter(of) for table, rows in tables.items()} for name, (tables, _) in methods.items()}
    asked = next(iter(own.values()))["asked"].to_dicts()[0]
    gold = [*asked["answers"]]
    answered = tuple(_answered(name, own[name], value, gold) for name, (_, value) in methods.items())
    return DifferingQuestion(
        shortened(one_line(asked["text"]), _TEXT), tuple(shortened(one_line(text), _TEXT) for text in gold), answered
    )


def _answered(name: str, rows: _Rows, value: float, gold: Sequence[str]) -> Answered:
    """A method's answer. `rows`: of the question."""
    has_chosen = "answers" in rows and rows["answers"].height
    chosen = rows["answers"].sort("rank")["text"] if has_chosen else rows["candidates"]["text"]
    contexts = rows["evidence"].sort("rank")["text"].to_list() if "evidence" in rows else []
    holding = first_correct(gold, contexts)
    excerpt = _excerpt(contexts[max(0, holding - 1)], gold) if contexts else ""
    texts = tuple(shortened(one_line(text), _TEXT) for text in chosen[:_ANSWERS])
    return Answered(name, texts, value, len(contexts), holding, excerpt)


def _excerpt(context: str, gold: Sequence[str]) -> str:
    """The part of a context around the first gold answer that it holds, else its beginning."""
    text = one_line(context)
    found = [place for answer in gold if (place := text.lower().find(one_line(answer).lower())) >= 0]
    start = max(0, min(found, default=0) - _TEXT // 2)
    start = max(0, min(start, len(text) - _TEXT))
    cut = text[start : start + _TEXT]
    return f"{'…' if start else ''}{cut}{'…' if start + _TEXT < len(text) else ''}"
