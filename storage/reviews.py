"""Reviews: what people said of answers, as rows of `reviews` in a file per run.

A person has one verdict on an answer, or on two answers to the same question. Reviews outlive what they are about: a
label was paid for with somebody's time.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from vitalfew.storage import files, schemas

OF_ONE = ("right", "wrong", "unsure")
"""Verdicts on one answer."""
OF_TWO = ("first", "second", "equal", "unsure")
"""Verdicts on two answers: the better one, of `method` or of `other`."""

Subject = tuple[str, str, int, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Review:
    """A row of `schemas.REVIEWS`. `other`: None where one answer was reviewed; `seconds`: None where unknown."""

    reviewer: str
    reviewed: datetime
    run_id: str
    question_id: int
    method: str
    other: str | None
    verdict: str
    seconds: float | None

    @property
    def subject(self) -> Subject:
        """The reviewer and what is reviewed; the order of two methods does not count."""
        return self.reviewer, self.run_id, self.question_id, frozenset({self.method, self.other or self.method})

    @property
    def said(self) -> str:
        """The method that is better, where one is; else the verdict."""
        return {"first": self.method, "second": self.other or ""}.get(self.verdict, self.verdict)


class ReviewedOtherwise(ValueError):
    """A reviewer has given another verdict before: the message says on what, and both."""


def read_reviews(store: Path, run_id: str) -> list[Review]:
    """The reviews of a run's answers, in the order in which they came."""
    path = _path(store, run_id)
    rows = files.read_table(path, schemas.REVIEWS.names).to_pylist() if files.exists(path) else []
    return [Review(**row) for row in rows]


def add_reviews(store: Path, run_id: str, reviews: Sequence[Review], replace: bool = False) -> int:
    """Add reviews of a run's answers, all or none; how many were new. One that says what is known changes nothing.

    `replace`: another verdict on the same takes the place of the first; without it, raises ReviewedOtherwise. Several
    processes may add at once. Raises NotWritten.
    """
    added = 0

    def table() -> pa.Table:
        nonlocal added
        known = {review.subject: review for review in read_reviews(store, run_id)}
        changed = [each for each in reviews if _is_new(each, known.get(each.subject), replace)]
        known.update((each.subject, each) for each in changed)
        added = len(changed)
        return pa.Table.from_pylist([asdict(each) for each in known.values()], schemas.REVIEWS)

    if reviews:
        files.rewrite_table(_path(store, run_id), table)
    return added


def _is_new(review: Review, known: Review | None, replace: bool) -> bool:
    if known is None:
        return True
    if known.said == review.said:
        return False
    if not replace:
        raise ReviewedOtherwise(
            f"{review.reviewer} has said {known.said!r} of question {review.question_id} on {known.reviewed:%Y-%m-%d}, "
            f"and now {review.said!r}"
        )
    return True


def _path(store: Path, run_id: str) -> Path:
    return store / "reviews" / run_id / "00000.parquet"
