"""Golden: hits and scores of the retrievers; of a long text, the first 90 characters."""

from collections.abc import Callable

import pytest

import vitalfew as vf
from tests.golden.stores import lines, valley

QUESTIONS = (
    "Who founded Glenholt?",
    "Which town sells honey at a fair in autumn?",
    "A bridge of nine arches that the ice broke",
)


@pytest.mark.parametrize("retriever", ["passage", "core_context", "hybrid", "bm25", "spans"])
def test_search(golden: Callable[[str, str], None], retriever: str) -> None:
    index = vf.Store(valley() / "store", progress=False).index("valley")
    text = ""
    for question in QUESTIONS:
        hits = index.search(question, top_k=6, retriever=retriever)
        text += f"# {question}\n" + lines((hit.rank, hit.score, hit.title, hit.text[:90]) for hit in hits) + "\n"
    golden(f"search/{retriever}.txt", text)
