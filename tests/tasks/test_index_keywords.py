"""BM25 and hybrid retrieval: shards score as one index does, reciprocal rank fusion is what the paper says."""

import json
from pathlib import Path

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.support.evaluating import copied
from tests.support.indexing import index, reused, table
from tests.support.shared import indexed
from vitalfew.configs.schema import RetrieveConfig
from vitalfew.flows.cli.main import app
from vitalfew.storage.indexes import TopK
from vitalfew.storage.indexes.opened import IndexMismatch
from vitalfew.tasks.retrieve import Searcher
from vitalfew.tasks.retrievers.keywords import fused, words

QUESTION = "Who built the lighthouse, and when was it opened?"
BM25 = {"bm25": {"enabled": True}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(indexed(**BM25), tmp_path_factory.mktemp("keywords") / "store")


@pytest.mark.parametrize("unit", ["sentence", "passage"])
def test_a_corpus_in_shards_is_scored_as_one(store: Path, unit: str) -> None:
    rows = table(store, f"{unit}s")
    titles = {row["passage_id"]: row["title"] for row in table(store, "passages").to_pylist()}
    whole = bm25s.BM25(k1=0.9, b=0.4, method="lucene")
    texts = [f"{titles[row['passage_id']]}: {row['text']}" for row in rows.to_pylist()]
    whole.index(words(texts), show_progress=False)
    known = [word for word in words([QUESTION])[0] if word in whole.vocab_dict]
    truth = dict(zip(rows[f"{unit}_id"].to_pylist(), whole.get_scores(known).tolist(), strict=True))
    hits = Searcher.named(store, "test").hits(QUESTION, RetrieveConfig(retriever="bm25", unit=unit, top_k=15))
    assert len(hits) == 15
    best = sorted(truth.values(), reverse=True)[:15]
    np.testing.assert_allclose([hit.score for hit in hits], best, rtol=1e-5)
    for hit in hits:
        assert hit.score == pytest.approx(truth[hit.unit_id], rel=1e-5)
        assert set(words([hit.text])[0]) & set(words([QUESTION])[0])
        assert hit.text in hit.passage
        assert -1.001 <= hit.core <= 1.001


def test_words() -> None:
    assert words(["The Bridges' 2 ENGINEERS, engineering.", "", "to be or not", "Ünder 19°C"]) == [
        ["bridg", "2", "engin", "engin"],
        [],
        ["to", "be", "or", "not"],
        ["ünder", "19", "c"],
    ]
    assert words(["oﬃ\u00adce, 10³ _Cargo_", "借书证办理 書 87号", "हिन्दी में"]) == [
        ["offic", "10", "3", "cargo"],
        ["借书", "书证", "证办", "办理", "書", "87", "号"],
        ["हिन्दी", "में"],
    ]
    assert words(["Die Häuser, häuslich"], "german") == [["haus", "hauslich"]]
    assert words(["the Houses"], "none") == [["the", "houses"]]


def test_questions_that_no_unit_answers(store: Path) -> None:
    searcher = Searcher.named(store, "test")
    top = searcher.search(["xyzzy plugh", "", QUESTION], RetrieveConfig(retriever="bm25", top_k=3))
    assert (top.ids[:2] == -1).all()
    assert (top.ids[2] >= 0).all()
    assert searcher.hits("xyzzy", RetrieveConfig(retriever="bm25")) == []
    assert len(searcher.hits("xyzzy", RetrieveConfig(retriever="hybrid", top_k=4))) == 4


def test_an_index_without_bm25_says_how_to_add_it(tmp_path: Path) -> None:
    store = copied(indexed(), tmp_path / "store")
    for retriever in ("bm25", "hybrid"):
        with pytest.raises(IndexMismatch, match=r"no BM25.*--set bm25\.enabled=true"):
            Searcher.named(store, "test").hits(QUESTION, RetrieveConfig(retriever=retriever))
    assert reused(index(store, **BM25)) == {"load", "split", "encode", "index"}
    assert Searcher.named(store, "test").hits(QUESTION, RetrieveConfig(retriever="bm25"))


@pytest.mark.parametrize("unit", ["sentence", "passage"])
def test_hybrid_fuses_both_rankings(store: Path, unit: str) -> None:
    searcher = Searcher.named(store, "test")
    dense = RetrieveConfig(retriever="core_context" if unit == "sentence" else "passage", top_k=100)
    keywords = RetrieveConfig(retriever="bm25", unit=unit, top_k=100)
    rankings = [searcher.search([QUESTION], request).ids[0].tolist() for request in (dense, keywords)]
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, each in enumerate([unit for unit in ranking if unit >= 0], 1):
            scores[each] = scores.get(each, 0) + 1 / (60 + rank)
    hits = searcher.hits(QUESTION, RetrieveConfig(retriever="hybrid", unit=unit, top_k=12))
    assert [hit.score for hit in hits] == pytest.approx(sorted(scores.values(), reverse=True)[:12])
    assert all(hit.score == pytest.approx(scores[hit.unit_id]) for hit in hits)


@pytest.mark.parametrize("retriever", ["bm25", "hybrid"])
def test_from_the_command_line(store: Path, retriever: str) -> None:
    options = ["--index", "test", "--store", str(store), "--top-k", "3", "--retriever", retriever]
    result = CliRunner().invoke(app, ["search", QUESTION, *options, "--json"])
    hits = json.loads(result.stdout)
    assert [hit["rank"] for hit in hits] == [1, 2, 3]
    assert hits[0]["score"] >= hits[2]["score"] > 0
    shown = CliRunner().invoke(app, ["search", QUESTION, *options])
    assert hits[0]["title"] in shown.output
    assert retriever in shown.output


RANKING = st.lists(st.integers(0, 30), unique=True, max_size=20)


def ranked(units: list[int], depth: int = 20) -> TopK:
    ids = np.array([units + [-1] * (depth - len(units))], np.int64)
    return TopK(ids, np.zeros(ids.shape, np.float32), np.where(ids < 0, -1, ids // 10), np.where(ids < 0, -1, ids % 10))


@settings(deadline=None)
@given(st.lists(RANKING, min_size=1, max_size=4), st.integers(1, 30))
def test_reciprocal_rank_fusion(rankings: list[list[int]], k: int) -> None:
    top = fused([ranked(units) for units in rankings], k)
    kept = top.ids[0][top.ids[0] >= 0].tolist()
    assert len(kept) == len(set(kept)) == min(k, len({unit for units in rankings for unit in units}))
    assert (np.diff(top.scores[0][: len(kept)]) <= 0).all()
    for unit, score in zip(kept, top.scores[0].tolist(), strict=False):
        assert score == pytest.approx(sum(1 / (61 + units.index(unit)) for units in rankings if unit in units))
    np.testing.assert_array_equal(top.shards[0][: len(kept)] * 10 + top.rows[0][: len(kept)], kept)
    # neither the order of the rankings nor the depth that is asked for changes what is best
    again = fused([ranked(units) for units in reversed(rankings)], k)
    np.testing.assert_array_equal(again.ids, top.ids)
    deeper = fused([ranked(units) for units in rankings], k + 5)
    np.testing.assert_array_equal(deeper.ids[:, :k], top.ids)
    if len({tuple(units) for units in rankings}) == 1:
        assert kept == rankings[0][:k]
