"""The comparable form of a text, and the place of a quote in it."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitalfew.tasks.comparable import comparable, find

TEXTS = st.text(
    st.sampled_from("aé\u0301가\u1100\u1161ﬁ³½²™ \u00a0\n\u00ad\u200b“’«—−´\ufb01Ａß1_x.(") | st.characters(),
    max_size=40,
)
WORDS = st.lists(
    st.sampled_from(["**bold**", "_one two_", "`x_y`", "snake_case", "2*3*4", "Café", "ﬁnd", "10³", "ß", "“so”"])
)


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("10³ m", "10^3 m"),
        ("x⁻¹", "x^-1"),
        ("H₂O, 2½ cups, Ａ１, ﬁnd, Brand™", "H2O, 2 1/2 cups, A1, find, Brand TM"),
        ("co\u00adop \u200b\ufeffnow\u2060", "coop now"),
        ("  two\u00a0\u3000words\r\n\tand\u2028more ", "two words and more"),
        ("“a” ‘b’ «c» don´t 5′", "\"a\" 'b' \"c\" don't 5'"),
        ("a—b–c‑d−1", "a-b-c-d-1"),
        ("_Cargo.lock_ is **one *file***, `x_y` too", "Cargo.lock is **one *file***, x_y too"),
        ("**one *file* more**: **`cargo build`**", "one file more: cargo build"),
        ("snake_case 2*3*4 2 * 3 * 4 __init__ f(*a, **b)", "snake_case 2*3*4 2 * 3 * 4 __init__ f(*a, **b)"),
        ("`__init__` and `*.py`", "__init__ and *.py"),
        ("这是**重点**，请看_变量_名", "这是重点，请看_变量_名".replace("，", ",")),
        ("* one\n* two", "* one * two"),
    ],
)
def test_form(written: str, form: str) -> None:
    assert comparable(written) == form


@given(TEXTS)
def test_once_is_enough(text: str) -> None:
    once = comparable(text)
    assert comparable(once) == once


@given(TEXTS)
def test_composed_and_decomposed_text_are_one(text: str) -> None:
    composed, decomposed = (comparable(unicodedata.normalize(form, text)) for form in ("NFC", "NFD"))
    assert comparable(text) == composed == decomposed


@given(WORDS, WORDS, WORDS)
def test_a_place_holds_the_quote(before: list[str], words: list[str], after: list[str]) -> None:
    """Whatever form the text and the quote have."""
    text, quote = unicodedata.normalize("NFD", " ".join([*before, *words, *after])), "\n".join(words).upper()
    found = find(text, quote)
    if words:
        assert found
        start, end = found
        assert find(text[start:end], quote) == (0, end - start)
    else:
        assert found is None


@given(TEXTS, st.data())
def test_a_part_of_a_text_stands_there(text: str, data: st.DataObject) -> None:
    form = comparable(text).casefold()
    start = data.draw(st.integers(0, len(form)))
    quote = form[start : data.draw(st.integers(start, len(form)))]
    if comparable(quote).casefold() == quote and quote:
        found = find(text, quote)
        assert found
        start, end = found
        assert 0 <= start < end <= len(text)


def test_a_mark_whose_partner_is_beyond_the_quote_counts_as_none() -> None:
    text = "See **Note: it closes at six.** Then _go home_."
    assert find(text, "**Note: it closes") == (6, 21)
    assert find(text, "at six.** Then _go") == (22, 40)
    assert find("Call f(*a) for `*.py`.", "f(*a)") == (5, 10)


@pytest.mark.parametrize("part", ["*a ", "`*x` ", "\u0301\u0316", " \n"])
def test_time_is_linear(part: str) -> None:
    begin = time.process_time()
    assert find(part * 50_000, "b") is None
    assert time.process_time() - begin < 60  # 0.4 s are enough; the square of the length would take many minutes
