"""A search holds a bounded number of files open, however many shards its index has."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from tests.storage.indexes.test_faiss_types import built, clustered
from tests.support.indexing import index
from vitalfew.configs.schema import IndexType, RetrieveConfig
from vitalfew.storage.indexes.faiss_shards import FaissShard, search
from vitalfew.storage.indexes.types import efforts
from vitalfew.storage.indexes.units import OPEN_FILES
from vitalfew.tasks.retrieve import Searcher

QUESTION = "When was the observatory opened?"
SHARDS = 18
REQUESTS: list[dict[str, Any]] = [
    {"retriever": "core_context"},
    {"retriever": "passage"},
    *({"retriever": retriever, "unit": unit} for retriever in ("bm25", "hybrid") for unit in ("sentence", "passage")),
]
LIMITED = """
import json, os, resource, sys
from pathlib import Path
from vitalfew.storage.indexes import units
from tests.storage.indexes import test_descriptors

opened = len(os.listdir("/proc/self/fd"))
# What the process has open by itself, the Parquet files that are kept open, and a few that open and close.
resource.setrlimit(resource.RLIMIT_NOFILE, (opened + units.OPEN_FILES + 6,) * 2)
print(json.dumps([getattr(test_descriptors, name)(Path(place)) for name, place in json.loads(sys.argv[1]).items()]))
"""


def in_an_index(store: Path) -> list[list[tuple[int, float]]]:
    """Units and scores by request, deep enough that there are hits of most shards."""
    searcher = Searcher.named(store, "test")
    return [
        [(hit.unit_id, hit.score) for hit in searcher.hits(QUESTION, RetrieveConfig(**request, top_k=SHARDS))]
        for request in REQUESTS
    ]


def in_shards_of_every_type(folder: Path) -> list[list[int]]:
    every = [[FaissShard(path) for path in sorted((folder / kind).glob("*.faiss"))] for kind in get_args(IndexType)]
    queries = clustered(2, seed=1)
    return [search(shards, queries, 20, efforts(shards[0].inner, 20)[-1]).ids.tolist() for shards in every]


@pytest.fixture(scope="module")
def few(store: Path, of_every_type: Path) -> list[Any]:
    """What both searches find in a process that can open few files."""
    searches = {"in_an_index": str(store), "in_shards_of_every_type": str(of_every_type)}
    command = [sys.executable, "-c", LIMITED, json.dumps(searches)]
    limited = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert limited.returncode == 0, limited.stderr[-2000:]
    found: list[Any] = json.loads(limited.stdout)
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    corpus = f"synthetic:passages={2 * SHARDS},questions=5,seed=3"
    outcome = index(folder, corpus, load={"shard_passages": 2}, bm25={"enabled": True})
    assert len(outcome.manifests[0].shards) >= SHARDS
    return folder


@pytest.fixture(scope="module")
def of_every_type(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More shards of every type than files may be open."""
    folder = tmp_path_factory.mktemp("types")
    vectors, ids = clustered(300), np.arange(300, dtype=np.int64)
    for kind in get_args(IndexType):
        (folder / kind).mkdir()
        built(folder / kind, kind, vectors, ids, OPEN_FILES + 12)
    return folder


def test_every_retriever_opens_few_files(store: Path, few: list[Any]) -> None:
    assert few[0] == json.loads(json.dumps(in_an_index(store)))
