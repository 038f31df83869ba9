"""Search: scores against brute force, linearity in alpha, layouts, shards, and what an index cannot answer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.evaluating import copied, searchable
from tests.support.fakes import HashEncoder
from tests.support.indexing import index, table
from tests.support.shared import indexed
from vitalfew.configs.schema import RetrieveConfig
from vitalfew.storage.indexes.opened import IndexMismatch
from vitalfew.storage.runs import IndexNotFound
from vitalfew.tasks.retrieve import Searcher

QUESTION = "When was the observatory opened?"


@pytest.fixture(scope="module", params=["exact", "passage", "pooled", "late"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copied(indexed(encode={"context": request.param}), tmp_path_factory.mktemp("retrieve") / "store")
    fused = {"layout": "fused", "alpha": 0.3}
    index(folder, name="fused", encode={"context": request.param}, index=fused)
    return folder


def brute_force(store: Path, question: str, alpha: float) -> dict[int, float]:
    """alpha * core.q + (1 - alpha) * context.q of every sentence, straight from the tables."""
    vectors = {(row["kind"], row["id"]): np.array(row["vector"]) for row in table(store, "vectors").to_pylist()}
    sentences = table(store, "sentences").to_pylist()
    sizes: dict[int, int] = {}
    for row in sentences:
        sizes[row["passage_id"]] = sizes.get(row["passage_id"], 0) + 1
    asked = HashEncoder().encode_questions([question]).vectors[0]
    mode = Searcher.named(store, "test").index.encoding.context
    scores = {}
    for row in sentences:
        core = vectors["core", row["sentence_id"]]
        context = vectors.get(("context", row["sentence_id"]), vectors.get(("passage", row["passage_id"])))
        if mode == "pooled":
            beside = [each for each in sentences if each["passage_id"] == row["passage_id"]]
            cores = [vectors["core", each["sentence_id"]] for each in beside]
            context = np.average(cores, axis=0, weights=[each["tokens"] for each in beside])
        if sizes[row["passage_id"]] == 1:
            context = core
        scores[row["sentence_id"]] = float(alpha * core @ asked + (1 - alpha) * context @ asked)
    return scores


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_scores_are_those_of_the_definition(store: Path, alpha: float) -> None:
    truth = brute_force(store, QUESTION, alpha)
    hits = Searcher.named(store, "test").hits(QUESTION, RetrieveConfig(alpha=alpha, top_k=20))
    best = sorted(truth.values(), reverse=True)[:20]
    np.testing.assert_allclose([hit.score for hit in hits], best, atol=1e-5)
    for hit in hits:
        assert hit.score == pytest.approx(truth[hit.unit_id], abs=1e-5)
        context = hit.core if hit.context is None else hit.context
        assert hit.score == pytest.approx(alpha * hit.core + (1 - alpha) * context, abs=1e-5)
        assert hit.text in hit.passage


def test_a_fused_index_answers_as_a_dual_one_for_its_alpha(store: Path) -> None:
    request = RetrieveConfig(alpha=0.3, top_k=10)
    dual, fused = (Searcher.named(store, name).hits(QUESTION, request) for name in ("test", "fused"))
    assert [hit.unit_id for hit in dual] == [hit.unit_id for hit in fused]
    for one, other in zip(dual, fused, strict=True):
        assert (one.score, one.core) == pytest.approx((other.score, other.core), abs=1e-5)
    with pytest.raises(ValueError, match=r"fused at alpha 0\.3 and cannot answer for alpha 0\.8"):
        Searcher.named(store, "fused").hits(QUESTION, RetrieveConfig(alpha=0.8))


WHERE = "source_id LIKE '%1%' AND length(title) > 4"


@pytest.mark.parametrize("retriever", ["core_context", "bm25", "hybrid"])
def test_a_condition_leaves_other_passages_out(retriever: str) -> None:
    """The hits are those of a search of everything, without the units of other passages."""
    store = searchable()
    searcher, passages = Searcher.named(store, "test"), table(store, "passages").to_pylist()
    meant = {row["passage_id"] for row in passages if "1" in row["source_id"] and len(row["title"]) > 4}
    assert 0 < len(meant) < len(passages)
    request = {"retriever": retriever, "top_k": 10_000}
    every, some = (searcher.hits(QUESTION, RetrieveConfig(**request, where=where)) for where in (None, WHERE))
    kept = [hit for hit in every if hit.passage_id in meant]
    assert some
    assert {hit.passage_id for hit in some} <= meant
    if retriever != "hybrid":  # whose scores follow from the ranks in what is searched
        assert [(hit.unit_id, hit.score) for hit in some] == [(hit.unit_id, hit.score) for hit in kept]
    else:
        assert {hit.unit_id for hit in some} == {hit.unit_id for hit in kept}
    assert searcher.hits(QUESTION, RetrieveConfig(retriever=retriever, where="false")) == []


def test_a_condition_that_is_none_is_an_error() -> None:
    searcher = Searcher.named(searchable(), "test")
    with pytest.raises(ValueError, match=r"retrieve\.where \(--where\) .*on the columns passage_id,"):
        searcher.hits(QUESTION, RetrieveConfig(where="titel = 'a'"))
    with pytest.raises(ValueError, match=r"the result of random\(\) may change"):
        searcher.hits(QUESTION, RetrieveConfig(where="random() < 0.5"))


def test_what_an_index_cannot_answer(tmp_path: Path) -> None:
    index(tmp_path, encode={"units": ["passage"]})
    with pytest.raises(IndexMismatch, match=r"core_context.*holds only passages.*encode\.units"):
        Searcher.named(tmp_path, "test").hits(QUESTION, RetrieveConfig())
    with pytest.raises(IndexNotFound, match="there are: test"):
        Searcher.named(tmp_path, "tset")
    sorted((tmp_path / "faiss").glob("*/*.faiss"))[0].unlink()
    with pytest.raises(IndexMismatch, match="run the same `vitalfew index` again"):
        Searcher.named(tmp_path, "test")


def test_no_more_is_searched_than_there_is(store: Path) -> None:
    searcher = Searcher.named(store, "test")
    units = searcher.index.count("passage")
    for retriever in ("passage", "core_context"):
        top = searcher.search([QUESTION], RetrieveConfig(retriever=retriever, top_k=10**12))
        assert top.rows.shape == (1, units if retriever == "passage" else searcher.index.count("sentence"))
        assert (top.rows >= 0).all()


@pytest.mark.parametrize(
    "given", [{"top_k": 8}, {"retriever": "hybrid", "top_k": 3, "unit": "passage"}, {"top_k": 9999}]
)
def test_passages_that_are_a_question_itself_are_no_hits_for_it_and_leave_no_gap(given: dict[str, Any]) -> None:
    unit = given.get("unit", "sentence")
    searcher, asked = Searcher.named(searchable(), "test"), [QUESTION, "Who built the lighthouse?"]
    whole = searcher.columns(searcher.search(asked, RetrieveConfig(**{**given, "top_k": 9999})), unit)
    itself = whole["passage_id"][0]
    top = searcher.search(asked, RetrieveConfig(**given), itself=[[int(itself), 1], []])
    found = searcher.columns(top, unit)
    for number in (0, 1):
        own = whole["question"] == number
        kept = own & ((whole["passage_id"] != itself) | (number == 1))
        due = whole["unit_id"][kept][: given["top_k"]].tolist()
        assert found["unit_id"][found["question"] == number].tolist() == due
        assert found["rank"][found["question"] == number].tolist() == [*range(1, len(due) + 1)]
