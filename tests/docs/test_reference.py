"""docs/reference/, docs/papers.md and docs/results/index.md say what the code says, and what was written down."""

import re

import pytest

from docs import generate, markdown


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return generate.pages()


def test_the_pages_are_those_of_the_code(pages: dict[str, str]) -> None:
    files = [
        generate.DOCS / "papers.md",
        generate.DOCS / "results" / "index.md",
        *(generate.DOCS / "reference").glob("*.md"),
    ]
    committed = {path.relative_to(generate.DOCS).as_posix(): path.read_text(encoding="utf-8") for path in files}
    stale = sorted(name for name in committed.keys() | pages.keys() if committed.get(name) != pages.get(name))
    assert not stale, f"docs/ is not what the code says ({', '.join(stale)}): run `make reference` and commit it"


def test_a_page_says_where_it_comes_from_and_knows_nothing_of_the_machine(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        assert text.startswith("<!-- Written by `make reference` from "), name
        assert not re.search(r"/(home|root|tmp|Users)/", text), name


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("alpha * core + (1 - alpha) * context", "alpha * core + (1 - alpha) * context"),
        ("files *.md in a*b", r"files \*.md in a\*b"),
        ("see `a*<b>` and <table>, x <= 3", r"see `a*<b>` and \<table>, x <= 3"),
    ],
)
def test_words_stay_words_in_markdown(words: str, shown: str) -> None:
    assert markdown.prose(words) == shown


def test_a_bar_does_not_end_a_cell() -> None:
    assert list(markdown.table("name", of=[["`a|b`"]])) == ["| name |", "|---|", r"| `a\|b` |", ""]
    assert list(markdown.table("name", of=[])) == []
