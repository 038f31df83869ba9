"""The index of the results says the figures of the pages and of the recorded runs, and fails where it cannot."""

from pathlib import Path

import pytest

from docs import results_index
from docs.results_index import Quoted, recorded

PAGE = """# Page
One way has **1.09** of
the speed (goal 1.0), another 2.5 of it.

| corpus | mode | recall |
|---|---|---|
| all | naive | 0.907 |
|  | `late` | **0.919** |
| NQ | naive | 0.934 |

## Facts
| corpus | mode | recall |
|---|---|---|
| all | naive | 0.100 |
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Quoted:
    (tmp_path / "page.md").write_text(PAGE)
    monkeypatch.setattr(results_index, "DOCS", tmp_path)
    return Quoted("page.md")


def test_a_cell_is_quoted_by_its_row_and_column(page: Quoted) -> None:
    assert page.cell("all", "recall") == "0.907"
    assert page.cell("all | `late`", "recall") == "0.919"
    assert page.cell("NQ", "mode") == "naive"
    assert page.cell("all", "recall", after="## Facts") == "0.100"


@pytest.mark.parametrize(
    ("row", "column", "after", "fault"),
    [
        ("al", "recall", "", "no table with the column 'recall' and a row 'al'"),
        ("all", "accuracy", "", "no table with the column 'accuracy'"),
        ("NQ", "recall", "## Facts", "a row 'NQ'"),
        ("all", "recall", "## Figures", "does not say '## Figures'"),
    ],
)
def test_a_cell_that_is_not_there_is_an_error(page: Quoted, row: str, column: str, after: str, fault: str) -> None:
    with pytest.raises(LookupError, match=fault):
        page.cell(row, column, after)


def test_a_figure_of_a_sentence_is_quoted_across_lines(page: Quoted) -> None:
    assert page.said("has **{}** of the speed (goal") == "1.09"
    with pytest.raises(LookupError, match="0 times"):
        page.said("third has {} of the speed")
    with pytest.raises(LookupError, match="3 times"):
        page.said("| {} |")


def test_every_page_of_results_has_a_line() -> None:
    index = "\n".join(results_index.lines())
    pages = {path.name for path in (results_index.DOCS / "results").glob("*.md")} - {"index.md"}
    assert not {name for name in pages if f"]({name})" not in index}


def test_a_recorded_figure_stands_with_its_interval() -> None:
    exact = recorded("paretorag/table1_here", "nq-own-exact", "ParetoRAG", "accuracy", "naive RAG, equal tokens")
    assert exact == "-0.107 (-0.153 to -0.060)"
    with pytest.raises(LookupError, match="no accuracy of ParetoRAG minus nobody for paretorag/table1_here on nq"):
        recorded("paretorag/table1_here", "nq", "ParetoRAG", "accuracy", "nobody")
