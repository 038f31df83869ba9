"""The refiners that score hits, sentences or strips, on scores given by hand: what they keep, in which order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoTokenizer, T5ForSequenceClassification

from tests.support import tiny_models
from vitalfew.configs.evaluation import RefineConfig
from vitalfew.configs.options import Batching
from vitalfew.tasks.models.small.pairs import PairReading, cross_encoder
from vitalfew.tasks.refiners.base import Hit, Refined
from vitalfew.tasks.registry import make

COMPUTING: dict[str, Any] = {"device": "cpu", "precision": "fp32"}
Rate = Callable[[dict[str, float]], list[str]]


def hit(passage: int, sentences: list[str], title: str = "Ouse", is_gold: bool = False) -> Hit:
    """Of a passage that begins before it."""
    ends = [10 + sum(map(len, sentences[: number + 1])) for number in range(len(sentences))]
    spans = tuple(zip([10, *ends], ends, strict=False))
    return Hit(title, "".join(sentences), passage, 10, ends[-1], spans, is_gold)


def refined(name: str, *hits: list[Hit], **options: Any) -> Refined:
    refiner = make(RefineConfig(refiner=name, **options), "refine")
    return refiner.refine([f"Where {number}?" for number in range(len(hits))], hits)


def texts(name: str, *hits: Hit, **options: Any) -> list[str]:
    return [context.text for context in refined(name, [*hits], **options).contexts[0]]


@pytest.fixture
def rate(monkeypatch: pytest.MonkeyPatch) -> Rate:
    """Give texts their scores, 0.5 where none is given; returned is a list of the texts that are then rated."""

    def given(scores: dict[str, float]) -> list[str]:
        rated: list[str] = []

        def relevance(self: Any, pairs: list[tuple[str, str]], tick: Any) -> list[float]:
            rated.extend(text for _, text in pairs)
            tick(len(pairs), 3 * len(pairs))
            return [scores.get(text, 0.5) for _, text in pairs]

        monkeypatch.setattr("vitalfew.tasks.raters.embedded.Embedded.relevance", relevance)
        return rated

    return given


# --- Whole hits: `rerank`, `relevance`, `gold`


def test_hits_are_ranked_by_the_scores_of_what_is_shown(rate: Rate) -> None:
    rated = rate({"Ouse: Sea.": 0.2, "Ouse: Mill two.": 0.9})
    hits = [hit(0, ["Sea. "]), hit(1, ["Hill. "]), hit(2, ["Mill two. "]), hit(3, ["Hill. "])]
    [contexts] = refined("rerank", hits, text="titled").contexts
    assert [context.origin[0][0] for context in contexts] == [2, 1, 3, 0]
    assert [context.score for context in contexts] == pytest.approx([0.9, 0.5, 0.5, 0.2], abs=1e-3)
    assert sorted(rated) == ["Ouse: Hill.", "Ouse: Mill two.", "Ouse: Sea."]  # the same pair is scored once
    assert texts("relevance", *hits, text="titled") == ["Ouse: Mill two.", "Ouse: Hill.", "Ouse: Hill."]
    assert texts("relevance", *hits, text="titled", threshold=1.0, at_least=1) == ["Ouse: Mill two."]


def test_gold_hits_alone_are_kept() -> None:
    hits = [hit(0, ["Sea. "]), hit(1, ["Mill. "], is_gold=True), hit(2, ["Hill. "]), hit(3, ["Town. "], is_gold=True)]
    assert texts("gold", *hits) == ["Mill.", "Town."]
    assert texts("gold", *hits[::2], at_least=0) == []
    assert texts("gold", *hits[::2], at_least=2) == ["Sea.", "Hill."]
    assert refined("gold", hits, hits[:1]).notes["without_gold"] == 1


# --- `dslr`


def test_sentences_under_the_threshold_are_dropped_and_the_best_fill_a_budget(rate: Rate) -> None:
    rate({"Sea sea.": 0.5, "Mill.": 0.9, "Hill town.": 0.49, "Ouse: Hill town.": 0.6})
    hits = [hit(3, ["Sea sea. ", "Hill town. ", "Mill. "]), Hit("", "A fact.", 4, 0, 0)]
    assert texts("dslr", *hits) == ["Sea sea. Mill.", "A fact."]
    assert texts("dslr", *hits, text="titled", threshold=0.55) == ["Ouse: Hill town."]
    assert texts("dslr", *hits, max_words=3) == ["Sea sea. Mill."]
    assert texts("dslr", *hits, max_words=3, threshold=0.6) == ["Mill."]


# --- `crag`

STRIPS = ["Sea one. ", "Mill two. ", "Hill three. ", "Town four. "]
WHOLE = "".join(STRIPS).strip()
HEAD, TAIL = "Sea one. Mill two. Hill three.", "Town four."


@pytest.mark.parametrize(
    ("score", "action", "kept"),
    [
        (0.795, "correct", [WHOLE]),
        (0.005, "ambiguous", [WHOLE]),
        (0.004, "incorrect", []),
    ],
)
def test_the_best_hit_decides_what_is_done(rate: Rate, score: float, action: str, kept: list[str]) -> None:
    rate({WHOLE: score, "Town.": 0.0})
    made = refined("crag", [hit(1, ["Town. "]), hit(2, STRIPS)])
    assert [context.text for context in made.contexts[0]] == kept
    assert [name for name in ("correct", "ambiguous", "incorrect") if made.notes[name]] == [action]


def test_strips_that_reach_the_threshold_are_kept_five_or_as_many_as_a_budget_takes(rate: Rate) -> None:
    rate({WHOLE: 0.001, HEAD: 0.249, TAIL: 0.25})
    assert texts("crag", hit(2, STRIPS)) == []
    assert texts("crag", hit(2, STRIPS), at_least=1) == texts("crag", hit(2, STRIPS), lower=0.0) == [TAIL]
    rate({})
    hits = [hit(number, STRIPS) for number in range(4)]
    assert refined("crag", hits).notes["passed"] == 5
    assert refined("crag", hits, max_words=1000).notes["passed"] == 8


def test_crags_evaluator_reads_question_and_text_as_one(tmp_path: Path) -> None:
    evaluator = tiny_models.t5_evaluator(tmp_path / "evaluator")
    model = T5ForSequenceClassification.from_pretrained(evaluator).eval()
    tokenizer = AutoTokenizer.from_pretrained(evaluator)
    pairs = [("Who founded it?", text) for text in ("The river rises in the hills.", "The sea.")]
    with torch.inference_mode():
        due = [
            float(model(**tokenizer(f"{question} [SEP]{text}", return_tensors="pt")).logits) for question, text in pairs
        ]
    one = cross_encoder(str(evaluator), Batching(**COMPUTING), "refine")
    assert [reading.score for reading in one.read(pairs)] == pytest.approx(due, abs=1e-5)
    assert [one.relevance(score) for score in (-3, -1, 0, 0.5, 1, 2)] == [0, 0, 0.5, 0.75, 1, 1]


# --- `exit`


JUDGED = {"sea sea.": 0.5, "mill.": 0.9, "hill town.": 0.4999, "river.": 0.5}


def test_sentences_are_kept_by_their_verdicts_of_them_with_their_hit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, str]] = []

    def read(self: Any, some: list[tuple[str, str, str]], tick: Any) -> list[float]:
        asked.extend(some)
        return [next(value for text, value in JUDGED.items() if f"\n{text}\n" in end) for _, _, end in some]

    monkeypatch.setattr("vitalfew.tasks.models.causal.verdict.Verdict.read", read)
    model = str(tiny_models.gemma(tmp_path / "gemma", tokens=("Yes", "No")))
    for chosen, kept in (
        ({}, "sea sea. mill. river."),  # half of the scale is enough
        ({"max_words": 3}, "sea sea. mill."),  # of equal ones the first
        ({"max_words": 5}, "sea sea. mill. hill river."),  # all are candidates, and the last is cut
        ({"max_words": 5, "threshold": 0.5}, "sea sea. mill. river."),
    ):
        assert texts("exit", hit(3, [f"{text} " for text in JUDGED]), model=model, **COMPUTING, **chosen) == [kept]
    start, body, end = asked[1]
    assert (start, body) == ("Query:\nWhere 0?\nFull context:\n", "Ouse\nsea sea. mill. hill town. river.")
    assert end == '\nSentence:\nmill.\nIs this sentence useful in answering the query? Answer only "Yes" or "No".'


# --- `provence`


def test_sentences_are_kept_by_the_share_of_their_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = {"model": str(tiny_models.provence(tmp_path / "provence")), **COMPUTING}
    one, other = hit(0, ["mill sea town. ", "river hill. "]), hit(1, ["town. ", "hill. ", "sea. "])
    # Tokens with the blank before them, as sentencepiece has them; behind the title "Ouse: ".
    readings = {
        one.text: PairReading(
            1.0, ((0, 5, 0.9), (6, 10, 0.9), (10, 14, 0.9), (14, 19, 0.0), (20, 26, 0.0), (26, 31, 0.9))
        ),
        other.text: PairReading(2.0, ((6, 10, 0.9), (11, 17, 0.05), (17, 21, 0.9))),
    }
    monkeypatch.setattr(
        "vitalfew.tasks.models.small.pairs.PairModel.read",
        lambda self, pairs, tick: [readings[text.removeprefix("Ouse: ")] for _, text in pairs],
    )
    for chosen, kept in (
        ({}, ["town. sea.", "mill sea town."]),  # of "river hill." half: not more
        ({"reorder": False, "text": "titled"}, ["Ouse: mill sea town.", "Ouse: town. sea."]),
        ({"share": 0.4}, ["town. sea.", "mill sea town. river hill."]),
        ({"threshold": 0.95}, []),
        ({"max_words": 3}, ["town. sea.", "mill"]),
    ):
        assert texts("provence", one, other, **model, **chosen) == kept


# --- `recomp_extractive`

SENTENCES = ["The sea. ", "A mill stands. ", "Hill town. ", "The river rises. "]


def test_the_nearest_by_the_inner_product_of_means_are_kept_in_the_order_of_the_hits(tmp_path: Path) -> None:
    """By transformers alone: means over token states, and their inner products."""
    bert = tiny_models.bert(tmp_path / "bert")
    network, tokenizer = AutoModel.from_pretrained(bert), AutoTokenizer.from_pretrained(bert)

    def vector(text: str) -> torch.Tensor:
        with torch.inference_mode():
            states: torch.Tensor = network(**tokenizer(text, return_tensors="pt")).last_hidden_state
        return states[0].mean(0)

    asked = vector("Where 0?")
    nearest = sorted(SENTENCES, key=lambda text: -float(vector(text.strip()) @ asked))
    second = [text.strip() for text in SENTENCES if text in nearest[:2]]
    hits = [hit(number, [text]) for number, text in enumerate(SENTENCES)]
    # As RECOMP's checkpoints are saved, in sentence-transformers' layout: not the cosine either.
    layout = tiny_models.sentence_transformer(bert, tmp_path / "layout", max_seq_length=100)
    for model in (bert, layout):
        chosen = {"model": str(model), **COMPUTING}
        assert texts("recomp_extractive", *hits, **chosen) == [nearest[0].strip()]
        assert texts("recomp_extractive", *hits, sentences=2, **chosen) == second
        words = len(" ".join(second).split())
        assert texts("recomp_extractive", *hits, max_words=words, **chosen) == second  # the best fill a budget
