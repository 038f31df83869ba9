"""Small files of the kinds that people have, written for the golden tests: documents, languages, questions, judgements.

What the product makes of them stands in `expected/`. The comments say what a case is about.
"""

import json
import unicodedata
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

# Words around <br>, cells and nested blocks stay apart.
KIOSK = """<!doctype html><html><head><title>Kiosk</title><style>p { color: red }</style></head><body>
<nav><a href="/">Home</a></nav><main><h1>Kiosk<br>and stall</h1>
<p>Open from May<br>to September<br/>every day</p>
<table><tr><th>Size</th><th>Price</th></tr><tr><td>Small</td><td><p>2</p><p>5</p></td></tr>
<tr><td>Large<br>cup</td><td><ul><li>milk</li><li>sugar</li></ul></td></tr></table>
<dl><dt>Keeper</dt><dd>Olaf Brandt</dd></dl>
<ul><li><p>Bring coins</p><p>Return the cup</p></li><li>No dogs</li></ul>
<p>The tank holds 10<sup>3</sup> litres of H<sub>2</sub>O.</p></main></body></html>"""
# A page in a form, with an aside and an accordion.
FORM = """<!doctype html><html><head><title>Permit</title></head><body><form><h1>Permit</h1>
<p>The permit costs nine crowns.</p><aside>It is valid for a year.</aside>
<h2><button>Where is it sold?</button></h2><div hidden>At the harbour.</div></form></body></html>"""
# Keywords find "fifteen", "official", "entrepreneur" and "percent" as they are usually written.
GLYPHS = """# Fees

The of\ufb01cial fee is \ufb01fteen crowns. The entre\u00adpre\u00adneur pays two\u00a0per\u200bcent.
\u201cNo refund\u201d, says the clerk\u2019s sign. \uff26\uff55\uff4c\uff4c width costs _more_ than **less**.
"""
HASH = "# Ada#\n\nA comment of Ada# begins with two dashes.\n\n## Loops\n\nA loop of Ada# ends with the word end.\n"
TICKET = "# Ticket\n\nTicket {number} is about the {part}.\n"
# MDX: no imports, remarks, tags and fences.
MDX = """---
title: Ferry
team: harbour
---
import { Card } from '../parts'
export const seats = 40

# Ferry

{/* a remark that nobody should read */}

The ferry has {seats} seats.

## Bicycles

<Card title="Bicycles">

A bicycle travels free of charge.

</Card>

:::tip
Come early in August.
:::
"""
# TOML front matter; YAML with a colon in a title, which is kept and is a reject.
TOML = '+++\ntitle = "Tides"\nteam = "harbour"\n+++\n\n# Tides\n\nThe tide is high at noon.\n'
COLON = "---\ntitle: Tolls: half price\nteam: harbour\n---\n\n# Tolls\n\nChildren pay half.\n"
FENCES = (
    "# Lock\n\n!!! note\n    The lock closes at ten.\n\n/// warning\nKeep off the gate.\n///\n\n{{#include more.md}}\n"
)
# What follows an admonition is not below it; caption, rubric and attribution are text.
RST = """Buoys
=====

A buoy marks the channel.

.. note:: Green is to starboard.

The colours change at night.

.. warning::

   Do not moor at a buoy.

.. rubric:: History

.. figure:: buoy.png

   The oldest buoy, of 1911.

Repairs
-------

    Paint it each spring.

    -- The harbour master

A :term:`sinker` holds it, with a mass of :math:`m = 3`.
"""
# UTF-16 by its mark; a page by its declared charset.
UTF16 = "# Anchor\n\nThe anchor weighs fifty kilograms.\n"
LATIN = """<!doctype html><html><head><meta charset="iso-8859-1"><title>Pier</title></head>
<body><p>The p\u00e9age is free.</p></body></html>"""
# A text without full stops.
LONG = "# Register\n\n" + " ".join(
    f"box {number} holds {('rope', 'tar', 'sailcloth', 'lamps')[number % 4]} and its key is {number * 37 % 1000:03}"
    for number in range(1, 61)
)  # fmt: skip
SAME = "# Rules\n\nNobody swims in the basin.\n"
CAFE = "# Caf\u00e9 Z\u00fcrich\n\nThe caf\u00e9 is kept by Se\u00f1ora Ib\u00e1\u00f1ez.\n"


def write_documents(folder: Path) -> Path:
    """A folder of small odd documents."""
    written: Mapping[str, str] = {
        "kiosk.html": KIOSK,
        "permit.html": FORM,
        "fees.md": GLYPHS,
        "Ada#.md": HASH,
        "Ticket #1.md": TICKET.format(number=1, part="rudder"),
        "Ticket #2.md": TICKET.format(number=2, part="mast"),
        "ferry.mdx": MDX,
        "tides.md": TOML,
        "tolls.md": COLON,
        "lock.md": FENCES,
        "buoys.rst": RST,
        "register.md": LONG,
        "rules/a.md": SAME,
        "rules/b.md": SAME,
        unicodedata.normalize("NFC", "Caf\u00e9.md"): unicodedata.normalize("NFD", CAFE),
    }
    for name, text in written.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "anchor.md").write_text(UTF16, encoding="utf-16")
    (folder / "pier.html").write_text(LATIN, encoding="iso-8859-1")
    (folder / "crew.docx").write_bytes(_docx())
    return folder


def _docx() -> bytes:
    """A document with a heading, a line break, and a table with two paragraphs in a cell."""

    def paragraph(content: str, style: str = "") -> str:
        chosen = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
        return f"<w:p>{chosen}<w:r>{content}</w:r></w:p>"

    cells = paragraph("<w:t>Deck</w:t>"), paragraph("<w:t>Ann Bell</w:t>") + paragraph("<w:t>Cem Dag</w:t>")
    row = "".join(f"<w:tc>{cell}</w:tc>" for cell in cells)
    title = paragraph("<w:t>Crew</w:t>", "Heading1")
    body = (
        f"{title}{paragraph('<w:t>The crew has</w:t><w:br/><w:t>six people.</w:t>')}<w:tbl><w:tr>{row}</w:tr></w:tbl>"
    )
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    content = BytesIO()
    with ZipFile(content, "w") as archive:
        archive.writestr("word/document.xml", f"<w:document {space}><w:body>{body}</w:body></w:document>")
    return content.getvalue()


LANGUAGES = {
    "zh": ("码头", "码头早上六点开门。渡船每小时一班。船票在岸边买！狗可以上船吗？可以。"),
    "ja": ("灯台", "灯台は岬にあります。夜は青く光ります。「登ってもいいですか？」と子供が聞きました。"),
    "hi": ("नाव", "नाव सुबह चलती है। टिकट पाँच रुपये का है। क्या बच्चे मुफ़्त हैं? हाँ।"),
    "ar": ("الميناء", "يفتح الميناء في السادسة. هل القارب كبير؟ نعم، يحمل أربعين راكبًا."),
    "th": ("ท่าเรือ", "เรือออกทุกชั่วโมง ตั๋วราคาสิบบาท เด็กขึ้นฟรี"),
    "hy": ("Նավ", "Նավը մեկնում է կեսօրին։ Տոմսը էժան է։"),
    "de": ("Hafen", "Der Hafen öffnet um 6.30 Uhr. Dr. Weiß leitet ihn z. B. im Sommer. Am 3. Mai ist er geschlossen."),
    "en": (
        "Harbour",
        '"The sea is calm." said the pilot. He came at 6 P.M. Mr. Lowe met him. It cost Rs. 3520 in all. '
        "There are two ways: 1.) by boat 2.) on foot.",
    ),
}


def write_languages(path: Path) -> Path:
    """A passage in each of eight languages; Chinese, Japanese, Hindi, Arabic, Armenian have 4 or 5, 3, 4, 3, 2."""
    return _lines(path, ({"id": name, "title": title, "text": text} for name, (title, text) in LANGUAGES.items()))


NAME = "Se\u00f1ora Ib\u00e1\u00f1ez"
QUESTIONS: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("cells", "Who keeps the kiosk?", {"answers": ["Olaf Brandt"], "source": "kiosk.html"}),
    ("br", "When is the kiosk open?", {"answers": ["May"], "quote": "Open from May to September every day"}),
    ("ligature", "What is the fee?", {"answers": ["fifteen crowns"], "quote": "The official fee is fifteen"}),
    ("emphasis", "What costs more than less?", {"answers": ["full width"], "quote": "costs more than less"}),
    ("nfc", "Who keeps the cafe?", {"answers": [NAME], "source": "Caf\u00e9.md"}),
    ("nfd", "Who keeps the cafe in Zurich?", {"answers": [NAME], "source": "Cafe\u0301.md"}),
    ("nfc quote", "Who is the cafe kept by?", {"answers": [NAME], "quote": "The caf\u00e9 is kept by"}),
    ("hash", "How does a comment of Ada# begin?", {"answers": ["two dashes"], "source": "Ada#.md"}),
    ("hash heading", "How does a loop end?", {"answers": ["end"], "source": "Ada#.md#loops"}),
    ("hash number", "Which ticket is about the mast?", {"answers": ["2"], "source": "Ticket #2.md"}),
    ("same text", "Who swims in the basin?", {"answers": ["Nobody"], "source": "rules/b.md"}),
    ("number", "How many seats has the ferry?", {"answers": 40, "source": "ferry.mdx"}),
    ("numbers", "What is the number of seats?", {"answers": [40, "forty"], "source": "ferry.mdx"}),
    ("true", "Do children pay half?", {"answers": True, "source": "tolls.md"}),
    ("list", "Who has the deck?", {"answers": "['Ann Bell', 'Cem Dag']", "source": "crew.docx"}),
    ("json", "Who is on deck?", {"answers": '["Ann Bell", "Cem Dag"]', "source": "crew.docx"}),
    ("squad", "When is the tide high?", {"answers": {"text": ["noon"], "answer_start": [21]}}),
    ("null", "When does the lock close?", {"answers": ["ten", None], "source": "lock.md"}),
    ("answer", "What marks the channel?", {"answer": "A buoy", "source": "buoys.rst"}),
    ("nowhere", "What does the anchor weigh?", {"answers": ["fifty"], "source": "anchor.md"}),
)
"""Kinds of answers and of gold places; what is not understood is rejected."""


def write_questions(path: Path) -> Path:
    """A file of questions on the documents."""
    return _lines(path, ({"id": name, "question": question, **more} for name, question, more in QUESTIONS))


JUDGED_DOCUMENTS = {
    "pro-ships": "Ships should pay for the harbour, because they use it.",
    "con-ships": "The harbour should be free for ships, because they bring trade.",
    "near": "How long is a licence valid? People often ask how long a licence is valid.",
    "full": "A licence is valid for six years from its date.",
    "none": "The quay has eleven cranes.",
    "same-1": "The form goes to the pilot.",
    "same-2": "The form goes to the pilot.",
    "tie-0": "Amber basalt cobalt dolomite emerald.",
    "tie-1": "Basalt cobalt dolomite emerald amber.",
    "tie-2": "Cobalt dolomite emerald amber basalt.",
    "tie-3": "Dolomite emerald amber basalt cobalt.",
}
JUDGED_QUESTIONS = {
    "pro-ships": "Ships should pay for the harbour, because they use it.",
    "graded": "How long is a licence valid?",
    "same": "Who gets the form?",
    "ties": "amber cobalt emerald",
}
JUDGEMENTS = (
    ("pro-ships", "con-ships", 1), ("graded", "near", 1), ("graded", "full", 2), ("graded", "none", 0),
    ("same", "same-2", 1), ("ties", "tie-2", 1),
)  # fmt: skip


def write_judged(folder: Path) -> Path:
    """A corpus as BEIR lays it out: a question that is a document, grades, one text under two ids, equal scores."""
    (folder / "qrels").mkdir(parents=True)
    _lines(
        folder / "corpus.jsonl", ({"_id": name, "title": "", "text": text} for name, text in JUDGED_DOCUMENTS.items())
    )
    _lines(folder / "queries.jsonl", ({"_id": name, "text": text} for name, text in JUDGED_QUESTIONS.items()))
    judged = "".join("\t".join(map(str, row)) + "\n" for row in JUDGEMENTS)
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return folder


STOP = {
    "play": ("The play", "To be or not to be, that is what he asked."),
    "boat": ("The boat", "The boat was painted red in spring."),
    "net": ("The net", "Nets are dried on the wall of the yard."),
}


def write_stop_words(path: Path) -> Path:
    """Three passages, of which one has hardly a word that is no stop word."""
    return _lines(path, ({"id": name, "title": title, "text": text} for name, (title, text) in STOP.items()))


def _lines(path: Path, found: Iterable[Mapping[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found), encoding="utf-8")
    return path
