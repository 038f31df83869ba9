"""docs/reference/ says what the code says."""

from docs.generate import REFERENCE, pages

WRITTEN = "glossary.md"
"""The page of the reference that is written by hand."""


def test_the_pages_are_those_of_the_code() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md") if path.name != WRITTEN}
    written = pages()
    stale = sorted(name for name in committed.keys() | written.keys() if committed.get(name) != written.get(name))
    assert not stale, f"docs/reference/ is not what the code says ({', '.join(stale)}): run `make reference`, commit it"
