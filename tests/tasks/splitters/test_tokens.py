"""Tokens, counted by Python as by Arrow."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitalfew.tasks.split import sentences_table
from vitalfew.tasks.splitters import tokens
from vitalfew.tasks.splitters.tokens import count_tokens, count_words, first, terms

TEXTS = st.text(
    st.sampled_from("ab_1 \n\u00a0\u00ad。，.书证のกาครับहिन्दी가\u0301é'’") | st.characters(codec="utf-8"), max_size=30
)


def by_arrow(texts: list[str]) -> list[int]:
    counted: list[int] = sentences_table([(0, 0, 0, 0, 0, text) for text in texts])["tokens"].to_pylist()
    return counted


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Don't stop.", 5),
        ("snake_case 19°C", 4),
        ("हिन्दी में", 2),
        ("借书证办理", 4),
        ("书。 第87号", 5),
        ("สวัสดี", 5),
        ("so\u00adft\u200b a\u00a0b", 4),
    ],
)
def test_tokens(text: str, count: int) -> None:
    assert count_tokens(text) == count == by_arrow([text])[0]


def test_python_and_arrow_agree_on_every_character() -> None:
    """Of the planes in which there are letters."""
    signs = [chr(code) for code in range(0x32000) if not 0xD800 <= code < 0xE000]
    texts = [f"a{sign}b {sign}{sign}" for sign in signs if unicodedata.category(sign) != "Cn"]
    assert [count_tokens(text) for text in texts] == by_arrow(texts)


@given(TEXTS.filter(lambda text: not any(unicodedata.category(sign) == "Cn" for sign in text)))
def test_counts_agree_on_any_text(text: str) -> None:
    assert count_tokens(text) == by_arrow([text])[0]


@given(TEXTS, st.integers(0, 12))
def test_the_longest_start(text: str, budget: int) -> None:
    kept = first(text, None, budget)
    assert text.startswith(kept)
    assert count_tokens(kept) == min(budget, count_tokens(text))
    assert count_words(first(text, budget, None)) == min(budget, count_words(text))


@given(st.text("abé_1 .,'ж-λ\u2019", max_size=30))
def test_plain_text_is_read_alike_both_ways(text: str) -> None:
    assert not tokens._NOT_PLAIN.search(text)
    assert [match[0] for match in tokens._TOKEN.finditer(text)] == tokens._PLAIN_TOKEN.findall(text)
    assert tokens._TERM.findall(text) == terms(text)
