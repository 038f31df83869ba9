"""The refiner `recomp_extractive`: which sentences, how many, in which order; and its encoders, on tiny models."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModel, AutoTokenizer

from tests.support import tiny_models
from vitalfew.tasks.encoders.base import Encoded
from vitalfew.tasks.models.files import UnsupportedModel
from vitalfew.tasks.models.readings import Memory, remembering
from vitalfew.tasks.refiners.base import Hit, Refined
from vitalfew.tasks.refiners.recomp_extractive import RecompExtractive
from vitalfew.tasks.splitters.tokens import count_tokens, count_words

SENTENCES = ["The sea. ", "A mill stands. ", "Hill town. ", "The river rises. "]
PASSAGES = st.lists(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=4), max_size=4)
CHOICES: list[dict[str, Any]] = [
    {},
    {"sentences": 3},
    {"max_tokens": 7},
    {"max_words": 5, "sentences": 2},
    {"text": "titled", "max_words": 6},
    {"top_k": 1},
]
Score = Callable[[dict[str, float]], None]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.bert(tmp_path_factory.mktemp("bert"))


def hit(passage: int, sentences: list[str], title: str = "Ouse") -> Hit:
    ends = [10 + sum(map(len, sentences[: number + 1])) for number in range(len(sentences))]
    spans = tuple(zip([10, *ends], ends, strict=False))
    return Hit(title, "".join(sentences), passage, 10, ends[-1], spans)


def refiner(model: Path | str, **chosen: Any) -> RecompExtractive:
    computing = {"device": "cpu", "precision": "fp32", "model": str(model)}
    return RecompExtractive(RecompExtractive.Options(refiner="recomp_extractive", **computing, **chosen))


def refined(one: RecompExtractive, hits: list[list[Hit]]) -> Refined:
    ticks: list[tuple[int, int]] = []
    questions = [f"Where is number {number}?" for number in range(len(hits))]
    made = one.refine(questions, hits, None, lambda *done: ticks.append(done))
    assert (sum(count for count, _ in ticks), sum(tokens for _, tokens in ticks)) == (len(hits), made.tokens)
    assert all(context.text.strip() for own in made.contexts for context in own)
    return made


def texts(made: Refined) -> list[list[str]]:
    return [[context.text for context in own] for own in made.contexts]


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> Score:
    """Give sentences their nearness to any question."""

    def given(scores: dict[str, float]) -> None:
        def encode(self: Any, some: list[str], *args: Any) -> Encoded:
            vectors = np.array([[scores.get(text, 1.0), 1.0] for text in some], np.float32)
            return Encoded(vectors, 3 * len(some), 0)

        def ask(self: Any, some: list[str]) -> Encoded:
            return Encoded(np.tile(np.array([1, 0], np.float32), (len(some), 1)), 3 * len(some), 0)

        monkeypatch.setattr("vitalfew.tasks.refiners.recomp_extractive.Compressor.encode", encode)
        monkeypatch.setattr("vitalfew.tasks.refiners.recomp_extractive.Compressor.encode_questions", ask)

    return given


@pytest.mark.parametrize(
    ("chosen", "kept"),
    [
        ({}, [["Hill town."]]),
        ({"sentences": 2}, [["The sea.", "Hill town."]]),  # the better one of equal sentences is the first
        ({"sentences": 3}, [["The sea.", "Hill town. The river rises."]]),
        ({"sentences": 9}, [["The sea. A mill stands.", "Hill town. The river rises."]]),
        ({"max_words": 5}, [["The sea.", "Hill town. The"]]),  # the best fill a budget
        ({"max_words": 5, "sentences": 1}, [["Hill town."]]),
        ({"max_tokens": 2}, [["Hill town"]]),
        ({"top_k": 1}, [["The sea."]]),
    ],
)
def test_the_nearest_are_kept_in_the_order_of_the_hits(
    bert: Path, near: Score, chosen: dict[str, Any], kept: list[list[str]]
) -> None:
    near({"The sea.": 0.5, "A mill stands.": -2.0, "Hill town.": 0.8, "The river rises.": 0.5})
    made = refined(refiner(bert, **chosen), [[hit(1, SENTENCES[:2]), hit(2, SENTENCES[2:])]])
    assert texts(made) == kept


def test_a_title_is_encoded_where_it_is_shown(bert: Path, near: Score) -> None:
    near({"Ouse: A mill stands.": 2.0, "Hill town.": 3.0})
    hits = [[hit(1, SENTENCES)]]
    assert texts(refined(refiner(bert, text="titled"), hits)) == [["Ouse: A mill stands."]]
    assert texts(refined(refiner(bert), hits)) == [["Hill town."]]


def test_what_has_no_numbers_is_the_last_choice(bert: Path, near: Score) -> None:
    near({"The sea.": float("nan"), "A mill stands.": -5.0})
    assert texts(refined(refiner(bert), [[hit(1, SENTENCES[:2])], [hit(2, SENTENCES[:1])]])) == [
        ["A mill stands."],
        ["The sea."],
    ]


@settings(deadline=None, max_examples=20)
@given(PASSAGES, st.sampled_from(CHOICES))
def test_what_is_kept_is_of_the_hits_in_their_order(
    bert: Path, passages: list[list[str]], chosen: dict[str, Any]
) -> None:
    hits = [hit(number, sentences) for number, sentences in enumerate(passages)]
    one = refiner(bert, **chosen)
    contexts = refined(one, [hits]).contexts[0]
    words, tokens = (sum(count(each.text) for each in contexts) for count in (count_words, count_tokens))
    assert words <= chosen.get("max_words", words)
    assert tokens <= chosen.get("max_tokens", tokens)
    sources = [context.origin[0][0] for context in contexts]
    assert sources == sorted({*sources})
    assert chosen or len(contexts) == bool(passages)
    for context in contexts:
        own = hits[context.origin[0][0]]
        parts = [own.text[start - 10 : end - 10].strip() for _, start, end in context.origin]
        assert context.text == own.label(one.options) + " ".join(parts)


# --- Its encoders


def nearest(directory: Path, question: str, sentences: list[str]) -> str:
    """By transformers alone: means over token states, and their inner products."""
    network, tokenizer = AutoModel.from_pretrained(directory), AutoTokenizer.from_pretrained(directory)

    def vector(text: str) -> torch.Tensor:
        with torch.inference_mode():
            states: torch.Tensor = network(**tokenizer(text, return_tensors="pt")).last_hidden_state
        return states[0].mean(0)

    asked = vector(question)
    return max(sentences, key=lambda text: float(vector(text.strip()) @ asked)).strip()


@pytest.mark.parametrize("question", ["Where is the mill?", "Who founded the town?", "sea", "120 km", "river river"])
def test_the_score_is_the_inner_product_of_means(bert: Path, tmp_path: Path, question: str) -> None:
    best = nearest(bert, question, SENTENCES)
    made = refiner(bert).refine([question], [[hit(1, SENTENCES)]])
    assert texts(made) == [[best]]
    # As RECOMP's checkpoints are saved, in sentence-transformers' layout: not the cosine either.
    layout = tiny_models.sentence_transformer(bert, tmp_path / "layout", max_seq_length=100)
    assert texts(refiner(layout).refine([question], [[hit(1, SENTENCES)]])) == [[best]]


def test_a_question_has_the_same_contexts_in_any_company(bert: Path) -> None:
    hits = [hit(1, SENTENCES), hit(2, SENTENCES[::-1]), hit(3, ["Town. "])]
    batch = [hits, hits[1:], [], hits[:1]]
    one = refiner(bert, sentences=2)
    made = refined(one, batch)
    questions = [f"Where is number {number}?" for number in range(4)]
    for number in range(4):
        assert one.refine([questions[number]], [batch[number]]).contexts == [made.contexts[number]]
    assert one.refine(questions[::-1], batch[::-1]).contexts[::-1] == made.contexts


def test_a_text_is_encoded_once(bert: Path) -> None:
    hits = [[hit(1, SENTENCES)], [hit(2, SENTENCES * 2)]]
    with remembering(Memory()) as memory:
        first = refined(refiner(bert), hits)
        assert refined(refiner(bert, sentences=3), hits).tokens == 0
    assert len(memory.new) == len(SENTENCES) + 2
    assert sum(reading.tokens for reading in memory.new.values()) == first.tokens > 0


def test_odd_hits_are_read_too(bert: Path) -> None:
    blank, signs = hit(1, [" ", "\n"]), hit(2, ["!? ", " ", "120 % "])
    long = hit(3, ["The river rises in the hills. " * 60])
    rewritten = Hit("", "A river.", 4, 0, 0)
    made = refined(refiner(bert, sentences=9), [[blank, signs, long, rewritten], [blank], []])
    assert [(context.text, len(context.origin)) for context in made.contexts[0]] == [
        ("!? 120 %", 2),
        (long.text.strip(), 1),
        ("A river.", 0),
    ]
    assert made.contexts[1:] == [[], []]
    assert made.notes == {"sentences": 4, "kept": 4, "empty": 2}
    narrow = refiner(bert, text="titled", max_words=3)
    assert refined(narrow, [[hit(5, SENTENCES, "A title of many words")]]).contexts == [[]]


def test_without_a_model_the_bundled_encoder_picks() -> None:
    one = RecompExtractive(RecompExtractive.Options(refiner="recomp_extractive"))
    made = one.refine(["Where does the river rise?"], [[hit(1, SENTENCES)]])
    assert texts(made) == [["The river rises."]]


def test_what_is_missing_is_named(bert: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"fangyuan/nq_extractive_compressor is not on this.*refine\.model"):
        refiner("recomp-extractive-nq")
    with pytest.raises(UnsupportedModel, match=r"pytorch_model\.bin only"):
        refiner(tiny_models.pickled(bert))
