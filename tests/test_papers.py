"""The page of a paper has a row for every table that configs/papers has the cells of."""

import re

import pytest

from tests.support.documents import ROOT
from vitalfew.tasks.reports.papers import FOLDER, paper_of


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_every_printed_table_has_its_row(name: str) -> None:
    paper = paper_of(f"{name}/any")
    assert paper
    page = (ROOT / "docs" / "explanation" / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {paper.paper.partition(' (')[0]}\n")
    rows = re.findall(r"^\| ((?:tables?|Quade)\b.*?)[:|]", page, re.MULTILINE)
    listed = {number for row in rows for number in re.findall(r"\d+|Quade", row)}
    for table, printed in paper.tables.items():
        assert re.findall(r"\d+|Quade", table)[0] in listed, table
        assert all(len(cells) == len(printed["columns"]) for cells in printed["rows"].values()), table
