"""`make bench-catalog`: the documented queries, and the catalog's rebuilding, on a store with 10^6 hits.

The store is made of invented rows through the writers that the stages use: METHODS methods of answering QUESTIONS
questions with HITS hits each, and PASSAGES passages with SENTENCES sentences, each with a vector of WIDTH numbers;
shards are as long as the default settings make them. A query is timed from `catalog.connect` to its last row, in one
process; the best and the worst of `rounds` are shown.
"""

import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.common import clock, table_head, table_row
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact, File, Manifest, ShardRecord, fingerprint
from vitalfew.storage.catalog.database import build, connect, query
from vitalfew.storage.catalog.macros import MACROS
from vitalfew.storage.costs import Cost
from vitalfew.storage.runs import recorded_run

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
    "report: scores of a method": "SELECT DISTINCT text, metric, value FROM scores JOIN questions USING (question_id) "
    f"WHERE scores.fingerprint = '{fingerprint(table='scores', method=3)}' ORDER BY text, metric LIMIT 20",
    "hits by method": "SELECT method, count(*), avg(score) FROM hits JOIN methods USING (fingerprint) GROUP BY 1",
    **{f"macro {macro.name}": macro.example for macro in MACROS},
    "nearest to a known id": "SELECT similarity, text FROM nearest(4711)",
}


def ranges(count: int, size: int) -> Iterator[np.ndarray]:
    for start in range(0, count, size):
        yield np.arange(start, min(count, start + size), dtype=np.int64)


def passages(ids: np.ndarray) -> dict[str, Any]:
    texts = [f"Passage {each} says what {each % 97} has to do with {each % 89}. " * 6 for each in ids]
    names = [str(each) for each in ids]
    return {"passage_id": ids, "source": ["bench"] * len(ids), "source_id": names, "title": names, "text": texts}


def sentences(ids: np.ndarray) -> dict[str, Any]:
    count = len(ids) * SENTENCES
    position = np.tile(np.arange(SENTENCES, dtype=np.int32), len(ids))
    owner = np.repeat(ids, SENTENCES)
    return {
        "sentence_id": owner * SENTENCES + position,
        "passage_id": owner,
        "position": position,
        "start": position * 40,
        "end": position * 40 + 40,
        "text": [f"Passage {each} says what {each % 97} has to do." for each in owner],
        "tokens": np.full(count, 9, np.int32),
    }


def vectors(ids: np.ndarray) -> pa.Table:
    schema, count = schemas.vectors(WIDTH), len(ids) * SENTENCES
    kinds = pa.array(["core"] * count).dictionary_encode().cast(schema.field("kind").type)
    first = int(ids[0]) * SENTENCES
    return pa.table([pa.array(np.arange(first, first + count)), kinds, drawn(count, first)], schema=schema)


def question_vectors(ids: np.ndarray) -> pa.Table:
    return pa.table([pa.array(ids), drawn(len(ids), int(ids[0]))], schema=schemas.question_vectors(WIDTH))


def drawn(count: int, seed: int) -> pa.Array:
    numbers = np.random.default_rng(seed).standard_normal(count * WIDTH).astype(np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers), type=schemas.vectors(WIDTH).field("vector").type)


def questions(ids: np.ndarray) -> dict[str, Any]:
    names = [str(each) for each in ids]
    return {
        "question_id": ids,
        "source": ["bench"] * len(ids),
        "source_id": names,
        "text": [f"What has {each} to do with it?" for each in ids],
        "answers": [[name] for name in names],
        "gold_passages": [[int(each) % PASSAGES] for each in ids],
        "supporting_facts": [[] for _ in ids],
    }


def hits(ids: np.ndarray) -> dict[str, Any]:
    count = len(ids) * HITS
    owner, rank = np.repeat(ids, HITS), np.tile(np.arange(1, HITS + 1, dtype=np.int32), len(ids))
    unit = (owner * 7919 + rank) % (PASSAGES * SENTENCES)
    return {
        "question_id": owner,
        "rank": rank,
        "unit": ["sentence"] * count,
        "unit_id": unit,
        "passage_id": unit // SENTENCES,
        "start": np.zeros(count, np.int32),
        "end": np.full(count, 40, np.int32),
        "score": (1 / rank).astype(np.float32),
        "title": [str(each) for each in unit // SENTENCES],
        "text": [f"Passage {each} says what it has to do with it." for each in unit],
    }


def evidence(ids: np.ndarray) -> dict[str, Any]:
    found = hits(ids)
    spans = [[{"passage_id": int(each), "start": 0, "end": 40}] for each in found["passage_id"]]
    kept = {name: found[name] for name in ("question_id", "rank", "text")}
    return {**kept, "tokens": np.full(len(spans), 9, np.int32), "origin": spans}


def candidates(ids: np.ndarray) -> dict[str, Any]:
    count = len(ids)
    return {
        "question_id": ids,
        "candidate": np.zeros(count, np.int32),
        "contexts": [list(range(1, HITS + 1))] * count,
        "prompt_id": ids,
        "text": [f"answer {each}" for each in ids],
        "prompt_tokens": np.full(count, 300, np.int32),
        "completion_tokens": np.full(count, 4, np.int32),
        "logprob": np.full(count, -1.0),
        "seconds": np.full(count, 0.05),
        "finish_reason": ["stop"] * count,
        "error": [""] * count,
        "probabilities": [[] for _ in ids],
        "reused": np.zeros(count, bool),
    }


def scores(ids: np.ndarray) -> dict[str, Any]:
    values = np.random.default_rng(int(ids[0])).random(len(ids) * len(METRICS))
    return {"question_id": np.repeat(ids, len(METRICS)), "metric": list(METRICS) * len(ids), "value": values}


def artifact(
    stage: str, table: str, run: str, shards: Iterator[pa.Table], name: str | None = None, **whole: pa.Table
) -> None:
    """A complete artifact, its ledger and all, as a stage leaves it."""
    made = Artifact(STORE, table, name or fingerprint(table=table))
    made.begin({"stage": stage, "inputs": {}, "config": {}, "method": {}})
    records = []
    for shard, rows in enumerate(shards):
        cost = Cost(datetime.now(UTC).isoformat(), 1000, 1.0, 1.0, 0.0, 1 << 28, usd=1e-5)
        records.append(ShardRecord(shard, run, [made.write(shard, table, rows)], rows.num_rows, cost))
        made.mark_done(records[-1])
    files: list[File] = [made.write(0, other, rows) for other, rows in whole.items()]
    made.add_costs(stage, None, records)
    said = {"version": "1", "artifact": made.name, "inputs": {}, "config": {}, "method": {}, "code_version": "bench"}
    counts = {table: sum(record.rows_in for record in records)}
    done = datetime.now(UTC).isoformat()
    made.complete(
        Manifest(stage, completed=done, rows_in=counts[table], rows=counts, shards=records, whole=files, **said)
    )


def make() -> None:
    """Write the store."""
    shutil.rmtree(STORE, ignore_errors=True)
    with recorded_run(STORE, "index_corpus", "bench", {}, []) as run:
        asked = pa.table(questions(np.arange(QUESTIONS)), schemas.QUESTIONS)
        corpus = (pa.table(passages(ids), schemas.PASSAGES) for ids in ranges(PASSAGES, SHARD))
        artifact("load", "passages", run.run_id, corpus, questions=asked)
        split = (pa.table(sentences(ids), schemas.SENTENCES) for ids in ranges(PASSAGES, SHARD))
        artifact("split", "sentences", run.run_id, split)
        artifact("encode", "vectors", run.run_id, (vectors(ids) for ids in ranges(PASSAGES, SHARD)))
    stages = (
        ("ask", "asked", questions), ("retrieve", "hits", hits), ("refine", "evidence", evidence),
        ("generate", "candidates", candidates), ("score", "scores", scores),
    )  # fmt: skip
    named: dict[str, dict[str, str]] = {}
    with recorded_run(STORE, "evaluate", "bench", {}, [], named) as run:
        of_questions = (question_vectors(ids) for ids in ranges(QUESTIONS, BATCH))
        artifact("encode_questions", "question_vectors", run.run_id, of_questions)
        for method in range(METHODS):
            named[f"method {method}"] = {}
            for stage, table, rows in stages:
                name = fingerprint(table=table, method=0 if table == "asked" else method)
                named[f"method {method}"][table] = f"{table}/{name}"
                if table == "asked" and method:
                    continue
                shards = (pa.table(rows(ids), schemas.TABLES[table]) for ids in ranges(QUESTIONS, BATCH))
                summaries = {"summaries": summary(method)} if table == "scores" else {}
                artifact(stage, table, run.run_id, shards, name, **summaries)


def summary(method: int) -> pa.Table:
    rows = [{"metric": name, "value": method / 10, "questions": QUESTIONS, "left_out": 0} for name in METRICS]
    return pa.Table.from_pylist(rows, schemas.SUMMARIES)


def timed(action: Any, rounds: int) -> tuple[float, float]:
    """Seconds of the fastest and of the slowest."""
    taken = [clock(action) for _ in range(rounds)]
    return min(taken), max(taken)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    seconds = clock(make)
    files = sum(1 for _ in STORE.rglob("*.parquet"))
    print(f"{METHODS * QUESTIONS * HITS:,} hits in {files:,} Parquet files, made in {seconds:.0f} s\n")
    print(table_head(["what", "best s", "worst s"]))
    actions = {"rebuild the catalog": lambda: build(STORE), "open it": lambda: connect(STORE).close()}
    for name, sql in DOCUMENTED.items():
        actions[name] = lambda sql=sql: query(STORE, sql).fetchall()  # type: ignore[misc]
    for name, action in actions.items():
        print(table_row([name, *(f"{seconds:.2f}" for seconds in timed(action, rounds))]), flush=True)


if __name__ == "__main__":
    main()
