"""Whatever a store holds: verify finds no fault while nothing touches it, and sees a changed byte in any file."""

import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.damage import flip
from tests.support.evaluating import evaluated
from tests.support.indexing import contents, index
from tests.support.shared import indexed, shared
from vitalfew.flows.cli.main import app
from vitalfew.flows.pipelines.experiments import evaluation
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.upkeep import inventory
from vitalfew.storage.upkeep.verify import StoreFault, verify, verify_records
from vitalfew.tasks.registry import METHODS

SHARDS = {"shard_passages": 30}
KEYWORDS = {"enabled": True}
INDEXES: dict[str, dict[str, Any]] = {name: {"index": {"type": name}, "load": SHARDS} for name in METHODS["index"]}
INDEXES["sq8"] |= {"bm25": KEYWORDS, "encode": {"units": ["sentence", "passage"], "context": "exact"}}
EVALUATION = {
    "index": "test",
    "questions": {"batch": 5},
    "generate": {"generator": "tests.support.fakes:FirstWords"},
    "methods": {"naive": {"retrieve": {"retriever": "passage"}}, "words": {"retrieve": {"retriever": "bm25"}}},
}


def faults(artifacts: Sequence[Artifact]) -> list[StoreFault]:
    return [*verify(artifacts, lambda read: None)]


def assert_a_changed_byte_is_seen(store: Path) -> None:
    """In every file of every artifact, at a place drawn at random: of all, or of the last 64, where a footer stands."""
    every = inventory.artifacts(store)
    assert [*faults(every), *verify_records(store)] == []
    chance = random.Random(1)
    parts = ((artifact, part) for artifact in every for part in inventory.parts(artifact))
    for artifact, path in ((artifact, path) for artifact, part in parts for path in sorted(part.rglob("*.*"))):
        content = path.read_bytes()
        place = len(content) - 1 - chance.randrange(chance.choice((len(content), min(64, len(content)))))
        changed = bytearray(content)
        changed[place] ^= chance.randrange(1, 256)
        path.write_bytes(changed)
        assert any(str(path.relative_to(store)) in fault.what for fault in faults([artifact])), (path, place)
        path.write_bytes(content)
    assert faults(every) == []


def test_a_changed_byte_in_any_file_of_an_index_is_seen(tmp_path: Path) -> None:
    """Of every type: one store holds them all."""
    for kind, settings in INDEXES.items():
        index(tmp_path, name=kind, **settings)
    assert len([*tmp_path.glob("faiss/*/manifest.json")]) == len(METHODS["index"])
    assert_a_changed_byte_is_seen(tmp_path)


def evaluate(store: Path) -> None:
    evaluated(evaluation("trial", EVALUATION, {"store": store, "runner": "serial"}))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """An evaluated store whose files a test may damage."""

    def make(folder: Path) -> None:
        shutil.copytree(indexed(bm25=KEYWORDS, load=SHARDS), folder)
        evaluate(folder)

    return Path(shutil.copytree(shared("verified", make), tmp_path / "store"))


def test_a_changed_byte_in_any_file_of_an_evaluation_is_seen(store: Path) -> None:
    assert {"asked", "hits", "candidates", "scores"} <= {path.name for path in store.iterdir()}
    assert_a_changed_byte_is_seen(store)


def test_what_verify_saw_damaged_of_an_evaluation_is_made_anew_by_its_command(store: Path) -> None:
    """With its size and date kept, nobody but verify sees it: a run that is done opens nothing."""
    whole = contents(store)
    path = next(store.glob("candidates/*/00000.parquet"))
    flip(path)
    done = CliRunner().invoke(app, ["store", "verify", "--store", str(store)])
    assert done.exit_code == 1
    assert re.search(r"repeat the command of run \S+ \(evaluate trial\)", done.output)
    if f"rm {path}" in done.output:  # it was changed within the last second, which is not remembered
        path.unlink()
    evaluate(store)
    assert contents(store) == whole
    assert "No fault" in CliRunner().invoke(app, ["store", "verify", "--store", str(store)]).output
