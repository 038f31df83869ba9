"""Documents as blocks, and the passages that they are cut into."""

import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tasks.datasets.test_datasets import dataset, only, read
from vitalfew.tasks.datasets.base import Passage, Reject
from vitalfew.tasks.datasets.documents import markdown as md
from vitalfew.tasks.datasets.documents import readers, rst
from vitalfew.tasks.datasets.documents.blocks import WHOLE, Block, DocumentPart, ReadDocument, cut, parts
from vitalfew.tasks.datasets.documents.html import read_html
from vitalfew.tasks.datasets.documents.markdown import read_markdown
from vitalfew.tasks.datasets.documents.readers import READERS
from vitalfew.tasks.datasets.documents.rst import read_rst


def markdown(text: str, words: int = 300) -> list[DocumentPart]:
    return [*parts(read_markdown(text), "file.md", words)]


def titles(text: str) -> list[str]:
    return [part.title for part in markdown(text)]


def texts(text: str, words: int = 300) -> list[str]:
    return [part.text for part in markdown(text, words)]


def test_a_title_is_the_path_of_headings() -> None:
    text = "# Travel\n\nA.\n\n## Abroad\n\nB.\n\n### Visa *or* `none` {#visa}\n\nC.\n\n## At home\n\nD."
    assert markdown(text) == [
        DocumentPart("Travel", "A.", "travel"),
        DocumentPart("Travel › Abroad", "B.", "abroad"),
        DocumentPart("Travel › Abroad › Visa or none", "C.", "visa-or-none"),
        DocumentPart("Travel › At home", "D.", "at-home"),
    ]
    assert titles("Setext\n===\n\nA.\n\nbelow\n---\n\nB.") == ["Setext", "Setext › below"]
    assert titles("## A\n\na\n\n## B\n\nb") == ["file.md › A", "file.md › B"]


def test_front_matter_names_the_document_and_is_no_text() -> None:
    matter = "---\ntitle: npm-ci\nsection: 1\n---\n\n"
    assert markdown(f"{matter}### Synopsis\n\nText.") == [DocumentPart("npm-ci › Synopsis", "Text.", "synopsis")]
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


def test_code_stays_with_what_leads_to_it_and_no_passage_ends_on_a_heading() -> None:
    lead = "Ten words are in this line that leads to code:"
    code = "```\n" + "\n".join(f"line {number}" for number in range(10)) + "\n```"
    assert texts(f"Before it.\n\n{lead}\n\n{code}\n\nAfter.", words=20) == ["Before it.", f"{lead}\n\n{code}", "After."]
    text = "# T\n\n" + "".join(f"## Same\n\n{'word ' * 30}\n\n### Empty\n\n" for _ in range(4))
    found = markdown(text, words=20)
    assert [part.place for part in found][:3] == ["same", "same&part=2", "same-1"]
    assert {part.title for part in found} == {"T › Same"}


def test_pages_are_places_and_no_passage_has_two() -> None:
    blocks = [Block("One.", page=1), Block("Two.", page=1), Block("Three.", page=2), Block("x " * 30, page=3)]
    found = [*parts(ReadDocument(blocks), "a.pdf", 20)]
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


@settings(max_examples=50, deadline=None)
@given(blocks=BLOCKS, words=st.integers(0, 25))
def test_every_word_below_the_headings_is_in_a_passage(blocks: list[Block], words: int) -> None:
    found = [*parts(ReadDocument(blocks), "name", words)]
    kept = " ".join(block.text for block in blocks if not block.level).split()
    assert " ".join(part.text for part in found).split() == kept
    assert len({part.place for part in found}) == len(found)
    lengths = [len(part.text.split()) for part in found]
    longest = max([len(block.text.split()) for block in blocks if block.is_whole], default=0)
    assert not words or max(lengths, default=0) <= max(words, min(WHOLE * words, 2 * longest + 60))


HTML = """<!doctype html><html><head><title>Travel - Handbook</title><style>p {}</style></head><body>
<header>Logo</header><nav><ul><li><a href="/">Home</a></li></ul></nav>
<main><h1>Travel <a class="headerlink" href="#travel">¶</a></h1><p>A trip <b>abroad</b>
needs the word of the <i>director</i>.</p><div>Loose text <span>in a div.</span></div>
<h2>Costs</h2><p>As follows:</p><table><tr><th>what</th><th>USD</th></tr><tr><td>train</td><td>20</td></tr></table>
<ul><li>one<ul><li>in one</li></ul></li><li>two</li></ul><pre>a  = 1
b = 2</pre><p hidden>Unseen.</p></main><footer>Imprint</footer></body></html>"""


def test_a_page_is_its_main_part() -> None:
    assert [*parts(read_html(HTML), "travel.html", 300)] == [
        DocumentPart("Travel", "A trip abroad needs the word of the director.\n\nLoose text in a div.", "travel"),
        DocumentPart(
            "Travel › Costs",
            "As follows:\n\nwhat | USD\ntrain | 20\n\n- one\n- in one\n- two\n\na  = 1\nb = 2",
            "costs",
        ),
    ]
    assert [*parts(read_html("<title>T</title><p>Text."), "a.html", 300)] == [DocumentPart("T", "Text.", "")]
    deep = "<div>" * 20_000 + "deep"
    assert [part.text for part in parts(read_html(deep), "a.html", 300)] == ["deep"]


RST = """
.. _travel:

Travel rules
============

.. toctree::

   other

A trip abroad needs the word of the :role:`director <people>`, see :py:func:`~module.function`.

.. versionadded:: 3.1
   The director's word.

Costs
-----

.. command:: pay :sub:`x`

   :option: value

   Pay as follows::

      pay(20)

.. include:: /etc/hostname

* one
* two

=====  ===
what   USD
=====  ===
train  20
=====  ===
"""


def test_a_text_of_sphinx_is_read_without_sphinx() -> None:
    (travel, costs) = parts(read_rst(RST), "travel.rst", 300)
    assert travel == DocumentPart(
        "Travel rules",
        "A trip abroad needs the word of the director, see function.\n\nAdded in version 3.1 The director's word.",
        "travel-rules",
    )
    assert (costs.title, costs.place) == ("Travel rules › Costs", "costs")
    assert "Pay as follows:\n\npay(20)" in costs.text
    assert costs.text.endswith("- one\n- two\n\nwhat | USD\ntrain | 20")


def pdf(path: Path, *pages: str, password: str = "") -> None:
    """Write a PDF; a page without text is a picture."""
    from matplotlib.backends.backend_pdf import PdfPages

    with plt.rc_context({"pdf.fonttype": 42}), PdfPages(path) as file:
        for text in pages:
            figure = plt.figure(figsize=(8, 4))
            figure.text(0.1, 0.5, text) if text else figure.figimage([[0.0, 1.0]])
            file.savefig(figure)
            plt.close(figure)
    if password:
        from pypdf import PdfReader, PdfWriter

        writer = PdfWriter(clone_from=PdfReader(path))
        writer.encrypt(password, algorithm="RC4-128")
        writer.write(path)


def docx() -> bytes:
    """Return a document with two headings, a text below each."""
    name = "http://schemas.openxmlformats.org/"
    written = [("Heading1", "Travel"), ("", "A trip abroad."), ("Heading2", "Costs"), ("", "20 USD.")]
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>' for style, text in written
    )
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{level}"><w:name w:val="heading {level}"/></w:style>'
        for level in (1, 2)
    )
    space = f'xmlns:w="{name}wordprocessingml/2006/main"'
    kind, package = f"{name}officeDocument/2006/relationships", f"{name}package/2006"
    files = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r" '
        f'Type="{kind}/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="s" '
        f'Type="{kind}/styles" Target="styles.xml"/></Relationships>',
        "word/document.xml": f"<w:document {space}><w:body>{body}</w:body></w:document>",
        "word/styles.xml": f"<w:styles {space}>{styles}</w:styles>",
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return file.getvalue()


def notebook(*cells: tuple[str, str]) -> str:
    made = [
        {"cell_type": kind, "metadata": {}, "source": text, "id": str(number)}
        | ({"outputs": [], "execution_count": None} if kind == "code" else {})
        for number, (kind, text) in enumerate(cells)
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of every kind."""
    pdf(tmp_path / "a.pdf", "Page one.", "Page two.")
    (tmp_path / "b.docx").write_bytes(docx())
    (tmp_path / "c.ipynb").write_text(notebook(("markdown", "# Notes\n\nText:"), ("code", "x = 1")))
    (tmp_path / "d.html").write_text(HTML)
    (tmp_path / "e.rst").write_text(RST)
    return tmp_path


def test_a_folder_may_hold_every_kind_of_document(folder: Path) -> None:
    found = only(Passage, read("folder", folder))
    assert [(each.title, each.source_id) for each in found] == [
        ("a.pdf", "a.pdf#page=1"),
        ("a.pdf", "a.pdf#page=2"),
        ("Travel", "b.docx#travel"),
        ("Travel › Costs", "b.docx#costs"),
        ("Notes", "c.ipynb#notes"),
        ("Travel", "d.html#travel"),
        ("Travel › Costs", "d.html#costs"),
        ("Travel rules", "e.rst#travel-rules"),
        ("Travel rules › Costs", "e.rst#costs"),
    ]
    assert [each.text for each in found[:5]] == [
        "Page one.",
        "Page two.",
        "A trip abroad.",
        "20 USD.",
        "Text:\n\nx = 1",
    ]


def rejected(folder: Path) -> dict[str, tuple[str, str]]:
    found = only(Reject, read("folder", folder))
    return {each.detail.partition(":")[0]: (each.reason, each.detail.partition(": ")[2]) for each in found}


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    pdf(tmp_path / "scan.pdf", "")
    pdf(tmp_path / "secret.pdf", "Hidden.", password="secret")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 nothing else")
    (tmp_path / "broken.docx").write_bytes(docx()[:-40])
    (tmp_path / "broken.ipynb").write_text("{}")
    found = rejected(tmp_path)
    assert {name: reason for name, (reason, _) in found.items()} == {
        "scan.pdf": "no_text",
        "secret.pdf": "encrypted",
        "broken.pdf": "unreadable_file",
        "broken.docx": "unreadable_file",
        "broken.ipynb": "unreadable_file",
    }
    assert found["scan.pdf"][1].endswith("pages of scans need OCR first")


def test_a_reader_that_is_not_installed_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = dataset("folder", folder).identity()
    for package in ("pypdf", "docutils"):
        monkeypatch.setitem(sys.modules, package, None)
    found = rejected(folder)
    assert found == {
        name: ("missing_reader", f"to read {name[1:]}: pip install 'vitalfew[documents]', then index again")
        for name in ("a.pdf", "e.rst")
    }
    assert dataset("folder", folder).identity() == whole | {"unread": [".pdf", ".rst"]}


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        (".html", "<table><tr><td>x" * 3000),
        (".html", "<ul><li>x" * 5000),
        (".rst", "*a " * 3000),
        (".md", "[" * 30_000),
        (".md", "> " * 20_000 + "x"),
    ],
)
def test_a_text_that_is_made_to_be_slow_is_read(tmp_path: Path, ending: str, content: str) -> None:
    (tmp_path / f"a{ending}").write_text(content)
    assert only(Passage, read("folder", tmp_path))


def test_what_is_too_long_for_a_reader_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "PARSED", 100)
    monkeypatch.setattr(rst, "LINE", 20)
    (tmp_path / "a.html").write_text("<p>" + "x" * 100)
    (tmp_path / "b.rst").write_text("x" * 21)
    assert {name: reason for name, (reason, _) in rejected(tmp_path).items()} == {
        "a.html": "over_long",
        "b.rst": "over_long",
    }
    monkeypatch.setattr(md, "LIMIT", 20)
    (tmp_path / "c.md").write_text("# Heading\n\nA text that is too long to be parsed.")
    assert [part.title for part in only(Passage, read("folder", tmp_path))] == ["c.md"]


@pytest.mark.parametrize("ending", sorted(READERS))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_bytes_give_passages_or_a_reject(
    tmp_path_factory: pytest.TempPathFactory, ending: str, data: st.DataObject
) -> None:
    folder: Any = tmp_path_factory.mktemp("any")
    made = {".docx": docx, ".ipynb": lambda: notebook(("markdown", "# A")).encode(), ".rst": lambda: RST.encode()}
    content = bytearray(made.get(ending, lambda: HTML.encode())())
    for _ in range(data.draw(st.integers(0, 4))):
        start = data.draw(st.integers(0, len(content)))
        content[start : start + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=8))
    (folder / f"a{ending}").write_bytes(bytes(content) or b" ")
    for record in (record for _, record in read("folder", folder)):
        assert record.text.strip() if isinstance(record, Passage) else record.detail.startswith(f"a{ending}")  # type: ignore[union-attr]


@settings(max_examples=50, deadline=None)
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
