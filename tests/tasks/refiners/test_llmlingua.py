"""The refiner `llmlingua`: what it keeps, worked out by hand and on a tiny model; budgets, origins, and odd input."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from transformers import LlamaForCausalLM

from tests.support import tiny_models
from tests.support.surprises import words
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.options import Batching
from vitalfew.tasks.models.causal.engines.base import EngineUnavailable
from vitalfew.tasks.models.causal.surprise import Surprise
from vitalfew.tasks.refiners.base import Hit, Refined
from vitalfew.tasks.refiners.llmlingua import LLMLingua
from vitalfew.tasks.refiners.selective_context import SelectiveContext
from vitalfew.tasks.splitters.tokens import count_tokens, count_words

TEXTS = [
    "The river rises in the hills and runs for 120 km to the sea.",
    "Its mill still stands. Who founded it?",
    "The sea.",
    "The mill of the hills stands in the hills by the river, 120 km from the sea.",
]
HITS = [Hit("Ouse", text, number, 7, 7 + len(text)) for number, text in enumerate(TEXTS)]
COMPUTING: dict[str, Any] = {"device": "cpu", "precision": "fp32"}
EIGHT = "a1 b8 c2 d7 e3 f6 g4 h5"


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def refined(llama: Path) -> Callable[..., Refined]:
    @cache
    def refiner(**chosen: Any) -> LLMLingua:
        return LLMLingua(LLMLingua.Options(refiner="llmlingua", model=str(llama), **COMPUTING, **chosen))

    def run(hits: list[list[Hit]], **chosen: Any) -> Refined:
        ticks: list[tuple[int, int]] = []
        made = refiner(**chosen).refine(["?"] * len(hits), hits, None, lambda *done: ticks.append(done))
        assert (sum(count for count, _ in ticks), sum(tokens for _, tokens in ticks)) == (len(hits), made.tokens)
        return made

    return run


def texts_of(made: Refined) -> list[list[str]]:
    return [[context.text for context in own] for own in made.contexts]


def of(*texts: str, title: str = "") -> list[Hit]:
    return [Hit(title, text, number, 0, len(text)) for number, text in enumerate(texts)]


# --- By hand


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        # The threshold is the 4th of 8 (their half), 5; what exceeds it stays.
        ({"judge": "own"}, "b8 d7 f6"),
        # The last always stays; the threshold is the 3rd of the other 7, 6; g4 stands before h5, below it.
        ({}, "a1 c2 h5"),
        # Decided on first: 4 tokens, one fewer than a segment. Then the threshold is the 3rd of 8, 7, 3, 6, 4 and 5.
        ({"judge": "own", "segment": 5}, "b8 d7"),
        ({"judge": "own", "segment": 5, "rest": "whole"}, "b8 d7 e3 f6 g4 h5"),
        ({"judge": "own", "rest": "whole"}, EIGHT),
        ({"rate": 1.0}, EIGHT),
        # A budget has exactly its share of every segment: of 2, 1 of the first 4 and 1 of the rest.
        ({"judge": "own", "max_tokens": 2}, "b8 d7"),
        ({"judge": "own", "max_tokens": 2, "segment": 5}, "b8 f6"),
        ({"judge": "own", "max_words": 3, "rate": 1.0}, "a1 b8 c2"),
    ],
)
def test_the_tokens_of_the_equations_are_left(
    refined: Callable[..., Refined], chosen: dict[str, Any], left: str
) -> None:
    with words():
        made = refined([of(EIGHT)], **chosen)
    [[context]] = made.contexts
    assert context.text == left
    assert "".join(EIGHT[start:end] for _, start, end in context.origin) in (left, f" {left}")


def test_a_segment_is_read_after_what_is_left(refined: Callable[..., Refined]) -> None:
    """Tokens left of the segment before are read again, what was left of earlier ones stands before."""
    with words() as rows:
        refined([of(EIGHT)], judge="own", segment=3, max_tokens=4)
    whole, *later = rows
    assert whole == ([], EIGHT.split())
    assert later == [([], ["b8", "c2", "d7", "e3"]), (["b8"], ["d7", "f6", "g4", "h5"])]


def test_hits_of_high_perplexity_are_kept_up_to_k_times_the_budget(refined: Callable[..., Refined]) -> None:
    hits = of("a1 b1", "c9 d9", "e5 f5")
    with words():
        for k, kept in ((1.0, [1]), (1.4, [1, 2]), (4.0, [0, 1, 2])):
            # A third of 6 tokens is to be left: until there are more than 2k, hits are kept.
            made = refined([hits], judge="own", rate=0.3, coarse=k, rest="whole")
            assert [context.origin[0][0] for context in made.contexts[0]] == kept


def test_a_title_stays_whole_and_is_read_before_its_hit(refined: Callable[..., Refined]) -> None:
    hits = of("a1 b8 c2 d7", title="z9 y9")
    with words() as rows:
        hidden = refined([hits], judge="own")
        shown = refined([hits], judge="own", text="titled")
    assert rows[0] == ([], ["z9", "y9:", "a1", "b8", "c2", "d7"])
    assert texts_of(hidden) == [["b8"]]
    assert texts_of(shown) == [["z9 y9: b8"]]
    assert [context.origin for context in shown.contexts[0]] == [((0, 3, 5),)]


def test_what_is_no_number_is_least_worth(refined: Callable[..., Refined]) -> None:
    with words(broken="b8"):
        assert texts_of(refined([of(EIGHT)], judge="own", max_tokens=7))[0] == ["a1 c2 d7 e3 f6 g4 h5"]


# --- On a model


@settings(deadline=None, max_examples=8)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(2, 399), max_size=5), st.lists(st.integers(2, 399), min_size=1, max_size=9))
    ),
    st.integers(30, 200),
)
def test_surprise_is_that_of_the_row_alone(llama: Path, rows: list[tuple[list[int], list[int]]], size: int) -> None:
    model = LlamaForCausalLM.from_pretrained(llama, dtype=torch.float32).eval()
    found = Surprise(str(llama), Batching(**COMPUTING, batch_tokens=size), "refine").of(rows, lambda tokens: None)
    assert [len(each) for each in found] == [len(ids) for _, ids in rows]
    for (before, ids), each in zip(rows, found, strict=True):
        with torch.inference_mode():
            logits = model(torch.tensor([[1, *before, *ids]])).logits[0].log_softmax(-1)
        due = [-float(logits[len(before) + place, token]) for place, token in enumerate(ids)]
        np.testing.assert_allclose(each, due, atol=1e-4)


@settings(deadline=None, max_examples=6)
@given(
    st.lists(st.lists(st.sampled_from(HITS), max_size=4, unique=True), min_size=1, max_size=3),
    st.sampled_from([None, 0.1, 0.5, 0.8]),
    st.sampled_from([4, 200]),
    st.sampled_from([{}, {"max_tokens": 5}, {"max_words": 6, "text": "titled"}, {"max_tokens": 30}, {"judge": "own"}]),
)
def test_what_is_left_is_of_the_hits_in_their_order(
    refined: Callable[..., Refined], hits: list[list[Hit]], rate: float | None, segment: int, chosen: dict[str, Any]
) -> None:
    made = refined(hits, rate=rate, segment=segment, **chosen)
    for own, contexts in zip(hits, made.contexts, strict=True):
        sources = [context.origin[0][0] for context in contexts]
        assert sources == [hit.passage_id for hit in own if hit.passage_id in sources]
        for context in contexts:
            assert all(before[2] < after[1] for before, after in zip(context.origin, context.origin[1:], strict=False))
            left = "".join(TEXTS[source][start - 7 : end - 7] for source, start, end in context.origin)
            assert context.text == ("Ouse: " if "text" in chosen else "") + left
            assert left
            assert context.tokens == count_tokens(context.text)
        assert sum(count_tokens(context.text) for context in contexts) <= chosen.get("max_tokens", 999)
        assert sum(count_words(context.text) for context in contexts) <= chosen.get("max_words", 999)
    alone = [refined([own], rate=rate, segment=segment, **chosen).contexts[0] for own in hits]
    assert made.contexts == alone


def test_a_budget_is_used_and_a_large_one_leaves_all(refined: Callable[..., Refined]) -> None:
    hits = [[hit] * 3 for hit in HITS]
    used = [
        sum(context.tokens for context in own) / budget
        for budget in (10, 15)
        for own in refined([[*own, *HITS] for own in hits], max_tokens=budget).contexts
    ]
    assert 0.9 <= np.mean(used) <= 1
    assert texts_of(refined([HITS], max_tokens=99)) == [TEXTS]


def test_odd_hits(refined: Callable[..., Refined]) -> None:
    """Nothing, white space, no letters, what a model rewrote, and a text longer than the model."""
    assert refined([[], []]).contexts == [[], []]
    assert refined([of(" \n ")]).contexts == [[]]
    assert refined([of("!!! ... 7 7 --")], max_tokens=2).contexts[0]
    rewritten = Hit("", TEXTS[0], 5, 0, 0)
    assert [context.origin for context in refined([[rewritten]], max_tokens=4).contexts[0]] == [()]
    assert refined([HITS], max_words=1, text="titled").contexts == [[]]
    long = " ".join(TEXTS * 10)
    made = refined([of(long)], segment=1000)
    assert made.notes["tokens"] > 256
    left = iter(long)
    assert all(character in left for character in made.contexts[0][0].text)


def test_selective_context_and_it_ask_for_the_same_readings(llama: Path) -> None:
    from vitalfew.tasks.models.readings import Memory, remembering

    options = SelectiveContext.Options(refiner="selective_context", model=str(llama), **COMPUTING)
    memory = Memory()
    with remembering(memory):
        SelectiveContext(options).refine(["?"], [HITS])
        known = len(memory.new)
        LLMLingua(LLMLingua.Options(refiner="llmlingua", model=str(llama), **COMPUTING)).refine(["?"], [HITS])
    assert len(memory.new) == known == len(HITS)


def test_what_is_missing_or_meaningless_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"refine\.model is not set; .*--set refine\.model=NAME"):
        LLMLingua(LLMLingua.Options(refiner="llmlingua"))
    with pytest.raises(EngineUnavailable, match=r"is an encoder-decoder.*--set refine\.model=NAME"):
        LLMLingua(LLMLingua.Options(refiner="llmlingua", model=str(tiny_models.t5_evaluator(tmp_path / "t5"))))
    for rate in (0, 1.1, float("nan")):
        with pytest.raises(ValidationError, match="rate"):
            LLMLingua.Options(refiner="llmlingua", rate=rate)
