"""Reviews as CSV, for people who review elsewhere: written from the store, and read back into it.

A line is a row of the table `reviews`. A file that is read back is checked whole before anything is kept: every line
must be of an answer that the store has, and no reviewer may say two things of the same.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Annotated

import polars as pl
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from vitalfew.storage import files, schemas
from vitalfew.storage.reviews import OF_ONE, OF_TWO, Review, ReviewedOtherwise, Subject, add_reviews, read_reviews
from vitalfew.tasks.datasets.base import InputError, Reject
from vitalfew.tasks.datasets.delimited import CSV, columns_of, delimited_rows
from vitalfew.tasks.registry import nearest
from vitalfew.tasks.reports.answers import MethodAnswers, answering
from vitalfew.tasks.reports.runs import NoReport, find_run, run_of
from vitalfew.tasks.reports.shown.tables import csv_bytes
from vitalfew.tasks.reports.shown.text import no_formula

COLUMNS = tuple(schemas.REVIEWS.names)
_NEEDED = ("reviewer", "run_id", "question_id", "method", "verdict")
_TYPES = {name: pl.String for name in COLUMNS} | {"question_id": pl.Int64, "seconds": pl.Float64}
_REVIEWER = re.compile(r"\w[^\x00-\x1f\x7f]{0,99}")


@dataclass(frozen=True, slots=True)
class ImportedReviews:
    """Reviews of a file that are `new` to the store or say something else than before, and those that were there."""

    new: int
    known: int


def export_reviews(store: Path, name: str, path: Path) -> int:
    """Write the reviews of an evaluation's answers as CSV; how many there are. Raises NoReport, NotWritten."""
    table = reviews_table(store, name)
    files.write_bytes(path, csv_bytes(table))
    return len(table)


def reviews_table(store: Path, name: str) -> pl.DataFrame:
    """The reviews of an evaluation's answers under `COLUMNS`; `reviewed` is a text, in UTC. Raises NoReport."""
    reviews = read_reviews(store, find_run(store, name).run_id)
    rows = [{**asdict(review), "reviewed": review.reviewed.isoformat()} for review in reviews]
    return pl.DataFrame(rows, schema=_TYPES)


def import_reviews(store: Path, path: Path, replace: bool = False) -> ImportedReviews:
    """Keep the reviews of a CSV file: of a run all or none.

    Raises InputError that names the line: a column that is missing or not known, a verdict or another value that cannot
    be, an answer that the store does not have (any more), a reviewer who reviews the same twice. So does a review that
    says something else than one in the store, unless the new one is to `replace` it.
    """
    lines: dict[Subject, int] = {}
    reviews, answered = list[Review](), cache(partial(_answered, store))
    for line, cells in _lines(path):
        try:
            review = _review(cells)
            for method in filter(None, (review.method, review.other)):
                if review.question_id not in answered(review.run_id, method):
                    raise ValueError(
                        f"{method!r} of run {review.run_id} has no answer to question {review.question_id}"
                    )
        except ValueError as error:
            raise InputError(f"{path}, line {line}: {error}") from None
        if review.subject in lines:
            earlier = lines[review.subject]
            raise InputError(
                f"{path}, line {line}: {review.reviewer} reviews the same as in line {earlier}: keep one of the two"
            )
        lines[review.subject] = line
        reviews.append(review)
    new = 0
    for run_id, of_run in groupby(sorted(reviews, key=lambda each: each.run_id), lambda each: each.run_id):
        try:
            new += add_reviews(store, run_id, [*of_run], replace)
        except ReviewedOtherwise as error:
            raise InputError(
                f"{path}: {error}; take the line out, or give --overwrite to keep the new verdict"
            ) from None
    return ImportedReviews(new, len(reviews) - new)


def checked_reviewer(name: str) -> str:
    """A reviewer's name. Raises ValueError for one that a table or a spreadsheet could misread."""
    if not _REVIEWER.fullmatch(name):
        raise ValueError(
            "a reviewer must be a name of at most 100 characters that begins with a letter or digit and has no control "
            f"characters, got {name!r}"
        )
    return name


def _answered(store: Path, run_id: str, method: str) -> frozenset[int]:
    """The questions that a method of an evaluation answers. Raises ValueError where it does not exist any more."""
    run = run_of(store, run_id)
    if run is None or run.flow != "evaluate":
        raise ValueError(f"this store has no evaluation {run_id!r}, or none any more; see `vitalfew runs`")
    known = answering(run)
    if method not in known:
        hint = nearest(method, known)
        raise ValueError(f"run {run_id} has no method {method!r} that answers{hint}; it has {', '.join(known)}")
    try:
        return frozenset(MethodAnswers.of(store, run, method, [method]).texts)
    except NoReport as error:
        raise ValueError(f"the answers of {method!r} no longer exist: {error}") from None


def _lines(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The lines of a file by their number, with cells by column. Raises InputError."""
    heads = columns_of(path, CSV)
    if missing := [name for name in _NEEDED if name not in heads]:
        raise InputError(f"{path}: its first line must name the columns; there is no {', '.join(missing)}")
    if unknown := [name for name in heads if name not in COLUMNS]:
        raise InputError(f"{path}: unknown column {unknown[0]!r}; known: {', '.join(COLUMNS)}")
    for line, cells in delimited_rows(path, CSV):
        if isinstance(cells, Reject):
            raise InputError(f"{path}, line {line}: it cannot be read: {cells.detail}. Correct or remove it")
        yield line, {name: _unquoted(cell.strip()) for name, cell in cells.items()}


def _unquoted(cell: str) -> str:
    """A cell without the apostrophe that keeps a spreadsheet from computing it."""
    return cell[1:] if no_formula(cell[1:]) == cell else cell


_NUMBERS = TypeAdapter(
    tuple[
        Annotated[int, Field(ge=-(2**63), lt=2**63)],
        Annotated[datetime, AfterValidator(lambda moment: moment if moment.tzinfo else moment.replace(tzinfo=UTC))],
        Annotated[float, Field(ge=0, allow_inf_nan=False)] | None,
    ]
)
"""question_id, reviewed (UTC, where no time zone is written) and seconds."""


def _review(cells: Mapping[str, str]) -> Review:
    """The review that a line is. Raises ValueError."""
    other, verdict = cells.get("other") or None, cells["verdict"]
    verdicts = OF_TWO if other else OF_ONE
    if verdict not in verdicts:
        kind = "two answers" if other else "one answer"
        raise ValueError(f"a verdict on {kind} is {', '.join(verdicts[:-1])} or {verdicts[-1]}, got {verdict!r}")
    if other == cells["method"]:
        raise ValueError(f"both answers are of {other!r}: method and other must be two")
    written = cells["question_id"], cells.get("reviewed") or datetime.now(UTC), cells.get("seconds") or None
    try:
        question, moment, seconds = _NUMBERS.validate_python(written)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ("question_id", "reviewed", "seconds")[int(first["loc"][0])]
        raise ValueError(f"{name}: {first['msg']}, got {first['input']!r}") from None
    reviewer, run_id, method = checked_reviewer(cells["reviewer"]), cells["run_id"], cells["method"]
    return Review(reviewer, moment, run_id, question, method, other, verdict, seconds)
