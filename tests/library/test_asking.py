"""Answers with another alpha or budget, their passages, and which methods a store can be asked by."""

from typing import Any

import pytest

import vitalfew as vf

QUESTION = "Where is Velmar?"


@pytest.mark.parametrize("method", ["ParetoRAG", "cut"])
def test_other_settings_answer_as_a_method_that_has_them(store: vf.Store, method: str) -> None:
    rag = store.rag(f"shapes:{method}", index="towns")
    given: dict[str, Any] = {"max_tokens": 25} | ({"alpha": 0.25} if rag.alpha is not None else {})
    settings = {"refine": {"max_tokens": 25}} | ({"retrieve": {"alpha": 0.25}} if "alpha" in given else {})
    before = rag.answer(QUESTION)
    varied = rag.answer(QUESTION, **given)
    other = store.rag(f"shapes:{method}", index="towns", settings=settings)
    expected = other.answer(QUESTION)
    assert (varied.text, varied.contexts, varied.hits) == (expected.text, expected.contexts, expected.hits)
    assert varied.fingerprint == other.fingerprint != rag.fingerprint == before.fingerprint
    assert varied.context_tokens <= 25 < before.context_tokens
    same = rag.answer(QUESTION, alpha=rag.alpha, max_tokens=rag.max_tokens)
    assert (same.text, same.fingerprint) == (before.text, before.fingerprint)


def test_the_passages_of_an_answer(store: vf.Store) -> None:
    rag, index = store.rag("shapes:ParetoRAG", index="towns"), store.index("towns")
    answer = rag.answer(QUESTION, max_tokens=20)
    assert [hit.rank for hit in answer.hits] == [*range(1, 9)]
    passages = rag.passages(answer)
    assert {passage.passage_id for passage in passages} == {hit.passage_id for hit in answer.hits}
    assert [passage.rank for passage in passages] == sorted(passage.rank for passage in passages)
    for passage in passages:
        assert passage.text == index.passage(passage.passage_id)["text"]
    kept = {(each.passage_id, span) for each in passages for span in each.kept}
    assert kept == {(each.passage_id, (each.start, each.end)) for one in answer.contexts for each in one.sources}
    assert not all(passage.kept for passage in passages)  # some were dropped whole
    assert [context.rank for context in answer.contexts] == [*range(1, len(answer.contexts) + 1)]
    assert answer.contexts[0].score == max(hit.score for hit in answer.hits)


def test_the_methods_of_a_store(store: vf.Store) -> None:
    found = {method.name: method for method in store.methods()}
    assert next(iter(found)) == "shapes:naive"
    run = store.report("shapes").run
    pareto, alone = found["shapes:ParetoRAG"], found["shapes:model alone"]
    assert pareto == vf.Askable("shapes:ParetoRAG", "towns", run)
    assert alone == vf.Askable("shapes:model alone", "", run)
    assert found["quickstart:spans"].run == ""
    for name, method in found.items():  # the evaluated ones, by their names alone
        if method.run:
            assert store.rag(name, index=method.index or None).run == run
