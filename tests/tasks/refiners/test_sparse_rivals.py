"""Sparse RAG's rivals `relevance`, `gold` and `llmlingua`: what they keep, in which order, of how many tokens."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, LlamaForCausalLM, T5ForSequenceClassification

from configs.loading import ConfigError
from configs.options import Batching
from tasks.models.engines.base import EngineUnavailable
from tasks.models.evaluator import cross_encoder
from tasks.models.surprise import Surprise
from tasks.refiners.base import Hit, Refined
from tasks.refiners.gold import Gold
from tasks.refiners.llmlingua import LLMLingua
from tasks.refiners.relevance import Relevance
from tests.support import tiny_models
from tests.support.evaluating import run
from tests.support.indexing import index, sql

TEXTS = [
    "The river rises in the hills and runs for 120 km to the sea.",
    "Its mill still stands. Who founded it?",
    "The sea.",
    "The mill of the hills stands in the hills by the river, 120 km from the sea.",
]
HITS = [Hit("Ouse", text, number, 0, len(text), is_gold=number in (1, 3)) for number, text in enumerate(TEXTS)]
COMPUTING: dict[str, Any] = {"device": "cpu", "precision": "fp32"}


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.t5_evaluator(tmp_path_factory.mktemp("evaluator"))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.llama(tmp_path_factory.mktemp("llama"))


# --- CRAG's evaluator


def test_the_evaluator_reads_question_and_text_as_one(evaluator: Path) -> None:
    model = T5ForSequenceClassification.from_pretrained(evaluator).eval()
    tokenizer = AutoTokenizer.from_pretrained(evaluator)
    pairs = [("Who founded it?", text) for text in TEXTS]
    with torch.inference_mode():
        due = [
            float(model(**tokenizer(f"{question} [SEP]{text}", return_tensors="pt")).logits) for question, text in pairs
        ]
    one = cross_encoder(str(evaluator), Batching(**COMPUTING), "refine")
    assert [reading.score for reading in one.read(pairs)] == pytest.approx(due, abs=1e-5)
    assert len({*due}) == len(due)
    assert [one.relevance(score) for score in (-3, -1, 0, 0.5, 1, 2)] == [0, 0, 0.5, 0.75, 1, 1]


def test_a_long_text_is_read_in_parts(evaluator: Path) -> None:
    one = cross_encoder(str(evaluator), Batching(**COMPUTING), "refine")
    [reading] = one.read([("Who?", " ".join(TEXTS * 20))])
    assert -10 < reading.score < 10


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.2, 0.5, 0.9]), max_size=4), st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 3))
def test_the_relevant_are_kept_best_first(scores: list[float], threshold: float, at_least: int) -> None:
    hits = HITS[: len(scores)]
    refiner = Relevance(Relevance.Options(refiner="relevance", threshold=threshold, at_least=at_least))
    known = {hit.text: score for hit, score in zip(hits, scores, strict=True)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "tasks.critics.embedded.Embedded.relevance", lambda self, pairs, tick: [known[text] for _, text in pairs]
        )
        [contexts] = refiner.refine(["Where?"], [hits]).contexts
    passing = sum(score >= threshold for score in scores)
    kept = [known[context.text] for context in contexts]
    assert kept == sorted(scores, reverse=True)[: max(passing, at_least)]
    assert [context.origin for context in contexts] == [
        ((number, 0, len(context.text)),) for context in contexts for number in [TEXTS.index(context.text)]
    ]


# --- Gold labels


@pytest.mark.parametrize(
    ("hits", "chosen", "kept"),
    [
        (HITS, {}, [1, 3]),
        (HITS, {"top_k": 1}, [1]),
        (HITS[2:3], {}, [2]),
        (HITS[2:3], {"at_least": 0}, []),
        (HITS[:1] + HITS[2:3], {"at_least": 2}, [0, 2]),
        ([], {}, []),
    ],
)
def test_gold_hits_alone_are_kept(hits: list[Hit], chosen: dict[str, Any], kept: list[int]) -> None:
    made = Gold(Gold.Options(refiner="gold", **chosen)).refine(["Where?"], [hits])
    assert [context.origin[0][0] for context in made.contexts[0]] == kept
    assert made.notes["without_gold"] == (not any(hit.is_gold for hit in hits))


# --- LLMLingua


def compressed(model: Path, hits: list[list[Hit]], **chosen: Any) -> tuple[list[list[str]], Refined]:
    options = LLMLingua.Options(refiner="llmlingua", model=str(model), **COMPUTING, **chosen)
    ticks: list[tuple[int, int]] = []
    made = LLMLingua(options).refine(["?"] * len(hits), hits, None, lambda *done: ticks.append(done))
    assert (sum(count for count, _ in ticks), sum(tokens for _, tokens in ticks)) == (len(hits), made.tokens)
    return [[context.text for context in own] for own in made.contexts], made


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
    st.sampled_from([0.1, 0.5, 0.8]),
    st.sampled_from([1.0, 2.0]),
    st.sampled_from([4, 100]),
)
def test_the_share_of_tokens_is_left_in_their_order(
    llama: Path, hits: list[list[Hit]], rate: float, coarse: float, segment: int
) -> None:
    texts, made = compressed(llama, hits, rate=rate, coarse=coarse, segment=segment)
    assert abs(made.notes["left"] - rate * made.notes["tokens"]) <= len(hits)
    for own, of_question in zip(hits, texts, strict=True):
        whole = [hit.text for hit in own]
        for text in of_question:  # what is left of one hit, its characters in their order
            assert any(_is_left_of(text, each) for each in whole)
    alone = [compressed(llama, [own], rate=rate, coarse=coarse, segment=segment)[0][0] for own in hits]
    assert texts == alone


def test_all_tokens_are_left_at_rate_one(llama: Path) -> None:
    texts, made = compressed(llama, [HITS, []], rate=1.0)
    assert texts == [TEXTS, []]
    assert made.contexts[0][0].origin == ()
    assert compressed(llama, [HITS], rate=1.0, max_words=3, text="titled")[0] == [["Ouse: The river"]]
    assert compressed(llama, [HITS], rate=1.0, top_k=2)[0] == [TEXTS[:2]]


def test_hits_of_high_perplexity_come_first(llama: Path) -> None:
    """Of two hits, with a budget for one, the less likely is kept."""
    tokenizer = AutoTokenizer.from_pretrained(llama)
    model = Surprise(str(llama), Batching(**COMPUTING), "refine")
    pair = [HITS[0], HITS[3]]
    rows: list[Any] = [((), tokenizer(f"{hit.text}\n", add_special_tokens=False).input_ids) for hit in pair]
    means = [float(each.mean()) for each in model.of(rows, lambda tokens: None)]
    texts, _ = compressed(llama, [pair], rate=0.2, coarse=1.0)
    assert [[_is_left_of(text, hit.text) for hit in pair].index(True) for text in texts[0]] == [int(np.argmax(means))]


def test_a_text_longer_than_the_model_is_read_in_parts(llama: Path) -> None:
    long = " ".join(TEXTS * 10)
    texts, made = compressed(llama, [[Hit("", long, 5, 0, len(long))]], rate=0.5, segment=1000)
    assert made.notes["tokens"] > 256
    assert _is_left_of(texts[0][0], long)


def test_what_is_missing_is_named(evaluator: Path) -> None:
    with pytest.raises(ConfigError, match=r"which model\? --set refine\.model=NAME"):
        LLMLingua(LLMLingua.Options(refiner="llmlingua"))
    with pytest.raises(EngineUnavailable, match=r"is an encoder-decoder.*--set refine\.model=NAME"):
        LLMLingua(LLMLingua.Options(refiner="llmlingua", model=str(evaluator)))


# --- In an evaluation


def test_all_of_them_in_an_evaluation(tmp_path: Path, llama: Path, evaluator: Path) -> None:
    store = tmp_path / "store"
    index(store, "synthetic:passages=60,questions=10,seed=3")
    methods: dict[str, Any] = {
        "CRAG": {"refine": {"refiner": "relevance", "model": str(evaluator), **COMPUTING}},
        "gold": {"refine": {"refiner": "gold", "at_least": 0}},
        "LLMLingua": {"refine": {"refiner": "llmlingua", "model": str(llama), "rate": 0.3, **COMPUTING}},
    }
    given = {
        "retrieve": {"retriever": "passage", "top_k": 5},
        "generate": {"generator": "tests.support.fakes:FirstWords"},
    }
    outcome = run(store, {"index": "test", **given, "methods": methods, "score": {"metrics": ["f1", "tokens"]}})
    gold = outcome.methods["gold"]["refine"].artifact.split("/")[1]
    ((rows, right),) = sql(
        store,
        "SELECT count(*), count(*) FILTER (list_contains(gold_passages, origin[1].passage_id)) FROM evidence "
        f"JOIN asked USING (question_id) WHERE evidence.fingerprint = '{gold}'",
    )
    assert rows == right > 0


def _is_left_of(text: str, whole: str) -> bool:
    """Whether its characters stand in the whole in this order (a token's blank before it may be lost)."""
    left = iter(whole)
    return all(character in left for character in text if not character.isspace())
