"""Whatever a store holds: verify finds no fault while nothing touches it, and sees any byte that is changed."""

import logging
import random
from pathlib import Path
from typing import Any

import pytest

from flows.pipelines.experiments import evaluation
from flows.pipelines.graph import graph
from flows.pipelines.run import run_serially
from storage.artifacts import Artifact
from storage.upkeep import inventory
from storage.upkeep.verify import Fault, verify, verify_records
from tasks.registry import METHODS
from tests.support.indexing import index, sql

CORPUS = "synthetic:passages=400,questions=20,seed=3"
KEYWORDS = {"enabled": True}
INDEXES: dict[str, dict[str, Any]] = {name: {"index": {"type": name}} for name in METHODS["index"]}
INDEXES["sq8"] |= {"bm25": KEYWORDS, "encode": {"units": ["sentence", "passage"], "context": "exact"}}
EVALUATION = {
    "index": "test",
    "questions": {"batch": 10},
    "generate": {"generator": "tests.support.fakes:FirstWords"},
    "methods": {"naive": {"retrieve": {"retriever": "passage"}}, "words": {"retrieve": {"retriever": "bm25"}}},
}


def faults(artifact: Artifact) -> list[Fault]:
    return [*verify([artifact], lambda read: None)]


def belonging(store: Path) -> list[tuple[Artifact, Path]]:
    """All files of all artifacts, lock files apart."""
    return [
        (artifact, path)
        for artifact in inventory.artifacts(store)
        for part in inventory.parts(artifact)
        for path in sorted(part.rglob("*"))
        if path.is_file() and path.name != "lock"
    ]


def assert_every_byte_counts(store: Path) -> None:
    assert [*verify(inventory.artifacts(store), lambda read: None), *verify_records(store)] == []
    chance = random.Random(1)
    for artifact, path in belonging(store):
        content = path.read_bytes()
        assert content, path
        for place in (chance.randrange(len(content)), len(content) - 1 - chance.randrange(min(64, len(content)))):
            changed = bytearray(content)
            changed[place] ^= chance.randrange(1, 256)
            path.write_bytes(changed)
            named = [fault for fault in faults(artifact) if str(path.relative_to(store)) in fault.what]
            assert named, (
                f"byte {place} of {path.relative_to(store)}: {bytes(changed[max(0, place - 20) : place + 20])}"
            )
        path.write_bytes(content)
        assert not faults(artifact)


@pytest.mark.parametrize("kind", INDEXES)
def test_every_byte_of_an_index_is_verified(tmp_path: Path, kind: str) -> None:
    index(tmp_path, CORPUS, **{"load": {"shard_passages": 200}, **INDEXES[kind]})
    assert_every_byte_counts(tmp_path)


def test_every_byte_of_an_evaluation_is_verified(tmp_path: Path) -> None:
    index(tmp_path, CORPUS, bm25=KEYWORDS, load={"shard_passages": 200})
    graph(evaluation("trial", EVALUATION, {"store": tmp_path, "runner": "serial"})).run(run_serially)
    assert {"asked", "hits", "candidates", "scores"} <= {artifact.table for artifact, _ in belonging(tmp_path)}
    assert_every_byte_counts(tmp_path)


def test_what_a_preparation_leaves_is_no_table(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    index(tmp_path, CORPUS, bm25=KEYWORDS, index={"type": "sq8"})
    assert not [record.message for record in caplog.records if record.levelno > logging.INFO]
    assert sql(tmp_path, "SELECT count(*) FROM information_schema.tables WHERE table_name = 'preparation'") == [(0,)]
