"""A search holds a bounded number of files open, however many shards its index has."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.indexing import index
from vitalfew.configs.schema import RetrieveConfig
from vitalfew.tasks.retrieve import Searcher

SHARDS = 16
REQUESTS: list[dict[str, Any]] = [
    {"retriever": "core_context"},
    {"retriever": "passage"},
    *({"retriever": retriever, "unit": unit} for retriever in ("bm25", "hybrid") for unit in ("sentence", "passage")),
]
LIMITED = """
import json, os, resource, sys
from pathlib import Path
from tests.storage.indexes.test_descriptors import hits
from vitalfew.storage.indexes import units

opened = len(os.listdir("/proc/self/fd"))
# What the process has open by itself, the Parquet files that are kept open, and a few that open and close.
resource.setrlimit(resource.RLIMIT_NOFILE, (opened + units.OPEN_FILES + 6,) * 2)
print(json.dumps(hits(Path(sys.argv[1]))))
"""


def hits(store: Path) -> list[list[list[float]]]:
    """Units and scores by request, deep enough that there are hits of most shards."""
    searcher = Searcher.named(store, "test")
    asked = [RetrieveConfig(**request, top_k=SHARDS) for request in REQUESTS]
    return [[[hit.unit_id, hit.score] for hit in searcher.hits("When was it opened?", each)] for each in asked]


def test_every_retriever_opens_few_files(tmp_path: Path) -> None:
    corpus = f"synthetic:passages={2 * SHARDS},questions=5,seed=3"
    outcome = index(tmp_path, corpus, load={"shard_passages": 2}, bm25={"enabled": True})
    assert len(outcome.manifests[0].shards) >= SHARDS
    command = [sys.executable, "-c", LIMITED, str(tmp_path)]
    limited = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert limited.returncode == 0, limited.stderr[-2000:]
    assert json.loads(limited.stdout) == hits(tmp_path)
