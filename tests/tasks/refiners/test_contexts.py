"""`refine.group`: what is kept of a passage is one context, or every hit is one; in either case within the budget."""

import re
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import shared
from tests.support.evaluating import copied, run, values
from vitalfew.configs.evaluation import RefineConfig
from vitalfew.tasks.refiners.base import Evidence, Hit
from vitalfew.tasks.registry import make
from vitalfew.tasks.splitters.tokens import count_tokens, count_words

TEXTS = ["The Ouse rises in the hills. ", "It is long. ", "Its mouth is wide.\n\n", "A mill stands. "]
STARTS = [0, *accumulate(map(len, TEXTS))]
SENTENCE = st.tuples(st.integers(0, 2), st.integers(0, 3))


def sentence(passage: int, number: int, score: float = 0.0, title: str = "Ouse") -> Hit:
    return Hit(title, TEXTS[number], passage, STARTS[number], STARTS[number + 1], score=score)


def cut(hits: Sequence[Hit], **options: Any) -> list[Evidence]:
    [contexts] = make(RefineConfig(text="titled", **options), "refine").refine(["?"], [hits]).contexts
    return list(contexts)


def test_a_passage_is_one_context_with_its_title_once() -> None:
    hits = [sentence(1, 3, 0.9), sentence(2, 0, 0.8), sentence(1, 0, 0.7), sentence(1, 1, 0.6)]
    together = cut(hits)
    assert [context.text for context in together] == [
        "Ouse: The Ouse rises in the hills. It is long. … A mill stands.",
        "Ouse: The Ouse rises in the hills.",
    ]
    assert [context.origin for context in together] == [((1, 0, 41), (1, 61, 76)), ((2, 0, 29),)]
    assert [context.score for context in together] == [0.9, 0.8]
    apart = cut(hits, group="apart")
    assert [context.text for context in apart] == [f"Ouse: {hit.text.strip()}" for hit in hits]
    assert sum(context.tokens for context in together) < sum(context.tokens for context in apart)


def test_neighbours_stand_as_in_their_passage() -> None:
    [context] = cut([sentence(1, 3), sentence(1, 2)])
    assert context.text == "Ouse: Its mouth is wide.\n\nA mill stands."


def test_a_sentence_that_is_cut_no_longer_reaches_the_next_one() -> None:
    [context] = cut([sentence(1, 1), sentence(1, 0)], max_tokens=9)
    assert context.text == "Ouse: The Ouse … It is long."
    assert context.tokens == 9


def test_what_is_shown_already_costs_nothing() -> None:
    whole = Hit("Ouse", "".join(TEXTS), 1, 0, STARTS[-1])
    [context] = cut([whole, sentence(1, 2), sentence(1, 2)], max_tokens=count_tokens("Ouse: " + whole.text))
    assert context.text == "Ouse: " + whole.text.strip()
    [context] = cut([sentence(1, 2), whole])
    assert context.text == "Ouse: " + whole.text.strip()


def test_texts_without_a_place_stay_apart() -> None:
    written = [Hit("Ouse", text, 1, 0, 0) for text in ("The Ouse is long.", "It has a mill.")]
    assert [context.text for context in cut(written)] == ["Ouse: The Ouse is long.", "Ouse: It has a mill."]
    assert [context.origin for context in cut(written)] == [(), ()]


@given(
    st.lists(SENTENCE, max_size=8),
    st.one_of(st.none(), st.integers(1, 60)),
    st.one_of(st.none(), st.integers(1, 60)),
    st.sampled_from(["Ouse", ""]),
)
def test_the_budget_holds_and_nothing_stands_twice(
    chosen: list[tuple[int, int]], tokens: int | None, words: int | None, title: str
) -> None:
    hits = [sentence(*each, title=title) for each in chosen]
    contexts = cut(hits, max_tokens=tokens, max_words=words)
    assert sum(context.tokens for context in contexts) <= (tokens or 1_000)
    assert sum(count_words(context.text) for context in contexts) <= (words or 1_000)
    assert len({context.origin[0][0] for context in contexts}) == len(contexts)
    for context in contexts:
        assert context.tokens == count_tokens(context.text)
        assert [*context.origin] == sorted(context.origin)
        parts = context.text.removeprefix("Ouse: ").split(" … ")
        passage = "".join(TEXTS)
        assert parts == [passage[start:end].strip() for _, start, end in context.origin]
    if tokens is None and words is None:
        spans = {(passage, start, end) for context in contexts for passage, start, end in context.origin}
        shown = {(hit.passage_id, hit.start) for hit in hits}
        assert all(any(p == q and s <= at < e for q, s, e in spans) for p, at in shown)


def test_methods_on_sentences_pay_a_title_once(tmp_path: Path) -> None:
    store = copied(shared.indexed(), tmp_path / "store")
    methods = {"together": {}, "apart": {"refine": {"group": "apart"}}}
    settings = {"index": "test", "retrieve": {"top_k": 20}, "refine": {"text": "titled"}, "generate": None}
    outcome = run(store, {**settings, "methods": methods, "score": {"metrics": ["supporting_facts", "tokens"]}})
    together, apart = (values(store, outcome, name) for name in methods)
    assert together["context_tokens"] < apart["context_tokens"]
    assert together["contexts"] < apart["contexts"] == pytest.approx(20)
    assert together["sp_recall"] == apart["sp_recall"]


def test_the_papers_keep_sentences_apart() -> None:
    experiments = Path(__file__).parents[3] / "configs" / "experiments"
    for folder in ("oreo", "paretorag", "pfe_self_rag", "sparse_rag"):
        for path in (experiments / folder).glob("*.yaml"):
            text = path.read_text(encoding="utf-8")
            assert re.search(r"^refine:\s*({[^}]*\bgroup: apart\b|\n  group: apart$)", text, re.MULTILINE), path
