"""`make bench-catalog`: the documented queries, and the catalog's rebuilding, on a store with 10^6 hits.

    python -m benchmarks.catalog [ROUNDS] [--questions N]

The store has invented rows, written by the writers of the stages: METHODS methods of answering QUESTIONS questions with
HITS hits each, and PASSAGES passages with SENTENCES sentences, each with a vector of WIDTH numbers; shards are as long
as the default settings make them. Columns come from storage/schemas.py, so that a new one is filled without a change
here. A query is timed from `catalog.connect` to its last row, in one process; the best and the worst of the rounds are
shown.
"""

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.common import clock, complete, in_turns, machine, options, show
from vitalfew.storage import generations, schemas
from vitalfew.storage.artifacts import Artifact, ShardRecord, fingerprint
from vitalfew.storage.catalog.database import build, connect, query
from vitalfew.storage.catalog.macros import MACROS
from vitalfew.storage.costs import Cost
from vitalfew.storage.runs import INDEXING, NamedIndex, recorded_run

STORE = Path("build/catalog")
METHODS, QUESTIONS, HITS, BATCH = 10, 10_000, 10, 256
PASSAGES, SENTENCES, WIDTH, SHARD = 20_000, 5, 384, 4096
METRICS = ("accuracy", "exact_match", "f1", "passage_recall@1", "passage_recall@10", "prompt_tokens", "seconds", "usd")
DOCUMENTED = {
    "guide: costs by stage": "SELECT stage, sum(wall_seconds), sum(tokens) FROM costs GROUP BY 1",
    "guide: rejects by reason": "SELECT reason, count(*) FROM rejects GROUP BY 1",
    "guide: sentences per passage": "SELECT title, count(*) AS sentences FROM sentences "
    "JOIN passages USING (passage_id) GROUP BY 1 ORDER BY 2 DESC LIMIT 5",
    "guide: means by method": "SELECT method, metric, avg(value) FROM scores JOIN methods USING (fingerprint) "
    "GROUP BY ALL ORDER BY ALL",
    "guide: runs": "SELECT * FROM runs",
    "guide: ledger": "SELECT stage, quoted_tokens, tokens, quoted_usd, usd FROM ledger",
    "report: scores of a method": "SELECT DISTINCT text, metric, value FROM scores JOIN asked USING (question_id) "
    f"WHERE scores.fingerprint = '{fingerprint(table='scores', method=3)}' ORDER BY text, metric LIMIT 20",
    "hits by method": "SELECT method, count(*), avg(score) FROM hits JOIN methods USING (fingerprint) GROUP BY 1",
    **{f"macro {macro.name}": macro.example for macro in MACROS},
    "nearest to a known id": "SELECT similarity, text FROM nearest(4711)",
}


FILLER = "It says what it has to do with it."


def ranges(count: int, size: int) -> Iterator[np.ndarray]:
    for start in range(0, count, size):
        yield np.arange(start, min(count, start + size), dtype=np.int64)


def filled(schema: pa.Schema, count: int, **known: Any) -> pa.Table:
    """Return `count` rows with the `known` columns; another one is NULL if it may be, else zero, FILLER or empty."""
    if unknown := known.keys() - set(schema.names):
        raise KeyError(f"the table has no columns {sorted(unknown)}")
    return pa.table([pa.array(known.get(field.name, _blank(field, count)), field.type) for field in schema], schema)


def _blank(field: pa.Field, count: int) -> list[Any]:
    if field.nullable:
        return [None] * count
    if pa.types.is_nested(field.type):
        return [[0.0] * getattr(field.type, "list_size", 0)] * count
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return [FILLER if pa.types.is_string(kind) else False if pa.types.is_boolean(kind) else 0] * count


def passages(ids: np.ndarray) -> pa.Table:
    texts = [f"Passage {each} says what {each % 97} has to do with {each % 89}. " * 6 for each in ids]
    names = [str(each) for each in ids]
    return filled(schemas.PASSAGES, len(ids), passage_id=ids, source_id=names, title=names, text=texts)


def sentences(ids: np.ndarray) -> pa.Table:
    position, owner = np.tile(np.arange(SENTENCES), len(ids)), np.repeat(ids, SENTENCES)
    texts = [f"Passage {each} says what {each % 97} has to do." for each in owner]
    known = {"sentence_id": owner * SENTENCES + position, "passage_id": owner, "position": position, "text": texts}
    return filled(schemas.SENTENCES, len(owner), **known)


def vectors(ids: np.ndarray) -> pa.Table:
    count, first = len(ids) * SENTENCES, int(ids[0]) * SENTENCES
    known = {"id": np.arange(first, first + count), "kind": ["core"] * count, "vector": drawn(count, first)}
    return filled(schemas.vectors(WIDTH), count, **known)


def question_vectors(ids: np.ndarray) -> pa.Table:
    schema = schemas.question_vectors(WIDTH)
    return filled(schema, len(ids), question_id=ids, vector=drawn(len(ids), int(ids[0])))


def drawn(count: int, seed: int) -> pa.Array:
    numbers = np.random.default_rng(seed).standard_normal(count * WIDTH).astype(np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers), type=schemas.vectors(WIDTH).field("vector").type)


def questions(schema: pa.Schema, ids: np.ndarray) -> pa.Table:
    texts = [f"What has {each} to do with it?" for each in ids]
    gold = [[int(each) % PASSAGES] for each in ids]
    answers = [[str(each)] for each in ids]
    return filled(schema, len(ids), question_id=ids, text=texts, answers=answers, gold_passages=gold)


def hits(schema: pa.Schema, ids: np.ndarray) -> pa.Table:
    owner, rank = np.repeat(ids, HITS), np.tile(np.arange(1, HITS + 1), len(ids))
    unit = (owner * 7919 + rank) % (PASSAGES * SENTENCES)
    places = {"unit": ["sentence"] * len(owner), "unit_id": unit, "passage_id": unit // SENTENCES}
    return filled(schema, len(owner), question_id=owner, rank=rank, score=(1 / rank).astype(np.float32), **places)


def evidence(schema: pa.Schema, ids: np.ndarray) -> pa.Table:
    found = hits(schemas.HITS, ids)
    spans = [[{"passage_id": each, "start": 0, "end": 40}] for each in found["passage_id"].to_pylist()]
    kept = {name: found[name].combine_chunks() for name in ("question_id", "rank")}
    return filled(schema, len(spans), **kept, tokens=np.full(len(spans), 9), origin=spans)


def candidates(schema: pa.Schema, ids: np.ndarray) -> pa.Table:
    count = len(ids)
    known = {"contexts": [[*range(1, HITS + 1)]] * count, "prompt_tokens": np.full(count, 300), "error": [""] * count}
    return filled(schema, count, question_id=ids, **known)


def scores(schema: pa.Schema, ids: np.ndarray) -> pa.Table:
    values = np.random.default_rng(int(ids[0])).random(len(ids) * len(METRICS))
    owner = np.repeat(ids, len(METRICS))
    return filled(schema, len(owner), question_id=owner, metric=list(METRICS) * len(ids), value=values)


def summary(method: int, questions: int) -> pa.Table:
    known = {"metric": METRICS, "value": [method / 10] * len(METRICS), "questions": [questions] * len(METRICS)}
    return filled(schemas.SUMMARIES, len(METRICS), **known)


def artifact(
    stage: str, table: str, run: str, shards: Iterator[pa.Table], name: str | None = None, **whole: pa.Table
) -> None:
    """Write a complete artifact."""
    made = Artifact(STORE, table, name or fingerprint(table=table))
    made.begin({"stage": stage, "inputs": {}, "config": {}, "method": {}})
    records = []
    for shard, rows in enumerate(shards):
        cost = Cost(datetime.now(UTC).isoformat(), 1000, 1.0, 1.0, 0.0, 1 << 28, usd=1e-5)
        records.append(ShardRecord(shard, run, [made.write(shard, table, rows)], rows.num_rows, cost))
        made.mark_done(records[-1])
    files = [made.write(0, other, rows) for other, rows in whole.items()]
    complete(made, stage, records, {table: sum(record.rows_in for record in records)}, whole=files)


STAGES: dict[str, tuple[str, Callable[[pa.Schema, np.ndarray], pa.Table]]] = {
    "ask": ("asked", questions),
    "retrieve": ("hits", hits),
    "refine": ("evidence", evidence),
    "generate": ("candidates", candidates),
    "score": ("scores", scores),
}
"""The stages of an evaluation, with the table and the rows of each."""


def make(count: int) -> None:
    """Write the store, with `count` questions."""
    shutil.rmtree(STORE, ignore_errors=True)
    made = {table: f"{table}/{fingerprint(table=table)}" for table in ("passages", "sentences", "vectors")}
    with recorded_run(STORE, INDEXING, "bench", {}, [*made.values()]) as run:
        corpus = (passages(ids) for ids in ranges(PASSAGES, SHARD))
        artifact("load", "passages", run.run_id, corpus, questions=questions(schemas.QUESTIONS, np.arange(count)))
        artifact("split", "sentences", run.run_id, (sentences(ids) for ids in ranges(PASSAGES, SHARD)))
        artifact("encode", "vectors", run.run_id, (vectors(ids) for ids in ranges(PASSAGES, SHARD)))
        generations.record(STORE, NamedIndex("bench", run.run_id, made, {}))
    named: dict[str, dict[str, str]] = {f"method {method}": {} for method in range(METHODS)}
    with recorded_run(STORE, "evaluate", "bench", {}, [], named) as run:
        of_questions = (question_vectors(ids) for ids in ranges(count, BATCH))
        artifact("encode_questions", "question_vectors", run.run_id, of_questions)
        for method in range(METHODS):
            for stage, (table, rows) in STAGES.items():
                name = fingerprint(table=table, method=0 if table == "asked" else method)
                named[f"method {method}"][table] = f"{table}/{name}"
                if table == "asked" and method:
                    continue
                shards = (rows(schemas.TABLES[table], ids) for ids in ranges(count, BATCH))
                summaries = {"summaries": summary(method, count)} if table == "scores" else {}
                artifact(stage, table, run.run_id, shards, name, **summaries)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=3, help="times that every query is asked; 3")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help=f"questions that have hits; {QUESTIONS:,}")
    given = parser.parse_args()
    seconds = clock(lambda: make(given.questions))
    files = sum(1 for _ in STORE.rglob("*.parquet"))
    hits = METHODS * given.questions * HITS
    print(f"{hits:,} hits in {files:,} Parquet files, made in {seconds:.0f} s; {machine()}\n")
    actions = {"rebuild the catalog": lambda: build(STORE), "open it": lambda: connect(STORE).close()}
    for name, sql in DOCUMENTED.items():
        actions[name] = lambda sql=sql: query(STORE, sql).fetchall()  # type: ignore[misc]
    taken = ((name, in_turns(given.rounds, lambda action=action: clock(action))[0]) for name, action in actions.items())  # type: ignore[misc]
    show(["what", "best s", "worst s"], ((name, f"{min(times):.2f}", f"{max(times):.2f}") for name, times in taken))


if __name__ == "__main__":
    main()
