"""Retrievers before every refiner that the bundled models can run: none falls below naive RAG at equal tokens.

Every retriever stands before the refiners without a model. Those with a model score texts anew, so that one retriever
of each kind of text is enough: passages, sentences, spans.

With the real encoder, as scores of a stand-in say nothing of their scale. The share of the questions whose answer is
among 60 tokens of contexts is compared, question by question.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vitalfew as vf
from tests.support.evaluating import CORPUS, copied, run
from tests.support.shared import indexed
from vitalfew.tasks.registry import METHODS
from vitalfew.tasks.reports.statistics.paired import paired_bootstrap

NAIVE = "naive RAG"
RETRIEVERS: dict[str, dict[str, Any]] = {
    "passage": {"retriever": "passage", "top_k": 10},
    "core_context": {"retriever": "core_context", "top_k": 40},
    "bm25": {"retriever": "bm25", "top_k": 40},
    "bm25 passages": {"retriever": "bm25", "unit": "passage", "top_k": 10},
    "hybrid": {"retriever": "hybrid", "top_k": 40},
    "hybrid passages": {"retriever": "hybrid", "unit": "passage", "top_k": 10},
    "spans": {"retriever": "spans", "top_k": 200},
}
KINDS = ("passage", "core_context", "spans")
"""One retriever of passages, one of sentences, one of spans."""
QUICK = ("cut", "mmr", "spans")
"""Refiners without a model of their own."""
SLOW = ("rerank", "relevance", "dslr", "crag", "cxmi", "recomp_extractive", "oreo")
LEFT_OUT = (
    "gold", "exit", "selective_context", "llmlingua", "longllmlingua", "llmlingua2", "provence", "recomp", "compact",
    "refiner_7b",
)  # fmt: skip
"""An upper bound, and those whose models are not bundled."""
BELOW = {"core_context / cxmi", "spans / cxmi"}
"""Its filter learnt to read sentences within their passage, and a retriever of sentences gives it none."""
KEPT = """
SELECT scores.question_id AS question, value FROM scores JOIN methods USING (fingerprint)
WHERE methods.method = '{method}' AND scores.metric = 'answer_kept' ORDER BY question
"""


def test_every_kind_is_among_them() -> None:
    named = {own["retriever"] for own in RETRIEVERS.values()}
    assert named | {"run_file"} == {*METHODS["retriever"]}  # what a file ranks is another tool's
    assert {*QUICK, *SLOW, *LEFT_OUT} == {*METHODS["refiner"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("retrievers", "refiners"),
    [
        pytest.param(tuple(RETRIEVERS), QUICK, id="quick"),
        pytest.param(KINDS, SLOW, id="models"),
    ],
)
def test_no_combination_falls_below_naive_rag(
    tmp_path: Path, retrievers: tuple[str, ...], refiners: tuple[str, ...]
) -> None:
    store = copied(indexed(CORPUS, bm25={"enabled": True}, encode={"encoder": "minilm"}), tmp_path / "store")
    cells = {
        f"{retriever} / {refiner}": {"retrieve": RETRIEVERS[retriever], "refine": {"refiner": refiner}}
        for retriever in retrievers
        for refiner in refiners
    }
    settings = {
        "questions": {"sample": 40},
        "generate": None,
        "refine": {"max_tokens": 60},
        "score": {"metrics": ["answer_kept"]},
        "methods": {NAIVE: {"retrieve": RETRIEVERS["passage"]}, **cells},
    }
    run(store, settings, index="test")
    opened = vf.Store(store)
    naive = kept(opened, NAIVE)
    assert 0.2 < np.mean(list(naive.values())) < 0.8  # there is room on both sides
    found = {cell: difference(kept(opened, cell), naive) for cell in cells}
    assert {cell: own for cell, own in found.items() if own[1] < 0 and cell not in BELOW} == {}


def kept(store: vf.Store, method: str) -> dict[int, float]:
    """1 or 0 by question: whether its answer is among the contexts of a method."""
    return {row["question"]: row["value"] for row in store.sql(KEPT.format(method=method)).to_dicts()}


def difference(cell: dict[int, float], naive: dict[int, float]) -> tuple[float, float]:
    """Of the two means over the questions that both have, and the upper end of its 95 % interval."""
    both = sorted({*cell} & {*naive})
    [found] = paired_bootstrap([naive[each] for each in both], [[cell[each] for each in both]])
    assert found.mean_difference is not None
    assert found.high is not None
    return found.mean_difference, found.high
