"""An index whose vectors are made on demand: what it finds, what it remembers, and how it becomes a whole one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.support.evaluating import CORPUS, copied, run, searchable
from tests.support.indexing import index, table
from tests.support.shared import indexed
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import RetrieveConfig
from vitalfew.flows.cli.main import app
from vitalfew.storage import files
from vitalfew.storage.costs import Reused
from vitalfew.storage.generations import forget
from vitalfew.storage.indexes import TopK
from vitalfew.storage.indexes.opened import IndexMismatch
from vitalfew.storage.indexes.remembered import MANY, Remembered
from vitalfew.storage.upkeep.inventory import RetentionPolicy
from vitalfew.storage.upkeep.removal import plan, remove
from vitalfew.tasks.retrieve import Searcher, rescored

QUESTIONS = ["Who founded the town of Velmar?", "When was the observatory opened?", "…"]
EVERYTHING = 1000
LATER: dict[str, Any] = {"encode": {"vectors": "later"}, "bm25": {"enabled": True}}


@pytest.fixture
def later(tmp_path: Path) -> Path:
    return copied(indexed(CORPUS, **LATER), tmp_path / "later")


def found(searcher: Searcher, request: RetrieveConfig) -> list[list[tuple[int, float]]]:
    top = searcher.search(QUESTIONS, request)
    return [
        [(unit, score) for unit, score in zip(*own, strict=True) if unit >= 0]
        for own in zip(top.ids.tolist(), top.scores.tolist(), strict=True)
    ]


def of_candidates(searcher: Searcher, request: RetrieveConfig) -> list[set[int]]:
    """The passages that keywords find for every question."""
    view = searcher._index(request)
    return [
        {int(searcher.units.ids("passage", shard)[row]) for shard, row in own} for own in view.candidates(QUESTIONS)
    ]


@pytest.mark.parametrize("retriever", ["passage", "core_context"])
def test_scores_are_those_of_an_index_with_all_vectors(later: Path, retriever: str) -> None:
    """Where the candidates are all that share a word, the hits are those of a whole index that are candidates."""
    some = RetrieveConfig(retriever=retriever, top_k=EVERYTHING, rescore=EVERYTHING)
    lazy, whole = Searcher.named(later, "test"), Searcher.named(searchable(), "test")
    top = whole.search(QUESTIONS, some)
    hits = whole.found(top, "sentence" if retriever == "core_context" else "passage")
    candidates = of_candidates(lazy, some)
    for own, every, allowed in zip(found(lazy, some), hits, candidates, strict=True):
        kept = [(hit.unit_id, hit.score) for hit in every if hit.passage_id in allowed]
        assert dict(own) == pytest.approx(dict(kept), abs=1e-5)
    assert candidates[0]
    assert not candidates[2]


def test_a_vector_counts_once_however_often_it_is_asked_for(later: Path) -> None:
    """Else the reused work of an evaluation would cost more than encoding the whole corpus."""
    request = RetrieveConfig(retriever="spans", top_k=5, rescore=10)
    first, second = Searcher.named(later, "test"), Searcher.named(later, "test")
    with first.spending() as spent:
        once = found(first, request)
        found(first, request)
    with second.spending() as again:
        assert found(second, request) == once
        found(second, request)
    assert (spent.remembered, again.encoded) == (0, 0)
    assert again.remembered == spent.encoded
    assert again.reused.tokens == pytest.approx(spent.tokens)


def test_all_vectors_are_added_at_any_time(later: Path, tmp_path: Path) -> None:
    found(Searcher.named(later, "test"), RetrieveConfig(retriever="passage", rescore=10))
    made = index(later, CORPUS, bm25={"enabled": True})
    (encode,) = (manifest for manifest in made.manifests if manifest.stage == "encode")
    assert 0 < encode.note("reused") < encode.rows["vectors"]
    whole, own = (
        {(row["kind"], row["id"]): row["vector"] for row in table(store, "vectors").to_pylist()}
        for store in (searchable(), later)
    )
    assert own == whole


@pytest.mark.parametrize("unit", ["sentence", "passage"])
def test_rescoring_needs_the_same_vectors_in_both_indexes(later: Path, unit: str) -> None:
    request = RetrieveConfig(retriever="bm25", unit=unit, top_k=5, rescore=10)
    lazy, whole = (found(Searcher.named(store, "test"), request) for store in (later, searchable()))
    for own, others in zip(lazy, whole, strict=True):
        assert [unit for unit, _ in own] == [unit for unit, _ in others]
        assert [score for _, score in own] == pytest.approx([score for _, score in others], abs=1e-4)


def test_the_weight_leads_from_the_first_ranking_to_the_encoders() -> None:
    ids = np.arange(8).reshape(2, 4)
    rows = np.array([[0, 1, 2, 3], [4, 5, -1, -1]])
    first = TopK(ids, np.array([[9, 5, 4, 3], [2, 1, -np.inf, -np.inf]], np.float32), rows * 0, rows)
    near = np.array([[0.1, 0.3, 0.2, 0.9], [0.5, 0.5, 0, 0]], np.float32)
    rated = rows >= 0
    rated[0, 3] = False  # beyond the candidates
    assert rescored(first, near, rated, 0.0, 4).ids.tolist() == ids.tolist()
    assert rescored(first, near, rated, 1e6, 3).ids.tolist() == [[1, 2, 0], [4, 5, 6]]
    assert rescored(first, near, rated, 1.0, 4).rows[1].tolist() == [4, 5, -1, -1]


def test_an_evaluation_says_what_it_paid_and_found(later: Path) -> None:
    settings = {
        "methods": {
            "rescored": {"retrieve": {"retriever": "bm25", "unit": "passage", "rescore": 10}},
            "passages": {"retrieve": {"retriever": "passage", "rescore": 10}},
        },
        "generate": None,
        "score": {"metrics": ["passage_recall"]},
    }
    outcome = run(later, settings)
    hits = [manifest for manifest in outcome.manifests if manifest.stage == "retrieve"]
    paid, reused = (
        sum(getattr(each.cost, name) for own in hits for each in own.shards) for name in ("tokens", "reused_tokens")
    )
    assert paid > 0
    assert reused > 0
    assert sum(own.note("encoded") for own in hits)
    assert sum(own.note("remembered") for own in hits)


def test_what_it_cannot_do_is_said_with_the_remedy(later: Path) -> None:
    methods = {"mmr": {"retrieve": {"retriever": "passage"}, "refine": {"refiner": "mmr"}}}
    with pytest.raises(IndexMismatch, match="vitalfew index --encode all --name test"):
        run(later, {"methods": methods, "generate": None, "score": {"metrics": ["passage_recall"]}})
    with pytest.raises(ConfigError, match=r"bm25\.enabled=true"):
        index(later, CORPUS, encode={"vectors": "later"}, bm25={"enabled": False})
    said = CliRunner().invoke(app, ["search", "xyzzy", "--index", "test", "--store", str(later)]).output
    assert "vitalfew index --name test --encode all" in said


def test_gc_removes_vectors_once_no_index_has_their_encoder(later: Path) -> None:
    found(Searcher.named(later, "test"), RetrieveConfig(retriever="passage", rescore=10))
    size, policy = files.tree_bytes(later / "remembered"), RetentionPolicy()
    assert size
    assert plan(later, policy).removals == []
    forget(later, "test")
    removals = plan(later, policy).removals
    assert [each.bytes for each in removals if each.kind == "remembered"] == [size]
    assert files.tree_bytes(later / "remembered") == size
    assert all(kept is None for _, kept in remove(later, removals, policy))
    assert files.tree_bytes(later / "remembered") == 0


def test_many_small_files_become_one_and_damage_counts_as_missing(tmp_path: Path) -> None:
    keys, vectors = np.arange(3 * MANY), np.random.default_rng(0).normal(size=(3 * MANY, 4)).astype(np.float32)
    for start in range(0, len(keys), 3):
        own = slice(start, start + 3)
        process = Remembered(tmp_path, "e", "core", 4)
        assert not process.find(keys[own])[1].any()
        process.add(keys[own][::-1], vectors[own][::-1], Reused(6.0))
    memory = Remembered(tmp_path, "e", "core", 4)
    got, known, took = memory.find(np.append(keys, 99))
    assert known.tolist() == [True] * len(keys) + [False]
    assert (got[:-1] == vectors).all()
    assert took.tokens == pytest.approx(2 * len(keys))
    paths = [*memory.folder.glob("*.arrow")]
    assert len(paths) < MANY
    for path in paths:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.unlink()
        path.write_bytes(content)
    assert not Remembered(tmp_path, "e", "core", 4).find(keys)[1].any()
