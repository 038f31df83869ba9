"""Rankings and relevance judgements of a finished evaluation as TREC has them, for trec_eval and tools like it.

A run has a line `question Q0 passage rank score tag` a passage, the judgements (qrels) `question 0 passage grade` a
gold passage, both in the order of the questions' names. Where sentences were retrieved, a passage stands at its best
sentence, and once: figures at k are then of passages, while our metrics count sentences. trec_eval sorts by the score
and not by the rank, and reads float32: equal scores are written apart by the least step of float32 that keeps their
order.

A question or passage has the name that its source gives it, white space and "%" as in URLs, or, where the source gives
none, its content id (as all have with `ids="content"`). One that stands several times in its sources has a line for
each of its names, so that trec_eval counts it as often, and the report once. A name that stands for two is an error.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import numpy as np

from vitalfew.storage import files
from vitalfew.storage.catalog.database import query
from vitalfew.storage.catalog.views import every_version
from vitalfew.storage.runs import Run
from vitalfew.tasks.registry import UnknownName
from vitalfew.tasks.reports.runs import NoReport, find_run, read_manifest

Ids = Literal["source", "content"]
_BATCH = 10_000
_RESERVED = re.compile(r"[\s%]")


def write_run(store: Path, name: str, method: str | None, path: Path, ids: Ids = "source") -> int:
    """Write the ranking of a method (default: the first that retrieves) of an evaluation; the lines that it has.

    Raises NoReport, UnknownName, NotWritten."""
    run = find_run(store, name)
    chosen, tables = _retrieving(run, method)
    named = _named(store, tables, ids)
    rows = _rows(
        store,
        f"WITH {named}, best AS (SELECT question_id, passage_id, min(rank) AS rank, arg_min(score, rank) AS score "
        f"FROM hits WHERE fingerprint = '{tables['hits']}' GROUP BY ALL) "
        "SELECT question, passage, score FROM best JOIN questions USING (question_id) JOIN names USING (passage_id) "
        "ORDER BY question, rank, passage",
    )
    return _write(path, _ranked(rows, f"{run.name}/{chosen}"))


def write_qrels(store: Path, name: str, method: str | None, path: Path, ids: Ids = "source") -> int:
    """Write the gold passages of an evaluation's questions, called as the passages of the method's index (default: the
    first that retrieves) are; the lines that it has. Raises NoReport, UnknownName, NotWritten."""
    _, tables = _retrieving(find_run(store, name), method)
    rows = _rows(
        store,
        f"WITH {_named(store, tables, ids)}, gold AS (SELECT question_id, unnest(gold_passages) AS passage_id, "
        f"coalesce(unnest(gold_grades), 1) AS grade FROM asked WHERE fingerprint = '{tables['asked']}') "
        "SELECT question, coalesce(passage, passage_id::VARCHAR) AS passage, grade FROM gold JOIN questions "
        "USING (question_id) LEFT JOIN names USING (passage_id) ORDER BY ALL",
    )
    return _write(path, (f"{_escaped(question)} 0 {_escaped(passage)} {grade}\n" for question, passage, grade in rows))


def _retrieving(run: Run, method: str | None) -> tuple[str, dict[str, str]]:
    """The method's name, and the fingerprints of its tables. Raises UnknownName, NoReport."""
    retrieving = {name: tables for name, tables in run.methods.items() if "hits" in tables}
    if not retrieving:
        raise NoReport(f"run {run.run_id} of {run.name} retrieved nothing")
    chosen = method or next(iter(retrieving))
    if chosen not in retrieving:
        raise UnknownName("method that retrieves", chosen, [*retrieving])
    return chosen, {table: name.partition("/")[2] for table, name in retrieving[chosen].items()}


def _named(store: Path, tables: dict[str, str], ids: Ids) -> str:
    """SQL of `questions` (question_id, question) and `names` (passage_id, passage). Raises NoReport where a name
    stands for two."""
    passages = read_manifest(store, f"hits/{tables['hits']}").inputs["passages"].partition("/")[2]
    views = []
    for view, table, key, name, of in (
        ("questions", "asked", "question_id", "question", tables["asked"]),
        ("names", every_version("passages"), "passage_id", "passage", passages),
    ):
        named = "nullif(list_filter([source_id] || also, lambda each: each <> ''), [])" if ids == "source" else "NULL"
        called = f"unnest(coalesce({named}, [{key}::VARCHAR]))"
        select = f"SELECT {key}, {called} AS {name} FROM {table} WHERE fingerprint = '{of}'"
        twice = f"SELECT {name} FROM ({select}) GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL LIMIT 1"
        if found := query(store, twice).fetchall():
            raise NoReport(
                f"two {name}s have the name {found[0][0]!r} in their source; name them by content: --ids content"
            )
        views.append(f"{view} AS ({select})")
    return ", ".join(views)


def _rows(store: Path, sql: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a query, some thousands in memory at a time."""
    for batch in query(store, sql).to_arrow_reader(_BATCH):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _ranked(rows: Iterable[tuple[Any, ...]], tag: str) -> Iterator[str]:
    lowest = np.float32(-np.inf)
    for question, ranking in groupby(rows, key=lambda row: row[0]):
        above = np.float32(np.inf)
        for rank, (_, passage, score) in enumerate(ranking, 1):
            above = min(np.float32(score), np.nextafter(above, lowest))
            yield f"{_escaped(question)} Q0 {_escaped(passage)} {rank} {above} {_escaped(tag)}\n"


def _escaped(name: str) -> str:
    return _RESERVED.sub(lambda found: quote(found[0]), name)


def _write(path: Path, lines: Iterable[str]) -> int:
    count = 0

    def write(temporary: Path) -> None:
        nonlocal count
        with open(temporary, "w", encoding="utf-8", newline="\n") as file:
            for line in lines:
                file.write(line)
                count += 1

    files.write_atomically(path, write)
    return count
