"""Ways to pass on less side by side: quality by budget, what a question takes, and every pair of them."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.evaluating import copied, run
from tests.support.reports import RIVALS, one, rivals, three
from tests.support.shared import indexed
from vitalfew.storage.costs import charge
from vitalfew.tasks.report import read_report, write_report
from vitalfew.tasks.reports.plots.cost import spent_by_method
from vitalfew.tasks.reports.plots.quality import quality_by_budget
from vitalfew.tasks.reports.shown import grids
from vitalfew.tasks.reports.shown.page import page


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_a_line_for_each_way_has_its_name_beside_it_once() -> None:
    plot = quality_by_budget(rivals())
    assert plot is not None
    assert sorted(each for each in texts(plot.svg) if each in RIVALS) == sorted(RIVALS)
    assert {"60", "120", "240", "480"} <= {*texts(plot.svg)}
    assert f"{len(RIVALS)} methods. On the front: ParetoRAG 0.5" in plot.svg


def test_names_do_not_lie_on_one_another() -> None:
    plot = quality_by_budget(rivals())
    assert plot is not None
    shown = re.findall(r'<text[^>]*\by="([\d.]+)"[^>]*>([^<]*)</text>', plot.svg)
    heights = sorted(float(y) for y, name in shown if name in RIVALS)
    assert len(heights) == len(RIVALS)
    assert min(lower - upper for upper, lower in pairwise(heights)) > 8


def test_without_two_lines_of_budgets_there_is_no_such_plot() -> None:
    assert quality_by_budget(rivals(RIVALS[:1])) is None
    assert quality_by_budget(rivals(budgets=(60, None))) is None
    assert quality_by_budget(three()) is None
    assert spent_by_method(one()) is None


def test_what_a_question_takes_is_that_of_refining_and_answering() -> None:
    report = rivals()
    plot = spent_by_method(report)
    assert plot is not None
    # Of the methods that are compared with one another; the generator keeps 1.2 processors busy (reports.costs).
    usd = charge(1000 * (0.2 * 3 + 1.2 * 0.05), 0, 0)
    assert f"sentences max_tokens=120: 0.35 s, {usd:.3g} USD" in plot.svg
    assert "max_tokens=60" not in plot.svg


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
    assert "cut max_tokens=16,reranked max_tokens=16" in (written.html.parent / "pairs.csv").read_text().replace(
        '"', ""
    )
