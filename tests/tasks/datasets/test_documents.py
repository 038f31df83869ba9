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
from matplotlib.backends.backend_pdf import PdfPages
from pypdf import PdfReader, PdfWriter

from tests.tasks.datasets.test_datasets import dataset, only, read
from vitalfew.tasks.datasets.base import Passage, Reject
from vitalfew.tasks.datasets.documents import markdown as md
from vitalfew.tasks.datasets.documents import readers, rst
from vitalfew.tasks.datasets.documents.blocks import WHOLE, Block, DocumentPart, ReadDocument, parts
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
    contents = "<!-- for editors -->\n\n* [Use](#use)\n* [See](#see)\n  * [More](#more)\n\n"
    kept = "One [link][a]{} stays, `<!-- code -->` too.\n\n* [other](https://example.org) page"
    comment, code = " <!-- a\ncomment -->", "\n\n```html\n<!-- shown -->\n```"
    nothing = "\n\n***\n\n[a]: https://example.org\n"
    assert texts(f"{contents}{kept.format(comment)}{nothing}{code}") == [f"{kept.format(' ')}{code}"]


def test_code_stays_with_what_leads_to_it_and_no_passage_ends_on_a_heading() -> None:
    lead = "Ten words are in this line that leads to code:"
    code = "```\n" + "\n".join(f"line {number}" for number in range(10)) + "\n```"
    assert texts(f"Before it.\n\n{lead}\n\n{code}\n\nAfter.", words=20) == ["Before it.", f"{lead}\n\n{code}", "After."]
    text = "# T\n\n" + "".join(f"## Same\n\n{'word ' * 30}\n\n### Empty\n\n" for _ in range(4))
    found = markdown(text, words=20)
    assert [part.place for part in found][:3] == ["same", "same&part=2", "same-1"]
    assert {part.title for part in found} == {"T › Same"}


@settings(max_examples=50, deadline=None)
@given(
    drawn=st.lists(
        st.tuples(
            st.lists(st.sampled_from(["a", "b", "c d"]), min_size=1, max_size=30).map(" ".join),
            st.sampled_from([0, 0, 0, 1, 2, 3]),
            st.booleans(),
        ),
        max_size=12,
    ),
    words=st.integers(0, 25),
)
def test_every_word_below_the_headings_is_in_a_passage(drawn: list[tuple[str, int, bool]], words: int) -> None:
    blocks = [Block(text, level) if level else Block(text, 0, is_whole) for text, level, is_whole in drawn]
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

Costs
-----

.. command:: pay :sub:`x`

   Pay as follows::

      pay(20)

.. include:: /etc/hostname

* one

=====  ===
what   USD
train  20
=====  ===
"""


def test_a_text_of_sphinx_is_read_without_sphinx() -> None:
    (travel, costs) = parts(read_rst(RST), "travel.rst", 300)
    said = "A trip abroad needs the word of the director, see function."
    assert travel == DocumentPart("Travel rules", said, "travel-rules")
    assert (costs.title, costs.place) == ("Travel rules › Costs", "costs")
    assert "Pay as follows:\n\npay(20)" in costs.text
    assert costs.text.endswith("- one\n\nwhat | USD\ntrain | 20")


def pdf(path: Path, *pages: str, password: str = "") -> None:
    """Write a PDF; a page without text is a picture."""
    with plt.rc_context({"pdf.fonttype": 42}), PdfPages(path) as file:
        for text in pages:
            figure = plt.figure(figsize=(8, 4))
            figure.text(0.1, 0.5, text) if text else figure.figimage([[0.0, 1.0]])
            file.savefig(figure)
            plt.close(figure)
    if password:
        writer = PdfWriter(clone_from=PdfReader(path))
        writer.encrypt(password, algorithm="RC4-128")
        writer.write(path)


def docx() -> bytes:
    """Return a document with two headings, a text below each."""
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    written = [("Heading1", "Travel"), ("", "A trip abroad."), ("Heading2", "Costs"), ("", "20 USD.")]
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>' for style, text in written
    )
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{level}"><w:name w:val="heading {level}"/></w:style>'
        for level in (1, 2)
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("word/document.xml", f"<w:document {space}><w:body>{body}</w:body></w:document>")
        archive.writestr("word/styles.xml", f"<w:styles {space}>{styles}</w:styles>")
    return file.getvalue()


def notebook() -> str:
    """Return a notebook with a heading, a text and a cell of code."""
    code = {"cell_type": "code", "source": "x = 1", "outputs": [], "execution_count": None}
    cells = [{"cell_type": "markdown", "source": "# Notes\n\nText:"}, code]
    whole = [cell | {"metadata": {}, "id": str(number)} for number, cell in enumerate(cells)]
    return json.dumps({"cells": whole, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def rejected(folder: Path) -> dict[str, tuple[str, str]]:
    found = only(Reject, read("folder", folder))
    return {each.detail.partition(":")[0]: (each.reason, each.detail.partition(": ")[2]) for each in found}


def test_a_folder_may_hold_every_kind_of_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pdf(tmp_path / "a.pdf", "Page one.", "Page two.")
    (tmp_path / "b.docx").write_bytes(docx())
    (tmp_path / "c.ipynb").write_text(notebook())
    (tmp_path / "d.html").write_text(HTML)
    (tmp_path / "e.rst").write_text(RST)
    found = only(Passage, read("folder", tmp_path))
    assert [(each.title, each.source_id, each.text) for each in found[:5]] == [
        ("a.pdf", "a.pdf#page=1", "Page one."),
        ("a.pdf", "a.pdf#page=2", "Page two."),
        ("Travel", "b.docx#travel", "A trip abroad."),
        ("Travel › Costs", "b.docx#costs", "20 USD."),
        ("Notes", "c.ipynb#notes", "Text:\n\nx = 1"),
    ]
    assert [each.source_id for each in found[5:]] == [
        "d.html#travel",
        "d.html#costs",
        "e.rst#travel-rules",
        "e.rst#costs",
    ]
    whole = dataset("folder", tmp_path).identity()
    for package in ("pypdf", "docutils"):
        monkeypatch.setitem(sys.modules, package, None)
    assert rejected(tmp_path) == {
        name: ("missing_reader", f"to read {name[1:]}: pip install 'vitalfew[documents]', then index again")
        for name in ("a.pdf", "e.rst")
    }
    assert dataset("folder", tmp_path).identity() == whole | {"unread": [".pdf", ".rst"]}


def test_what_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "PARSED", 1000)
    monkeypatch.setattr(rst, "LINE", 20)
    pdf(tmp_path / "scan.pdf", "")
    pdf(tmp_path / "secret.pdf", "Hidden.", password="secret")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 nothing else")
    (tmp_path / "broken.docx").write_bytes(docx()[:-40])
    (tmp_path / "broken.ipynb").write_text("{}")
    (tmp_path / "long.html").write_text("<p>" + "x" * 1000)
    (tmp_path / "long.rst").write_text("x" * 21)
    found = rejected(tmp_path)
    assert {name: reason for name, (reason, _) in found.items()} == {
        "scan.pdf": "no_text",
        "secret.pdf": "encrypted",
        "broken.pdf": "unreadable_file",
        "broken.docx": "unreadable_file",
        "broken.ipynb": "unreadable_file",
        "long.html": "over_long",
        "long.rst": "over_long",
    }
    assert found["scan.pdf"][1].endswith("pages of scans need OCR first")
    monkeypatch.setattr(md, "LIMIT", 20)
    assert titles("# Heading\n\nA text that is too long to be parsed.") == ["file.md"]


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


@pytest.mark.parametrize("ending", sorted(READERS))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_bytes_give_passages_or_a_reject(
    tmp_path_factory: pytest.TempPathFactory, ending: str, data: st.DataObject
) -> None:
    folder: Any = tmp_path_factory.mktemp("any")
    made = {".docx": docx, ".ipynb": lambda: notebook().encode(), ".rst": lambda: RST.encode()}
    content = bytearray(made.get(ending, lambda: HTML.encode())())
    for _ in range(data.draw(st.integers(0, 4))):
        start = data.draw(st.integers(0, len(content)))
        content[start : start + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=8))
    (folder / f"a{ending}").write_bytes(bytes(content) or b" ")
    for record in (record for _, record in read("folder", folder)):
        assert record.text.strip() if isinstance(record, Passage) else record.detail.startswith(f"a{ending}")  # type: ignore[union-attr]
