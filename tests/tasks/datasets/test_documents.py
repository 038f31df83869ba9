"""Documents as blocks, and the passages that they are cut into."""

from hypothesis import given, settings
from hypothesis import strategies as st

from vitalfew.tasks.datasets.documents.blocks import WHOLE, Block, Document, Part, cut, parts
from vitalfew.tasks.datasets.documents.markdown import read_markdown


def markdown(text: str, words: int = 300) -> list[Part]:
    return [*parts(read_markdown(text), "file.md", words)]


def titles(text: str) -> list[str]:
    return [part.title for part in markdown(text)]


def texts(text: str, words: int = 300) -> list[str]:
    return [part.text for part in markdown(text, words)]


def test_a_title_is_the_path_of_headings() -> None:
    text = "# Travel\n\nA.\n\n## Abroad\n\nB.\n\n### Visa *or* `none` {#visa}\n\nC.\n\n## At home\n\nD."
    assert markdown(text) == [
        Part("Travel", "A.", "travel"),
        Part("Travel › Abroad", "B.", "abroad"),
        Part("Travel › Abroad › Visa or none", "C.", "visa-or-none"),
        Part("Travel › At home", "D.", "at-home"),
    ]
    assert titles("Setext\n===\n\nA.\n\nbelow\n---\n\nB.") == ["Setext", "Setext › below"]


def test_where_several_headings_stand_side_by_side_the_file_names_the_document() -> None:
    assert titles("## A\n\na\n\n## B\n\nb") == ["file.md › A", "file.md › B"]
    assert titles("Text.") == ["file.md"]
    assert titles("Before.\n\n# Title\n\nAfter.") == ["Title", "Title"]


def test_front_matter_names_the_document_and_is_no_text() -> None:
    matter = "---\ntitle: npm-ci\nsection: 1\n---\n\n"
    assert markdown(f"{matter}### Synopsis\n\nText.") == [Part("npm-ci › Synopsis", "Text.", "synopsis")]
    assert titles(f"{matter}# NPM-CI\n\nText.\n\n## Use\n\nText.") == ["npm-ci", "npm-ci › Use"]
    assert titles("---\nsection: 1\n---\n\n# Heading\n\nText.") == ["Heading"]
    for broken in ("---\n\nTwo rules.\n\n---\n", "---\n- a\n- b\n---\n", "---\na: [\n---\n"):
        assert " ".join(texts(f"{broken}\nText.")).endswith("Text.")
    assert texts("---\n\nTwo rules.\n\n---\n\nText.") == ["Two rules.\n\nText."]


def test_what_says_nothing_is_left_out() -> None:
    text = """<!-- for editors -->

* [Use](#use)
* [See](#see)
  * [More](#more)

One [link][a] <!-- a
comment --> stays, `<!-- code -->` too.

***

<a name="use"></a>

* [other](https://example.org) page

[a]: https://example.org

```html
<!-- shown -->
```
"""
    assert texts(text) == [
        "One [link][a]  stays, `<!-- code -->` too.\n\n* [other](https://example.org) page\n\n"
        "```html\n<!-- shown -->\n```"
    ]


def test_code_and_tables_stay_with_what_leads_to_them() -> None:
    lead = "Ten words are in this line that leads to code:"
    code = "```\n" + "\n".join(f"line {number}" for number in range(10)) + "\n```"
    assert texts(f"Before it.\n\n{lead}\n\n{code}\n\nAfter.", words=20) == ["Before it.", f"{lead}\n\n{code}", "After."]
    table = "| a | b |\n|---|---|\n" + "| c | d |\n" * 6
    assert texts(f"Before.\n\n{lead}\n\n{table}\nAfter.", words=20) == [
        "Before.",
        f"{lead}\n\n{table}".strip(),
        "After.",
    ]
    long = "```\n" + "\n".join(f"line {number}" for number in range(100)) + "\n```"
    assert max(len(text.split()) for text in texts(long, words=20)) <= 20


def test_no_passage_ends_on_a_heading_and_places_are_unique() -> None:
    text = "# T\n\n" + "".join(f"## Same\n\n{'word ' * 30}\n\n### Empty\n\n" for _ in range(4))
    found = markdown(text, words=20)
    assert len({part.place for part in found}) == len(found) == 8
    assert [part.place for part in found][:3] == ["same", "same&part=2", "same&part=3"]
    assert {part.title for part in found} == {"T › Same"}


def test_pages_are_places_and_no_passage_has_two() -> None:
    blocks = [Block("One.", page=1), Block("Two.", page=1), Block("Three.", page=2), Block("x " * 30, page=3)]
    found = [*parts(Document(blocks), "a.pdf", 20)]
    assert [(part.text, part.place) for part in found[:2]] == [("One.\n\nTwo.", "page=1"), ("Three.", "page=2")]
    assert [part.place for part in found[2:]] == ["page=3", "page=3&part=2"]
    assert {part.title for part in found} == {"a.pdf"}


BLOCKS = st.lists(
    st.builds(
        Block,
        st.lists(st.sampled_from(["a", "b", "c d"]), min_size=1, max_size=30).map(" ".join),
        st.sampled_from([0, 0, 0, 1, 2, 3]),
        st.booleans(),
    ).map(lambda block: Block(block.text, block.level) if block.level else block),
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(blocks=BLOCKS, words=st.integers(0, 25))
def test_every_word_below_the_headings_is_in_a_passage(blocks: list[Block], words: int) -> None:
    found = [*parts(Document(blocks), "name", words)]
    kept = " ".join(block.text for block in blocks if not block.level).split()
    assert " ".join(part.text for part in found).split() == kept
    assert len({part.place for part in found}) == len(found)
    lengths = [len(part.text.split()) for part in found]
    longest = max([len(block.text.split()) for block in blocks if block.is_whole], default=0)
    assert not words or max(lengths, default=0) <= max(words, min(WHOLE * words, 2 * longest + 60))


@settings(max_examples=200, deadline=None)
@given(st.text("ab#->*`|[]():\n \t<!=", max_size=60))
def test_any_text_is_markdown(text: str) -> None:
    for part in markdown(text, words=5):
        assert part.text.strip()
        assert part.title


def test_passages_end_at_paragraphs_else_at_lines_else_at_words() -> None:
    paragraphs = "a b c d\n\ne f g h\n \ni j k l"
    assert list(cut(paragraphs, 9)) == ["a b c d\n\ne f g h", "i j k l"]
    assert list(cut(paragraphs, 0)) == list(cut(paragraphs, 12)) == [paragraphs]
    assert list(cut("# H\n\na b c\nd e f g h i j k l m n", 10)) == ["# H\n\na b c", "d e f g h i j k l m", "n"]
    assert list(cut("a b c d e", 2)) == ["a b", "c d", "e"]


@settings(max_examples=100, deadline=None)
@given(text=st.text("ab \n\t\r\u2003", max_size=80), words=st.integers(1, 12))
def test_cutting_keeps_every_word_and_no_passage_is_too_long(text: str, words: int) -> None:
    passages = list(cut(text, words))
    assert " ".join(passages).split() == text.split()
    assert all(len(passage.split()) <= words and passage == passage.strip() for passage in passages)
    assert all(4 * len(passage.split()) >= words for passage in passages[:-1])
    assert passages == [""] or all(passages)
    position = 0
    for passage in passages:  # each a piece of the text as it is
        position = text.index(passage, position) + len(passage)
