"""Ways to pass on less side by side: quality by budget, what a question takes, and every pair of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.evaluating import copied, run
from tests.support.reports import RIVALS, rivals
from tests.support.shared import indexed
from vitalfew.tasks.report import read_report, write_report
from vitalfew.tasks.reports.shown import grids
from vitalfew.tasks.reports.shown.page import page


def test_every_pair_is_in_the_table_in_both_directions() -> None:
    report = rivals()
    table = grids.pairs(report)
    assert len(table.rows) == len(RIVALS)
    assert all(len(cells) == len(RIVALS) for _, cells in table.rows)
    for row, (_, cells) in enumerate(table.rows):
        assert cells[row].text == "–"
        for column, cell in enumerate(cells):
            other = table.rows[column][1][row]
            assert cell.text.strip("+-") == other.text.strip("+-")
            assert (cell.best, cell.alike) == (other.best, other.alike)
    assert "corrected (Holm) over all 91 pairs" in table.caption
    assert "All pairs" in page(rivals(RIVALS[:3]))
    assert grids.pairs(replace(report, pairs=())).rows == []


def test_the_pairs_of_a_run_are_those_of_its_methods_with_the_settings(tmp_path: Path) -> None:
    store = copied(indexed(), tmp_path / "store")
    methods = {
        "cut": {"refine": {"max_tokens": [8, 16]}},
        "reranked": {"refine": {"refiner": "rerank", "max_tokens": [8, 16]}},
        "all": {},
    }
    outcome = run(
        store,
        {
            "index": "test",
            "retrieve": {"retriever": "passage", "top_k": 3},
            "generate": {"generator": "tests.support.fakes:FirstWords"},
            "score": {"metrics": ["f1", "compression", "tokens"]},
            "primary": "f1",
            "pairwise": {"refine.max_tokens": 16},
            "methods": methods,
        },
    )
    report = read_report(store, outcome.run)
    names = [report.methods[place].name for pair in report.pairs for place in (pair.one, pair.other)]
    assert names == ["cut max_tokens=16", "reranked max_tokens=16"]
    [pair] = report.pairs
    means = [report.measures(report.methods[place])["f1"].value or 0.0 for place in (pair.one, pair.other)]
    assert pair.difference.mean_difference == pytest.approx(means[0] - means[1])
    assert pair.difference.p_holm == pair.difference.p
    written = write_report(store, report)
    head, line = (written.html.parent / "pairs.csv").read_text().replace('"', "").splitlines()
    assert head.startswith("method,other,metric,context_tokens,other_context_tokens,difference,")
    assert line.startswith("cut max_tokens=16,reranked max_tokens=16,f1,")
