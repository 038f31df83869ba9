"""docs/papers.md has a row for every table that configs/papers has the cells of."""

import re

import pytest

from tests.support.documents import ROOT
from vitalfew.tasks.reports.papers import FOLDER, paper_of


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_every_printed_table_has_its_row(name: str) -> None:
    paper = paper_of(f"{name}/any")
    assert paper
    title = paper.paper.partition(" (")[0]
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| ((?:tables?|Quade)\b.*?)[:|]", section, re.MULTILINE)
    listed = {number for row in rows for number in re.findall(r"\d+|Quade", row)}
    for table, printed in paper.tables.items():
        assert re.findall(r"\d+|Quade", table)[0] in listed, table
        assert all(len(cells) == len(printed["columns"]) for cells in printed["rows"].values()), table
