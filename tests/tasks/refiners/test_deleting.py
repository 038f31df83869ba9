"""The refiners that delete words (`llmlingua`, `longllmlingua`, `llmlingua2`, `selective_context`): what is left."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForTokenClassification, AutoTokenizer

from tests.support import tiny_models
from tests.support.surprises import words
from vitalfew.configs.evaluation import RefineConfig
from vitalfew.tasks.refiners.base import Hit, Refined
from vitalfew.tasks.refiners.llmlingua import LongLLMLingua
from vitalfew.tasks.registry import make

TEXTS = [
    "The river rises in the hills and runs for 120 km to the sea; its mill still stands.",
    "The sea. Who founded it?",
]
HITS = [Hit("Ouse", text, number, 7, 7 + len(text)) for number, text in enumerate(TEXTS)]
COMPUTING: dict[str, Any] = {"device": "cpu", "precision": "fp32"}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_models.llama(tmp_path_factory.mktemp("llama")))


def refined(name: str, model: str, hits: list[Hit], question: str = "?", **chosen: Any) -> Refined:
    refiner = make(RefineConfig(refiner=name, model=model, **COMPUTING, **chosen), "refine")
    return refiner.refine([question], [hits])


def texts(*given: Any, **chosen: Any) -> list[str]:
    return [context.text for context in refined(*given, **chosen).contexts[0]]


def of(*given: str) -> list[Hit]:
    return [Hit("", text, number, 0, len(text)) for number, text in enumerate(given)]


# --- `llmlingua`, by hand: a word that stands before surprises by 0.5, and any other by its number

EIGHT = "a1 b8 c2 d7 e3 f6 g4 h5"


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
        # A budget has exactly its share of every segment: of 2, 1 of the first 4 and 1 of the rest.
        ({"judge": "own", "max_tokens": 2, "segment": 5}, "b8 f6"),
        ({"judge": "own", "max_words": 3, "rate": 1.0}, "a1 b8 c2"),
    ],
)
def test_the_tokens_of_the_equations_are_left(llama: str, chosen: dict[str, Any], left: str) -> None:
    with words():
        assert texts("llmlingua", llama, of(EIGHT), **chosen) == [left]


def test_hits_of_high_perplexity_are_kept_up_to_k_times_the_budget(llama: str) -> None:
    hits = of("a1 b1", "c9 d9", "e5 f5")
    with words():
        for k, kept in ((1.0, [1]), (1.4, [1, 2]), (4.0, [0, 1, 2])):
            # A third of 6 tokens is to be left: until there are more than 2k, hits are kept.
            left = texts("llmlingua", llama, hits, judge="own", rate=0.3, coarse=k, rest="whole")
            assert left == [hits[number].text for number in kept]


# --- `longllmlingua`, by hand: a word of the question surprises by 0.5 too


def test_tokens_that_the_question_foretells_are_left(llama: str) -> None:
    """The worth of a1 b8 c2 d7 is 0.5, 0, 0 and 6.5 to a question of a1 and d7, whatever their surprise."""
    hits = of("a1 b8 c2 d7")
    with words():
        assert texts("longllmlingua", llama, hits, "a1 d7", judge="own", rate=0.75) == ["a1 d7"]
        # The next token's worth decides, and the last stays: 0, 0, 6.5.
        assert texts("longllmlingua", llama, hits, "a1 d7", rate=0.75) == ["c2 d7"]


def test_hits_that_foretell_the_question_come_first(llama: str) -> None:
    """Hit 2 has both words of the question, hit 0 one, hit 1 none."""
    hits = of("a9 b1", "c9 d9", "e8 a9")
    for chosen, kept in (
        ({"rate": 1.0, "delta": 0.0}, ["e8 a9", "a9 b1", "c9 d9"]),
        ({"rate": 1.0, "delta": 0.0, "reorder": False}, ["a9 b1", "c9 d9", "e8 a9"]),
        # Two of six words are to be left, and hits are kept until they have more than that.
        ({"rate": 1 / 3, "coarse": 1.0, "rest": "whole"}, ["e8 a9", "a9 b1"]),
    ):
        with words():
            assert texts("longllmlingua", llama, hits, "a9 e8", **chosen) == kept


def shares_of(llama: str, lengths: list[int], aim: float, **chosen: Any) -> list[float]:
    """The shares of the hits' tokens, best hit first, of which `aim` are to be left."""
    options = LongLLMLingua.Options(refiner="longllmlingua", model=llama, **chosen, **COMPUTING)
    return LongLLMLingua(options).shares(lengths, aim)


def test_better_hits_leave_more(llama: str) -> None:
    assert shares_of(llama, [10, 10, 10], 15.0, rate=0.5, delta=0.3) == pytest.approx([0.8, 0.5, 0.2])
    assert shares_of(llama, [10, 10], 18.0, rate=0.5, delta=0.3) == pytest.approx([1.0, 0.6])
    assert shares_of(llama, [10, 20, 30], 15.0, rate=0.5, delta=0.0) == pytest.approx([0.25, 0.25, 0.25])


# --- `llmlingua2`


@pytest.mark.parametrize("family", ["xlm-roberta", "bert"])
def test_the_words_with_the_highest_mean_stay(tmp_path: Path, family: str) -> None:
    """Worked with transformers alone; a share of the tokens, so a word of more tokens takes more of it."""
    model = str(tiny_models.token_classifier(tmp_path / "tokens", family))
    network = AutoModelForTokenClassification.from_pretrained(model).eval()
    tokenizer = AutoTokenizer.from_pretrained(model)
    due: list[tuple[float, int, str, int]] = []
    for text in TEXTS:
        row = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = row.pop("offset_mapping")[0].tolist()
        with torch.inference_mode():
            keep = network(**row).logits[0].softmax(-1)[:, 1].tolist()
        for word in re.finditer(r"\w+|[^\w\s]", text):
            at, stop = word.span()
            own = [k for (start, end), k in zip(offsets, keep, strict=True) if start < stop and end > at]
            due.append((sum(own) / len(own), -len(due), word[0], len(own)))
    rest = round(0.3 * sum(tokens for *_, tokens in due))
    kept = []
    for best in sorted(due, reverse=True):
        if (rest := rest - best[3]) < 0:
            break
        kept.append(best)
    made = refined("llmlingua2", model, HITS, rate=0.3)
    shown = " ".join(context.text for context in made.contexts[0])
    assert re.findall(r"\w+|[^\w\s]", shown) == [word for _, _, word, _ in sorted(kept, key=lambda one: -one[1])]
    assert made.notes == {"words": len(due), "left": len(kept)}


# --- `selective_context`


@pytest.mark.parametrize(
    ("unit", "shown"),
    [
        ("word", TEXTS[0].split()),
        (
            "phrase",
            ["The river rises", "in the hills", "and runs", "for 120 km", "to the sea;", "its mill still stands."],
        ),
    ],
)
def test_units_are_of_the_text_and_have_its_information(llama: str, unit: str, shown: list[str]) -> None:
    """Equations 1 to 4, worked with transformers alone: −ln p of every token after all before it, a unit their mean."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(llama).eval(), AutoTokenizer.from_pretrained(llama)
    row = tokenizer(f"Ouse: {TEXTS[0]}", add_special_tokens=False, return_offsets_mapping=True)
    ids = [tokenizer.bos_token_id, *row["input_ids"]]
    with torch.inference_mode():
        probable = model(torch.tensor([ids])).logits[0].softmax(-1)
    information = [-float(probable[place, token].log()) for place, token in enumerate(ids[1:])]
    starts = [0]
    for before, text in pairwise(shown):
        starts.append(TEXTS[0].index(text, starts[-1] + len(before)))
    means = [
        np.mean([i for (_, end), i in zip(row["offset_mapping"], information, strict=True) if start < end - 6 <= stop])
        for start, stop in zip(starts, [*starts[1:], len(TEXTS[0])], strict=True)
    ]
    best = shown[int(np.argmax(means))]
    made = refined("selective_context", llama, HITS[:1], unit=unit, percentile=100)
    assert [context.text for context in made.contexts[0]] == [best]
    (origin,) = made.contexts[0][0].origin
    assert TEXTS[0][origin[1] - 7 : origin[2] - 7].strip() == best
    assert made.notes == {"units": len(shown), "kept": 1}
