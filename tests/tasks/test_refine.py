"""The stage refine in an evaluation: an account of every question, whatever the refiner, and its compression in SQL."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storage.artifacts import Artifact
from storage.manifests import write_manifest
from tests.support.evaluating import copied, run, values
from tests.support.indexing import index, sql

SETTINGS: dict[str, Any] = {
    "index": "test",
    "questions": {"batch": 4},
    "retrieve": {"retriever": "passage", "top_k": 3},
    "generate": {"generator": "tests.support.fakes:FirstWords"},
    "score": {"metrics": ["compression"]},
    "methods": {"full": {}, "best": {"refine": {"top_k": 1}}, "none": {"retrieve": None}},
}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("refined") / "store"
    index(store)
    return store


def test_every_question_has_an_account_that_agrees_with_its_contexts(indexed: Path, tmp_path: Path) -> None:
    store = copied(indexed, tmp_path / "store")
    outcome = run(store, SETTINGS)
    assert sql(store, "SELECT count(*), count(DISTINCT fingerprint) FROM refinements") == [(20, 2)]
    wrong = """
    SELECT * FROM refinements AS r WHERE r.seconds < 0 OR r.cut OR r.finish_reason <> '' OR r.output_tokens <>
        (SELECT sum(tokens) FROM evidence AS e WHERE e.question_id = r.question_id AND e.fingerprint = r.fingerprint)
    """
    assert sql(store, wrong) == []
    (best, full) = sql(
        store, "SELECT method, questions, input_tokens, output_tokens, share FROM compression ORDER BY 1"
    )
    assert full == ("full", 10, full[2], full[2], 1.0)
    assert best[:3] == ("best", 10, full[2])
    assert best[4] == pytest.approx(best[3] / best[2])
    assert best[4] < 1
    measured = values(store, outcome, "best")
    assert 0 < (measured["context_share"] or 0) < 1
    assert (measured["total_seconds"] or 0) > (measured["refine_seconds"] or 0) > 0
    assert values(store, outcome, "none")["context_share"] is None


def test_a_store_that_was_refined_by_an_older_version_answers(indexed: Path, tmp_path: Path) -> None:
    """Its evidence has no account: it is scored without, and not refined again."""
    store = copied(indexed, tmp_path / "store")
    plain = {**SETTINGS, "score": {"metrics": ["tokens"]}}
    run(store, plain)
    for folder in [path.parent for path in store.glob("evidence/*/manifest.json")]:
        manifest = Artifact(store, "evidence", folder.name).completed()
        shards = [replace(each, files=[f for f in each.files if f.table == "evidence"]) for each in manifest.shards]
        write_manifest(folder, replace(manifest, rows={"evidence": manifest.rows["evidence"]}, shards=shards))
    for file in store.glob("refinements/*/*.parquet"):
        file.unlink()
    outcome = run(store, SETTINGS)
    assert outcome.methods["best"]["refine"].artifact in outcome.reused
    assert values(store, outcome, "best")["context_share"] is None
    assert sql(store, "SELECT * FROM compression") == []
