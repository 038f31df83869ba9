"""Documents as blocks, and the passages that they are cut into."""

import io
import json
import os
import signal
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
from vitalfew.configs.schema import LoadConfig
from vitalfew.tasks.datasets.base import Passage, Reject, RowError
from vitalfew.tasks.datasets.documents.blocks import WHOLE, Block, DocumentPart, ReadDocument, cut, parts
from vitalfew.tasks.datasets.documents.html import read_html
from vitalfew.tasks.datasets.documents.markdown import read_markdown
from vitalfew.tasks.datasets.documents.process import Bounds, ReadingProcess
from vitalfew.tasks.datasets.documents.readers import READERS, read_document
from vitalfew.tasks.datasets.documents.rst import read_rst
from vitalfew.tasks.datasets.rows import REASONS


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


@pytest.mark.parametrize(
    ("page", "expected"),
    {
        # Blocks, cells and line breaks separate words; powers and footnotes are no digits of the word before them.
        "<table><tr><th>Room<th><th>No.<tr><td>Blue<td><td><p>3</p><p>1</p></table>": "Room |  | No.\nBlue |  | 3 1",
        "<p>10<sup>3</sup> of H<sub>2</sub>O on the 1<sup>st</sup>": "10^3 of H2O on the 1st",
        "<p>A <x-term>word</x-term>, kept.</p><x-card>One</x-card><x-card>Two</x-card>": "A word, kept.\n\nOne\n\nTwo",
        # Containers that hold a page's own text, and what only leads elsewhere or acts.
        "<form><p>Order</p><select><option>No</select><button>Send</button></form>": "Order",
        "<main><p>Body</p><aside>Mind</aside><noscript>Call us</noscript><dialog open>Hello</dialog></main>": (
            "Body\n\nMind\n\nCall us\n\nHello"
        ),
        "<dialog>No</dialog><div><button>Copy</button><pre>a\n b</pre></div><p>Press <button>Save</button>.": (
            "a\n b\n\nPress Save."
        ),
        "<article>Teaser</article><p>The body of this page is longer.": "Teaser\n\nThe body of this page is longer.",
        "<details><summary>More?</summary>Yes.</details><p hidden>No": "More?\n\nYes.",
        "<button aria-controls=p>Ask</button><div id=p hidden>Answer</div>": "Ask\n\nAnswer",
        "<h2>Contents</h2><div><ul><li><a href='#a'>A</a><ul><li><a href='#b'>B</a></ul></ul></div><p>Text": "Text",
        "<header>Logo</header><p>Text</p><footer>Imprint</footer>": "Text",
    }.items(),
)
def test_what_a_page_shows_stands_apart_and_is_all_there(page: str, expected: str) -> None:
    assert [part.text for part in parts(read_html(page), "a.html", 300)] == [expected]


def test_a_page_that_only_leads_to_another_has_no_text() -> None:
    with pytest.raises(RowError, match="has no text"):
        read_document("a.html", b"<meta http-equiv='Refresh' content='0; url=b.html'><p>Go to <a href=b.html>b</a>.")


DIALECTS = """
::: {.callout-tip title="Yes"}
Good.
:::

!!! danger "Stop"
    Inner.

    ```
    !!! code
    ```

```{tip} Hint
:class: wide
Inside.
```

```{toctree}
other
```

{{#include other.md}}
--8<-- "other.md"

A {{< term text="pod" id="p" >}} runs `{{#include}}`.

> [!NOTE]
> Alert.

## Use {#use .wide}

End.
"""


def test_the_fences_of_markdowns_relatives_go_and_their_text_stays() -> None:
    document = read_markdown(DIALECTS)
    assert [block.text for block in document.blocks] == [
        "Yes", "Good.", "Stop", "Inner.", "```\n!!! code\n```", "Hint", "Inside.", "A pod runs `{{#include}}`.",
        "> Alert.", "Use", "End.",
    ]  # fmt: skip
    assert document.notes == {"includes_not_followed": 2}


@pytest.mark.parametrize(
    ("matter", "fields", "is_fault"),
    [
        ("+++\ntitle = 'Trips\nyear = 2024\n+++\n", {"title": "'Trips", "year": 2024}, True),
        ("---\n1: one\nat: 12:30\nratio: .nan\n---\n", {"1": "one", "at": "12:30", "ratio": "nan"}, False),
        ("---\na: " + "[" * 100_000 + "\nb: 1\n---\n", {"a": "[" * 100_000, "b": 1}, True),
    ],
)
def test_front_matter_is_read_as_far_as_it_can_be(
    tmp_path: Path, matter: str, fields: dict[str, Any], is_fault: bool
) -> None:
    (tmp_path / "a.md").write_text(f"{matter}Text.")
    records = read("folder", tmp_path)
    (passage,) = only(Passage, records)
    assert (passage.text, json.loads(passage.metadata)) == ("Text.", fields)
    assert [reject.reason for reject in only(Reject, records)] == ["malformed_front_matter"] * is_fault


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


def test_what_a_text_defines_ends_with_it() -> None:
    plain = "A :red:`word` and `another`."
    before = read_rst(plain)
    read_rst(f".. role:: red(raw)\n   :format: html\n\n.. default-role:: math\n\n{plain}")
    assert read_rst(plain) == before


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
    code: dict[str, Any] = {"cell_type": "code", "source": "x = 1", "outputs": [], "execution_count": None}
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
        name: ("missing_reader", f"to read {name[1:]}, install the extra documents, then index again")
        for name in ("a.pdf", "e.rst")
    }
    assert dataset("folder", tmp_path).identity() == whole | {"unread": [".pdf", ".rst"]}


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


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        (".html", "<table><tr><td>x" * 3000),
        (".rst", "*a " * 3000),
        (".md", "[" * 30_000),
    ],
)
def test_a_text_that_is_made_to_be_slow_is_read(tmp_path: Path, ending: str, content: str) -> None:
    (tmp_path / f"a{ending}").write_text(content)
    assert only(Passage, read("folder", tmp_path))


@pytest.mark.parametrize("ending", sorted(READERS))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_bytes_give_blocks_or_a_reason(ending: str, data: st.DataObject) -> None:
    made = {".docx": docx, ".ipynb": lambda: notebook().encode(), ".rst": lambda: RST.encode()}
    content = bytearray(made.get(ending, lambda: HTML.encode())())
    for _ in range(data.draw(st.integers(0, 4))):
        start = data.draw(st.integers(0, len(content)))
        content[start : start + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=8))
    try:
        found = [block.text for block in read_document(f"a{ending}", bytes(content)).blocks]
    except RowError as error:
        found = [error.reason] if error.reason in REASONS else []
    assert any(map(str.strip, found))


@pytest.mark.parametrize(
    ("text", "encoding", "reason"),
    [
        ("Über die Grüße an die Straßen von München.", "cp1252", "invalid_unicode"),
        ("図書館は月曜から金曜まで開いています。週末は休みです。", "cp932", "invalid_unicode"),
        ("Библиотека открыта с понедельника по пятницу.", "cp1251", "invalid_unicode"),
        ("The library opens at nine.", "utf-16-le", "binary_file"),
    ],
)
def test_a_text_in_another_encoding_is_rejected_with_the_likely_one(text: str, encoding: str, reason: str) -> None:
    with pytest.raises(RowError, match=f"encoding={encoding}") as caught:
        read_document("a.txt", text.encode(encoding))
    assert caught.value.reason == reason
    assert read_document("a.txt", text.encode(encoding), encoding).blocks[0].text == text
    assert read_document("a.txt", f"é {text}".encode(), encoding).blocks[0].text == f"é {text}"


@pytest.mark.parametrize(
    ("text", "longest"),
    [
        ("储物柜第一号的密码是四三二一，请记住" * 50, 30),
        ("ห้องสมุดเปิดวันจันทร์ถึงวันศุกร์" * 50, 125),
        ("one word, then another; and so on " * 50, 200),
        ("A" * 3000, 24 * 30),
        ("図書館は開いています。「静かに。」週末は休みです。" * 20, 60),
    ],
)
def test_a_text_without_full_stops_or_spaces_is_cut(text: str, longest: int) -> None:
    found = [*cut(text, 30)]
    assert "".join("".join(found).split()) == "".join(text.split())
    assert max(map(len, found)) <= longest


def bounded(folder: Path, **bounds: Any) -> list[Any]:
    documents = dataset("folder", folder)
    documents.limit(LoadConfig(**bounds))
    return [record for _, record in documents.records()]


def test_a_document_that_passes_a_bound_is_a_reject_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Text.")
    (tmp_path / "b.html").write_text("<p>word" * 2_000_000)  # which no machine reads in a second
    (tmp_path / "c.md").write_text("More text.")
    bounds = {"over_time": {"document_seconds": 1.0, "document_mb": 8192}, "over_memory": {"document_mb": 20}}
    for reason, own in bounds.items():
        first, reject, last = bounded(tmp_path, **own)
        assert (reject.reason, first.text, last.text) == (reason, "Text.", "More text.")
        assert f"load.{next(iter(own))}" in reject.detail


def test_a_process_that_is_killed_costs_one_document() -> None:
    with ReadingProcess(Bounds()) as process:
        assert process.read("a.txt", b"A.", 0, None).passages[0].text == "A."
        assert process._process
        os.kill(process._process.pid, signal.SIGKILL)
        with pytest.raises(RowError, match="signal 9") as caught:
            process.read("b.txt", b"B.", 0, None)
        assert caught.value.reason == "unreadable_file"
        assert process.read("c.txt", b"C.", 0, None).passages[0].text == "C."


def test_code_in_a_list_keeps_its_lines() -> None:
    due = "- Set it:\n  a:\n    b: 1\n  Then go.\n- Done"
    page = "<ul><li><p>Set it:</p><pre>a:\n  b: 1</pre>Then go.</li><li>Done</li></ul>"
    assert [block.text for block in read_html(page).blocks] == [due]
    text = "- Set it::\n\n    a:\n      b: 1\n\n  Then go.\n- Done\n"
    assert [block.text for block in read_rst(text).blocks] == [due]


def test_the_dashes_of_a_table_take_one_token_per_column() -> None:
    table = "| Role | May |\n| :-------- | ------------------: |\n| Owner | bypass -- SSO |"
    assert texts(f"# Roles\n\nThere are these:\n\n{table}\n") == [
        "There are these:\n\n| Role | May |\n| :- | -: |\n| Owner | bypass -- SSO |"
    ]


def test_html_in_markdown_is_read_as_a_page_is() -> None:
    text = '<script>\nlet a = 1\n</script>\n\n<div class="box">\n<h3>Good</h3>\n\nRead **this**.\n\n</div>\n'
    assert [(block.level, block.text) for block in read_markdown(text).blocks] == [(3, "Good"), (0, "Read **this**.")]


@pytest.mark.parametrize(
    ("title", "expected"), [("Fees - Handbook", "Fees"), ("Fees-Handbook", "Fees-Handbook"), ("Handbook", "Handbook")]
)
def test_the_name_of_a_site_is_no_part_of_a_title(title: str, expected: str) -> None:
    assert read_html(f"<title>{title}</title><h2>Fees</h2><p>A.</p><h2>Fines</h2><p>B.</p>").title == expected
