"""docs/reference/ says what the code says."""

import re

from docs import generate


def test_the_pages_are_those_of_the_code() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in generate.REFERENCE.glob("*.md")}
    pages = generate.pages()
    stale = sorted(name for name in committed.keys() | pages.keys() if committed.get(name) != pages.get(name))
    assert not stale, (
        f"docs/reference/ is not what the code says ({', '.join(stale)}): run `make reference` and commit it"
    )


def test_a_page_says_where_it_comes_from_and_knows_nothing_of_the_machine() -> None:
    for name, text in generate.pages().items():
        first = text.partition("\n")[0]
        assert first.startswith("<!-- Written by `make reference` from "), name
        assert not re.search(r"/(home|root|tmp|Users)/", text), name
