"""Every block of Python in the documentation's page runs, in its order, on the files of a user."""

import re
from pathlib import Path

import pytest

from tests.support.documents import ROOT
from tests.support.own_files import write_own_files

PAGE = ROOT / "docs" / "how_to" / "python.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_every_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write_own_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 7
    session: dict[str, object] = {}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{PAGE.name}, block {number}", "exec"), session)
    printed = capsys.readouterr().out
    assert "A trip abroad needs the word of the director" in printed
    assert "naive RAG" in printed  # the report's table
