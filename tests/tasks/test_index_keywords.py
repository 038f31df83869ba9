"""BM25 and hybrid retrieval: shards score as one index does, reciprocal rank fusion is what the paper says."""

from pathlib import Path

import bm25s
import numpy as np
import pytest

from tests.support.evaluating import copied
from tests.support.indexing import index, table
from tests.support.shared import indexed
from vitalfew.configs.schema import RetrieveConfig
from vitalfew.tasks.retrieve import Searcher
from vitalfew.tasks.retrievers.keywords import words

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
    np.testing.assert_allclose([hit.score for hit in hits], best, rtol=0, atol=1e-4)
    for hit in hits:
        assert hit.score == pytest.approx(truth[hit.unit_id], abs=1e-4)
        assert set(words([hit.text])[0]) & set(words([QUESTION])[0])
        assert hit.text in hit.passage
        assert -1.001 <= hit.core <= 1.001


def test_equal_units_have_equal_scores_in_every_shard(tmp_path: Path) -> None:
    """14 orders of the same words, in shards of 5, with others of other lengths; a question's words in two orders."""
    names = ["amber", "basalt", "cobalt", "dolomite", "emerald", "feldspar", "garnet"]
    orders = [[*names[n:], *names[:n]] for n in range(7)]
    texts = [" ".join(order) for order in (*orders, *(order[::-1] for order in orders))]
    texts += [" ".join([name, "lamp"] * n) for n, name in enumerate(names, 1)]
    (tmp_path / "texts.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in texts))
    index(tmp_path / "store", f"jsonl:{tmp_path / 'texts.jsonl'}", **BM25, load={"shard_passages": 5})
    searcher = Searcher.named(tmp_path / "store", "test")
    request = RetrieveConfig(retriever="bm25", unit="passage", top_k=14)
    top = searcher.search([" ".join(names), " ".join(names[::-1])], request)
    assert len({*top.shards[0].tolist()}) > 1
    assert len({*top.scores.ravel().tolist()}) == 1
    assert top.ids[0].tolist() == top.ids[1].tolist() == sorted(top.ids[0].tolist())


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


def test_hybrid_fuses_both_rankings(store: Path) -> None:
    searcher = Searcher.named(store, "test")
    dense = RetrieveConfig(retriever="core_context", top_k=100)
    keywords = RetrieveConfig(retriever="bm25", top_k=100)
    rankings = [searcher.search([QUESTION], request).ids[0].tolist() for request in (dense, keywords)]
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, each in enumerate([unit for unit in ranking if unit >= 0], 1):
            scores[each] = scores.get(each, 0) + 1 / (60 + rank)
    hits = searcher.hits(QUESTION, RetrieveConfig(retriever="hybrid", top_k=12))
    assert [hit.score for hit in hits] == pytest.approx(sorted(scores.values(), reverse=True)[:12])
    assert all(hit.score == pytest.approx(scores[hit.unit_id]) for hit in hits)
