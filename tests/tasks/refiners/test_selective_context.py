"""The refiner `selective_context` on a tiny model: units, the percentile, budgets, order, origins, and faulty input."""

from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.support import tiny_models
from vitalfew.configs.evaluation import RefineConfig
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.readings import Memory, remembering
from vitalfew.tasks.refiners.base import Hit, Refined
from vitalfew.tasks.refiners.selective_context import SelectiveContext
from vitalfew.tasks.registry import make

TEXTS = [
    "The river rises in the hills and runs for 120 km to the sea; its mill still stands.",
    "The sea. Who founded it?",
]
HITS = [Hit("Ouse", text, number, 7, 7 + len(text)) for number, text in enumerate(TEXTS)]
COMPUTING: dict[str, Any] = {"device": "cpu", "precision": "fp32"}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.llama(tmp_path_factory.mktemp("llama"))


def refined(model: Path, hits: list[Hit], **chosen: Any) -> Refined:
    options = SelectiveContext.Options(refiner="selective_context", model=str(model), **COMPUTING, **chosen)
    return SelectiveContext(options).refine(["?"], [hits])


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
def test_units_are_of_the_text_and_have_its_information(llama: Path, unit: str, shown: list[str]) -> None:
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
    made = refined(llama, HITS[:1], unit=unit, percentile=100)
    assert [context.text for context in made.contexts[0]] == [best]
    (origin,) = made.contexts[0][0].origin
    assert TEXTS[0][origin[1] - 7 : origin[2] - 7].strip() == best
    assert made.notes == {"units": len(shown), "kept": 1}


@settings(deadline=None, max_examples=12)
@given(
    st.lists(st.sampled_from(HITS), max_size=2, unique=True),
    st.sampled_from(["word", "phrase", "sentence"]),
    st.sampled_from([0.0, 40.0, 90.0]),
    st.sampled_from([None, 3, 12]),
)
def test_what_is_kept_is_of_the_hits_in_their_order(
    llama: Path, hits: list[Hit], unit: str, percentile: float, budget: int | None
) -> None:
    made = refined(llama, hits, unit=unit, percentile=percentile, max_words=budget)
    whole = [hit.text for hit in hits]
    contexts = made.contexts[0]
    words = [context.text.split() for context in contexts]
    assert sum(map(len, words)) <= (budget or 99)
    sources = [contexts[place].origin[0][0] for place in range(len(contexts))]
    assert sources == sorted(sources, key=[hit.passage_id for hit in hits].index)
    for source, own in zip(sources, words, strict=True):
        rest = iter(TEXTS[source].split())
        assert all(word in rest for word in own)
    if not percentile and not budget:
        assert [context.text for context in contexts] == whole
    units, kept = made.notes["units"], made.notes["kept"]
    assert kept >= units - ceil(percentile / 100 * max(0, units - 1))  # equal ones stay together


def test_what_is_shown_and_what_is_read(llama: Path) -> None:
    """Titles stay whole where they are shown, long texts are read in parts, what was rewritten is a unit."""
    titled = refined(llama, HITS, percentile=0, text="titled").contexts[0]
    assert [context.text for context in titled] == [f"Ouse: {text}" for text in TEXTS]
    long = Hit("", " ".join(TEXTS * 12), 5, 0, len(" ".join(TEXTS * 12)))
    assert refined(llama, [long], percentile=0).contexts[0][0].text == long.text
    rewritten = Hit("", "Ada founded it in 1902.", 6, 0, 0)
    made = refined(llama, [rewritten], percentile=90)
    assert [(context.text, context.origin) for context in made.contexts[0]] == [(rewritten.text, ())]
    assert made.notes["units"] == 1
    assert refined(llama, []).contexts == [[]]


def test_the_percentile_is_50_and_with_a_budget_none(llama: Path) -> None:
    assert refined(llama, HITS).contexts == refined(llama, HITS, percentile=50).contexts
    budget = {"unit": "word", "max_words": 12}
    filled = refined(llama, HITS, **budget).contexts[0]
    assert sum(len(context.text.split()) for context in filled) == 12
    assert filled == refined(llama, HITS, percentile=0, **budget).contexts[0]
    fewer = refined(llama, HITS, percentile=90, **budget).contexts[0]
    assert sum(len(context.text.split()) for context in fewer) < 12


@pytest.mark.parametrize("unit", ["word", "phrase", "sentence"])
def test_a_budget_of_one_word_is_one_of_the_best_unit(llama: Path, unit: str) -> None:
    [[context]] = refined(llama, HITS, unit=unit, max_words=1).contexts
    [[best]] = refined(llama, HITS, unit=unit, percentile=100).contexts
    assert context.text == best.text.split()[0]


@pytest.mark.parametrize("percentile", [-1, 101])
def test_a_percentile_out_of_bounds_is_refused(percentile: float) -> None:
    with pytest.raises(ConfigError, match=r"percentile.*(greater than or equal to 0|less than or equal to 100)"):
        make(RefineConfig(refiner="selective_context", model="x", percentile=percentile), "refine")


@pytest.mark.parametrize("unit", ["word", "phrase", "sentence"])
def test_blanks_are_no_unit_and_marks_are(llama: Path, unit: str) -> None:
    texts = ["  \n ", "… — §", "\n A mill. "]
    made = refined(llama, [Hit("", text, n, 0, len(text)) for n, text in enumerate(texts)], unit=unit, percentile=0)
    assert [context.text for context in made.contexts[0]] == ["… — §", "A mill."]


def test_what_is_no_number_counts_as_0(llama: Path, tmp_path: Path) -> None:
    broken = tiny_models.llama(tmp_path / "broken")
    weights = load_file(broken / "model.safetensors")
    weights["model.norm.weight"] = torch.full_like(weights["model.norm.weight"], torch.nan)
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    made = refined(broken, HITS)
    assert [context.text for context in made.contexts[0]] == TEXTS  # all units are equal


def test_a_question_has_its_contexts_whatever_the_others_are(llama: Path) -> None:
    options = SelectiveContext.Options(refiner="selective_context", model=str(llama), max_words=9, **COMPUTING)
    refiner = SelectiveContext(options)
    long = Hit("", " ".join(TEXTS * 5), 5, 0, len(" ".join(TEXTS * 5)))
    questions = [HITS[:1], [long], HITS, []]
    together = refiner.refine(["?"] * 4, questions).contexts
    assert together == [refiner.refine(["?"], [hits]).contexts[0] for hits in questions]
    assert together == refiner.refine(["?"] * 4, questions[::-1]).contexts[::-1]


def test_a_hit_is_read_once_for_every_budget(llama: Path) -> None:
    with remembering(Memory()):
        first = refined(llama, HITS)
        assert (first.tokens > 0, refined(llama, HITS, max_words=5).tokens) == (True, 0)
