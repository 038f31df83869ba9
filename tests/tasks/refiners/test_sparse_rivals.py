"""Sparse RAG's rivals `relevance` and `gold`: what they keep, in which order; and with `llmlingua` in an evaluation."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, T5ForSequenceClassification

from tests.support import tiny_models
from tests.support.evaluating import copied, run
from tests.support.indexing import sql
from tests.support.shared import indexed
from vitalfew.configs.options import Batching
from vitalfew.tasks.models.small.pairs import cross_encoder
from vitalfew.tasks.refiners.base import Hit
from vitalfew.tasks.refiners.scored import Relevance
from vitalfew.tasks.refiners.whole_hits import GoldHits

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
            "vitalfew.tasks.raters.embedded.Embedded.relevance",
            lambda self, pairs, tick: [known[text] for _, text in pairs],
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
    made = GoldHits(GoldHits.Options(refiner="gold", **chosen)).refine(["Where?"], [hits])
    assert [context.origin[0][0] for context in made.contexts[0]] == kept
    assert made.notes["without_gold"] == (not any(hit.is_gold for hit in hits))


# --- In an evaluation


def test_all_of_them_in_an_evaluation(tmp_path: Path, llama: Path, evaluator: Path) -> None:
    store = copied(indexed(), tmp_path / "store")
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
