"""Short ways for tests to evaluate something on a store of their own."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

import vitalfew as vf
from tests.support.indexing import without_catalog
from tests.support.shared import indexed
from vitalfew.configs.evaluation import Evaluate
from vitalfew.flows.pipelines.evaluate import Evaluated
from vitalfew.flows.pipelines.experiments import evaluation
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.run import run_serially

CORPUS = "synthetic:passages=120,questions=45,seed=3"


def searchable() -> Path:
    """A store with an index of `CORPUS` that every retriever can search, made once in a test run. Read it."""
    return indexed(CORPUS, bm25={"enabled": True})


def copied(store: Path, target: Path) -> Path:
    """A store with the same files, as hard links: what one test adds or removes, no other sees."""
    subprocess.run(["cp", "-al", str(store), str(target)], check=True)
    return target


def parameters(store: Path, settings: Mapping[str, Any], **given: Any) -> Evaluate:
    return evaluation("trial", settings, {"store": store, "runner": "serial", **given})


def evaluated(given: Evaluate) -> Evaluated:
    with without_catalog():
        return graph(given).run(run_serially)


def run(store: Path, settings: Mapping[str, Any], **given: Any) -> Evaluated:
    return evaluated(parameters(store, settings, **given))


def values(store: Path, outcome: Evaluated, method: str) -> dict[str, float | None]:
    """What a method came to, by metric."""
    (file,) = outcome.methods[method]["score"].whole
    return {row["metric"]: row["value"] for row in pq.read_table(store / file.path).to_pylist()}


Answered = tuple[str, tuple[str, ...], int]
"""A text, its contexts, and the tokens of all prompts."""


def answers(store: vf.Store, method: str) -> dict[str, Answered]:
    """What a method of the experiment `shapes` answered, by question; that of the name PFE chose its answers."""
    own = f"fingerprint IN (SELECT fingerprint FROM methods WHERE method = '{method}' AND experiment = 'shapes')"
    tables = ("candidates", "answers", "evidence")
    candidates, chosen, evidence = (store.sql(f"SELECT * FROM {table} WHERE {own}") for table in tables)
    found = {}
    for question, text in store.sql("SELECT DISTINCT question_id, text FROM asked ORDER BY text, question_id").rows():
        written = candidates.filter(question_id=question).sort("candidate").to_dicts()
        first = chosen.filter(question_id=question, rank=1).to_dicts()[0] if method == "PFE" else written[0]
        (read,) = (row["contexts"] for row in written if row["candidate"] == first["candidate"])
        shown = evidence.filter(question_id=question).filter(pl.col("rank").is_in(read)).sort("rank")["text"]
        found[text] = (first["text"], tuple(shown), sum(row["prompt_tokens"] for row in written))
    return found
