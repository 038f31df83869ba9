"""Golden: passages, sentences and rejects of small odd documents."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import vitalfew as vf
from tests.golden.stores import lines, odd, rows
from vitalfew.flows.cli.main import app

SHOWN = {
    "passages": "SELECT source_id, title, metadata, text FROM passages WHERE index = 'documents' "
    "AND source_id NOT LIKE 'register%' ORDER BY ALL",
    "sentences": "SELECT source_id, position, sentences.text FROM sentences JOIN passages USING (passage_id) "
    "WHERE sentences.index = 'documents' AND passages.index = 'documents' AND source_id NOT LIKE 'register%' "
    "ORDER BY ALL",
    "rejects": "SELECT \"offset\", reason, detail FROM rejects WHERE index = 'documents' ORDER BY ALL",
    "long": "SELECT source_id, length(text), left(text, 40), right(text, 40) FROM passages "
    "WHERE index = 'documents' AND source_id LIKE 'register%' ORDER BY text",
}
WORDS = (
    "fifteen",
    "official",
    "entrepreneur",
    "percent",
    "full width",
    "Café Zürich",
    "Cafe\u0301 Zu\u0308rich",
    "Ada#",
)


@pytest.mark.parametrize("name", SHOWN)
def test_rows(golden: Callable[[str, str], None], name: str) -> None:
    golden(f"documents/{name}.txt", lines(rows(_store(), SHOWN[name])))


def test_keywords(golden: Callable[[str, str], None]) -> None:
    index, text = _store().index("documents"), ""
    for word in WORDS:
        hits = index.search(word, top_k=2, retriever="bm25", settings={"unit": "passage"})
        text += f"# {word}\n" + lines((hit.rank, hit.score, hit.source_id) for hit in hits)
    golden("documents/keywords.txt", text)


@pytest.mark.parametrize("kind", ["number", "sexagesimal"])
def test_bad_front_matter(golden: Callable[[str, str], None], kind: str, tmp_path: Path) -> None:
    """A number as a key, and 1:1:1…, in the front matter of one file of two. Wrong: each ends the whole run."""
    front = {"number": "1: one\nteam: harbour", "sexagesimal": "when: " + ":".join(["1"] * 3000)}[kind]
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "bad.md").write_text(f"---\n{front}\n---\n\n# Bad\n\nThis text is good.\n")
    (tmp_path / "folder" / "good.md").write_text("# Good\n\nThis one is good too.\n")
    words = ["index", f"folder:{tmp_path / 'folder'}", "--name", "one", "--store", str(tmp_path / "store")]
    result = CliRunner().invoke(app, [*words, "--runner", "serial", "--set", "encode.precision=fp32"])
    text = f"exit code {result.exit_code}\n"
    if result.exception and not isinstance(result.exception, SystemExit):
        text += f"a traceback of {type(result.exception).__name__}\n"
    else:
        text += " ".join(result.output.partition("Error")[2].replace(str(tmp_path), "").split()) + "\n"
    if result.exit_code == 0:
        store = vf.Store(tmp_path / "store", progress=False)
        text += lines(rows(store, "SELECT source_id, title, metadata, text FROM passages ORDER BY ALL"))
        text += lines(rows(store, "SELECT reason, detail FROM rejects ORDER BY ALL"))
    golden(f"documents/front_matter_{kind}.txt", text)


def _store() -> vf.Store:
    return vf.Store(odd() / "store", progress=False)
