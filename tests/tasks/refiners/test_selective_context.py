"""The refiner `selective_context` on a tiny model: units, the percentile, order, origins, and parts of a long text."""

from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.options import Batching
from tasks.models.surprise import Surprise
from tasks.refiners.base import Hit, Refined
from tasks.refiners.selective_context import SelectiveContext
from tests.support import tiny_models

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
    """Kept one by one, by a budget of the least that shows the best, the units come in the order of their sums."""
    model = Surprise(str(llama), Batching(**COMPUTING), "refine")
    [(ids, ends)] = model.places([f"Ouse: {TEXTS[0]}"])
    [surprise] = model.of([((), ids)], lambda tokens: None)
    places = [TEXTS[0].index(text) for text in shown]
    spans = [(place, place + len(text)) for place, text in zip(places, shown, strict=True)]
    spans[0:1] = [(0, len(shown[0]))]
    sums = [
        sum(float(s) for end, s in zip(ends, surprise, strict=True) if start <= end - 1 - len("Ouse: ") < stop)
        for start, stop in spans
    ]
    best = shown[int(np.argmax(sums))]
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
