"""The refiner `longllmlingua`: rank, contrastive perplexity, shares and order by hand; and on a tiny model."""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.support import tiny_models
from tests.support.surprises import words
from vitalfew.tasks.models.readings import Memory, remembering
from vitalfew.tasks.refiners.base import Hit, Refined
from vitalfew.tasks.refiners.llmlingua import RESTRICTION, LongLLMLingua
from vitalfew.tasks.splitters.tokens import count_tokens

TEXTS = [
    "The river rises in the hills and runs for 120 km to the sea.",
    "Its mill still stands. Who founded it?",
    "The sea.",
    "The mill of the hills stands in the hills by the river, 120 km from the sea.",
]
HITS = [Hit("Ouse", text, number, 7, 7 + len(text)) for number, text in enumerate(TEXTS)]
COMPUTING: dict[str, Any] = {"device": "cpu", "precision": "fp32"}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def refined(llama: Path) -> Callable[..., Refined]:
    @cache
    def refiner(**chosen: Any) -> LongLLMLingua:
        return LongLLMLingua(LongLLMLingua.Options(refiner="longllmlingua", model=str(llama), **COMPUTING, **chosen))

    def run(questions: list[str], hits: list[list[Hit]], **chosen: Any) -> Refined:
        ticks: list[tuple[int, int]] = []
        made = refiner(**chosen).refine(questions, hits, None, lambda *done: ticks.append(done))
        assert (sum(count for count, _ in ticks), sum(tokens for _, tokens in ticks)) == (len(hits), made.tokens)
        return made

    return run


def of(*texts: str) -> list[Hit]:
    return [Hit("", text, number, 0, len(text)) for number, text in enumerate(texts)]


def shown(made: Refined) -> list[str]:
    return [context.text for context in made.contexts[0]]


# --- By hand: a word that stands before, in the question too, surprises by 0.5, and any other by its number


def test_tokens_that_the_question_foretells_are_left(refined: Callable[..., Refined]) -> None:
    """The worth of a1 b8 c2 d7 is 0.5, 0, 0 and 6.5 to a question of a1 and d7, whatever their surprise."""
    with words() as rows:
        made = refined(["a1 d7"], [of("a1 b8 c2 d7")], judge="own", rate=0.75)
        assert shown(made) == ["a1 d7"]
        # The next token's worth decides, and the last stays: 0, 0, 6.5.
        assert shown(refined(["a1 d7"], [of("a1 b8 c2 d7")], rate=0.75)) == ["c2 d7"]
    text = ["a1", "b8", "c2", "d7"]
    question = ["a1", "d7"]
    asked = (text, [*question, *RESTRICTION.split()])
    assert [
        (before[: len(own)], ids)
        for (before, ids), (own, _) in zip(rows, [([], 0), (question, 0), asked], strict=False)
    ] == [
        ([], text),
        (question, text),
        (text, asked[1]),
    ]


def test_hits_that_foretell_the_question_come_first(refined: Callable[..., Refined]) -> None:
    """Hit 2 has both words of the question, hit 0 one, hit 1 none."""
    hits = of("a9 b1", "c9 d9", "e8 a9")
    with words():
        assert shown(refined(["a9 e8"], [hits], rate=1.0, delta=0.0)) == ["e8 a9", "a9 b1", "c9 d9"]
        assert shown(refined(["a9 e8"], [hits], rate=1.0, delta=0.0, reorder=False)) == ["a9 b1", "c9 d9", "e8 a9"]
        # Two of six words are to be left, and hits are kept until they have more than that.
        best = refined(["a9 e8"], [hits], rate=1 / 3, coarse=1.0, rest="whole")
        assert shown(best) == ["e8 a9", "a9 b1"]


@pytest.mark.parametrize(
    ("delta", "lengths", "aim", "shares"),
    [
        (0.3, [10, 10, 10], 15.0, [0.8, 0.5, 0.2]),
        (0.3, [10, 10], 18.0, [1.0, 0.6]),
        (0.3, [10, 10], 2.0, [0.4, 0.0]),
        (0.0, [10, 20, 30], 15.0, [0.25, 0.25, 0.25]),
        (0.3, [10], 5.0, [0.5]),
        (0.3, [10], 20.0, [1.0]),
        (0.3, [], 0.0, []),
    ],
)
def test_better_hits_leave_more(llama: Path, delta: float, lengths: list[int], aim: float, shares: list[float]) -> None:
    options = LongLLMLingua.Options(refiner="longllmlingua", model=str(llama), rate=0.5, delta=delta)
    assert LongLLMLingua(options).shares(lengths, aim) == pytest.approx(shares)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=6), st.floats(0.01, 1), st.floats(0, 1))
def test_shares_fill_a_budget(lengths: list[int], part: float, delta: float) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "vitalfew.tasks.refiners.llmlingua.Surprise", lambda *given: type("S", (), {"uses_gpu": 0, "workers": 1})
        )
        options = LongLLMLingua.Options(refiner="longllmlingua", max_tokens=5, delta=delta)
        shares = LongLLMLingua(options).shares(lengths, part * sum(lengths))
    assert float(np.dot(shares, lengths)) == pytest.approx(part * sum(lengths), rel=1e-4)
    assert all(0 <= after <= before + 1e-6 <= 1 + 2e-6 for before, after in pairwise([1.0, *shares]))


def test_what_is_no_number_is_no_worth(refined: Callable[..., Refined]) -> None:
    with words(broken="b8"):
        assert shown(refined(["a1 b8"], [of("a9 b8 a1 d7")], judge="own", rate=0.75)) == ["a1"]


# --- On a model


@settings(deadline=None, max_examples=10)
@given(
    st.lists(st.lists(st.sampled_from(HITS), max_size=4, unique=True), min_size=1, max_size=3),
    st.sampled_from([{}, {"max_tokens": 5}, {"max_tokens": 12, "text": "titled"}, {"rate": 0.8, "segment": 6}]),
    st.booleans(),
)
def test_what_is_left_is_of_the_hits(
    refined: Callable[..., Refined], hits: list[list[Hit]], chosen: dict[str, Any], reorder: bool
) -> None:
    questions = [f"Where is mill {number}?" for number in range(len(hits))]
    made = refined(questions, hits, reorder=reorder, **chosen)
    for own, contexts in zip(hits, made.contexts, strict=True):
        sources = [context.origin[0][0] for context in contexts]
        assert len({*sources}) == len(sources)
        if not reorder:
            assert sources == [hit.passage_id for hit in own if hit.passage_id in sources]
        for context in contexts:
            left = "".join(TEXTS[source][start - 7 : end - 7] for source, start, end in context.origin)
            assert context.text == ("Ouse: " if "text" in chosen else "") + left
            assert left
        assert sum(count_tokens(context.text) for context in contexts) <= chosen.get("max_tokens", 999)
    for question, own, contexts in zip(questions, hits, made.contexts, strict=True):
        assert refined([question], [own], reorder=reorder, **chosen).contexts == [contexts]


def test_a_further_budget_reads_segments_alone(llama: Path) -> None:
    """What is known of a question and a hit is remembered; a row of one segment costs nothing more."""
    memory = Memory()
    costs = []
    with remembering(memory):
        for budget in (5, 10):
            options = LongLLMLingua.Options(refiner="longllmlingua", model=str(llama), max_tokens=budget, **COMPUTING)
            costs.append(LongLLMLingua(options).refine(["Who founded the mill?"], [HITS]).tokens)
    assert costs[0] > 0 == costs[1]
    assert len(memory.new) == 3 * len(HITS)


def test_odd_hits(refined: Callable[..., Refined]) -> None:
    assert refined(["?", ""], [[], []]).contexts == [[], []]
    assert refined(["?"], [of(" \n ")]).contexts == [[]]
    assert refined([""], [of("!!! ... 7 7 --")], max_tokens=2).contexts[0]
    rewritten = Hit("", TEXTS[0], 5, 0, 0)
    assert [context.origin for context in refined(["?"], [[rewritten]], max_tokens=4).contexts[0]] == [()]
    assert refined(["?"], [HITS], max_words=1, text="titled").contexts == [[]]
    long = " ".join(TEXTS * 10)
    left = iter(long)
    [[context]] = refined(["Who founded the mill?"], [of(long)], segment=1000).contexts
    assert all(character in left for character in context.text)


def test_meaningless_settings_are_refused() -> None:
    for setting in ({"rate": 0}, {"rate": 1.1}, {"delta": -0.1}, {"delta": 1.1}, {"coarse": 0.5}, {"segment": 1}):
        with pytest.raises(ValidationError, match=next(iter(setting))):
            LongLLMLingua.Options(refiner="longllmlingua", **setting)
