"""Short ways for tests to evaluate something on a store of their own."""

import subprocess
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq

from tests.support.indexing import without_catalog
from tests.support.shared import indexed
from vitalfew.configs.evaluation import Evaluate
from vitalfew.flows.pipelines.evaluate import Evaluated
from vitalfew.flows.pipelines.experiments import evaluation
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.run import run_serially
from vitalfew.tasks import report

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


def evaluated(given: Evaluate, plots: bool = False) -> Evaluated:
    """Return the outcome of an evaluation. Its page has no plots, unless asked for: they are most of the work."""
    with without_catalog(), nullcontext() if plots else mock.patch.object(report, "drawn", return_value=[]):
        return graph(given).run(run_serially)


def run(store: Path, settings: Mapping[str, Any], **given: Any) -> Evaluated:
    return evaluated(parameters(store, settings, **given))


def values(store: Path, outcome: Evaluated, method: str) -> dict[str, float | None]:
    """What a method came to, by metric."""
    (file,) = outcome.methods[method]["score"].whole
    return {row["metric"]: row["value"] for row in pq.read_table(store / file.path).to_pylist()}
