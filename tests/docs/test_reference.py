"""docs/reference/ says what the code says."""

import pytest

from docs.generate import REFERENCE, pages, prose, table


def test_the_pages_are_those_of_the_code() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md")}
    written = pages()
    stale = sorted(name for name in committed.keys() | written.keys() if committed.get(name) != written.get(name))
    assert not stale, f"docs/reference/ is not what the code says ({', '.join(stale)}): run `make reference`, commit it"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("alpha * core + (1 - alpha) * context", "alpha * core + (1 - alpha) * context"),
        ("files *.md in a*b", r"files \*.md in a\*b"),
        ("see `a*<b>` and <table>, x <= 3", r"see `a*<b>` and \<table>, x <= 3"),
    ],
)
def test_words_stay_words_in_markdown(words: str, shown: str) -> None:
    assert prose(words) == shown


def test_a_bar_does_not_end_a_cell() -> None:
    assert list(table("name", of=[["`a|b`"]])) == ["| name |", "|---|", r"| `a\|b` |", ""]
    assert list(table("name", of=[])) == []
