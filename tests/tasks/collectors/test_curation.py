"""Curation: what is kept, and which of a text's words are the chunks' own."""

import pytest

from vitalfew.tasks.refiners.base import Hit
from vitalfew.tasks.trainers.oreo.collector import OreoExample, aligned, unfit, verdict

CHUNK = Hit("Velmar", "The mill was built in 1742 by Ada Norrin, near the river.", 1, 0, 60)
CASE = OreoExample("Who built the mill?", ("Ada Norrin",), (CHUNK,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ada Norrin built it in 1742.", "kept"),
        ("[unknown]", "unknown"),
        ("It was built in 1742.", "answer_not_in_output"),
        ("The mill of Ada Norrin is in Kessin.", "ungrounded"),
        ("Ada Norrin " * 60, "over_long"),
    ],
)
def test_what_is_kept(text: str, expected: str) -> None:
    assert verdict(CASE, text, 100) == expected


def test_cases_about_which_nobody_is_asked() -> None:
    assert unfit(CASE, 96) == ""
    assert unfit(CASE, 3) == "over_long"
    assert unfit(OreoExample("Who?", ("Ada",), ()), 96) == "no_hits"
    assert unfit(OreoExample("Who?", ("Tomas",), (CHUNK,)), 96) == "answer_not_in_chunks"


def test_a_text_in_the_words_of_the_chunks_is_aligned() -> None:
    shown = [CHUNK.titled, "Kessin: A river."]
    runs = aligned("Ada Norrin, near the river: the mill was built in 1742", shown)
    assert [shown[run.chunk][run.start : run.end] for run in runs] == [
        "Ada Norrin, near the river", "The mill was built in 1742",
    ]  # fmt: skip
    assert aligned("Somebody else altogether", shown) == ()
