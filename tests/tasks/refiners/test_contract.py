"""What every refiner of the registry keeps to, whatever the hits and the budget, on tiny models of its architecture."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import tiny_models
from vitalfew.configs.evaluation import RefineConfig
from vitalfew.tasks.refiners.base import Context, Hit, Vectors
from vitalfew.tasks.registry import METHODS, make
from vitalfew.tasks.splitters.tokens import count_tokens, count_words

WORDS = st.sampled_from(["mill", "river", "The sea", "town,", "120 km", "§ — …", "été", "Ouse"])
SENTENCE = st.lists(WORDS, min_size=1, max_size=5).map(lambda words: " ".join(words) + ". ")
TEXT = st.one_of(
    st.lists(SENTENCE, min_size=1, max_size=4),
    st.sampled_from([["  \n "], ["… — §"], ["x"], ["mill " * 300 + "river. "], ["\N{ZERO WIDTH SPACE}"]]),
)
HITS = st.lists(TEXT, max_size=3)
BUDGETS = st.sampled_from(
    [{}, {"max_tokens": 1}, {"max_tokens": 12}, {"max_words": 1}, {"max_words": 9, "text": "titled"}, {"top_k": 1}]
)
QUESTIONS = ("Where does the Ouse rise?", "Who founded the mill?", "?")
COMPUTING = {"device": "cpu", "precision": "fp32"}


class Made(NamedTuple):
    """How a refiner is made here. `settings`: its model; `rewrites`: its words need not be the hits', which `ordered`
    says of the order of the contexts."""

    settings: Callable[[Path], dict[str, Any]] = lambda folder: {}
    rewrites: bool = False
    ordered: bool = True


def _llama(folder: Path, **chosen: Any) -> dict[str, Any]:
    return {"model": str(tiny_models.llama(folder, **chosen)), **COMPUTING}


def _writer(folder: Path) -> dict[str, Any]:
    return {**_llama(folder, positions=2048), "max_new_tokens": 12}


def _seq2seq(folder: Path) -> dict[str, Any]:
    return {"model": str(tiny_models.t5_generator(folder)), "max_new_tokens": 12, **COMPUTING}


REFINERS = {
    **dict.fromkeys(METHODS["refiner"], Made()),
    **dict.fromkeys(("mmr", "spans", "rerank", "relevance", "oreo"), Made(ordered=False)),
    "provence": Made(lambda folder: {"model": str(tiny_models.provence(folder)), **COMPUTING}, ordered=False),
    "exit": Made(lambda folder: _llama(folder, tokens=("Yes", "No"))),
    "selective_context": Made(_llama),
    "llmlingua": Made(_llama),
    "longllmlingua": Made(_llama, ordered=False),
    "llmlingua2": Made(lambda folder: {"model": str(tiny_models.token_classifier(folder)), **COMPUTING}),
    "recomp": Made(_seq2seq, rewrites=True),
    "compact": Made(_writer, rewrites=True),
    "refiner_7b": Made(_writer, rewrites=True),
}


@pytest.fixture(scope="module", params=sorted(REFINERS))
def named(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    name = request.param
    return name, REFINERS[name].settings(tmp_path_factory.mktemp(name) / "model")


def hit(number: int, parts: Sequence[str]) -> Hit:
    """Of a passage that begins before it."""
    ends = [7 + sum(map(len, parts[: place + 1])) for place in range(len(parts))]
    spans = tuple(zip([7, *ends], ends, strict=False))
    return Hit("Ouse", "".join(parts), number, 7, ends[-1], spans, number % 2 == 0, 0.5 - number)


def refined(refiner: Any, questions: Sequence[str], hits: Sequence[Sequence[Hit]]) -> list[list[Context]]:
    ticks: list[tuple[int, int]] = []
    made = refiner.refine(questions, hits, vectors(questions, hits), lambda *done: ticks.append(done))
    assert sum(count for count, _ in ticks) == len(questions)
    assert sum(tokens for _, tokens in ticks) == made.tokens
    assert len(made.contexts) == len(questions)
    assert len(made.writings) in (0, len(questions))
    return made.contexts


def vectors(questions: Sequence[str], hits: Sequence[Sequence[Hit]]) -> Vectors:
    def vector(text: str) -> list[float]:
        return [1.0, len(text) % 7, text.count("e") % 5]

    of_hits = [np.array([vector(one.text) for one in own], np.float32).reshape(-1, 3) for own in hits]
    return Vectors(np.array([vector(question) for question in questions], np.float32), of_hits)


@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(HITS, min_size=3, max_size=3), BUDGETS)
def test_the_contract(named: tuple[str, dict[str, Any]], texts: list[list[list[str]]], chosen: dict[str, Any]) -> None:
    name, own = named
    refiner = make(RefineConfig(refiner=name, **own, **chosen), "refine")
    hits = [[hit(3 * place + n, parts) for n, parts in enumerate(of_one)] for place, of_one in enumerate(texts)]
    made = refined(refiner, QUESTIONS, hits)
    for contexts, given_hits in zip(made, hits, strict=True):
        holds_the_budget(contexts, chosen)
        by_passage = {one.passage_id: one for one in given_hits}
        for context in contexts:
            assert context.text.strip() == context.text != ""
            assert context.tokens == count_tokens(context.text)
            has_its_score(name, context, by_passage)
            for passage, start, end in context.origin:
                assert 7 <= start < end <= by_passage[passage].end
        if REFINERS[name].rewrites:
            assert all(context.origin == () for context in contexts)
        else:
            every_word_has_its_origin(contexts, by_passage)
        if REFINERS[name].ordered and not REFINERS[name].rewrites:
            places = [span for context in contexts for span in context.origin]
            assert places == sorted(places)
    # The same bytes whatever the others in the batch, and in whatever order.
    backwards = refined(refiner, QUESTIONS[::-1], hits[::-1])
    assert backwards == made[::-1]
    for question, of_one, contexts in zip(QUESTIONS, hits, made, strict=True):
        assert refined(refiner, [question], [of_one]) == [contexts]


def holds_the_budget(contexts: Sequence[Context], chosen: dict[str, Any]) -> None:
    assert sum(count_tokens(context.text) for context in contexts) <= chosen.get("max_tokens", 10**9)
    assert sum(count_words(context.text) for context in contexts) <= chosen.get("max_words", 10**9)


def has_its_score(name: str, context: Context, hits: dict[int, Hit]) -> None:
    """That of its hit, unless the refiner has a better one; a text that was written from several hits has none."""
    if REFINERS[name].rewrites or name == "oreo":
        assert context.score is None
    elif name in ("rerank", "relevance"):
        assert 0 <= context.score <= 1
    elif name == "spans":
        assert context.score <= 0
    elif context.origin:
        assert context.score == hits[context.origin[0][0]].score


def every_word_has_its_origin(contexts: Sequence[Context], hits: dict[int, Hit]) -> None:
    """What a refiner deletes from or selects stands in its hits, at the places that the origin names, in their order;
    but for the title of its hit, which has none."""
    for context in contexts:
        rest = context.text.removeprefix("Ouse: ")
        for passage, start, end in context.origin:
            part = hits[passage].text[start - 7 : end - 7].strip()
            assert part in rest
            rest = rest[rest.index(part) + len(part) :]
