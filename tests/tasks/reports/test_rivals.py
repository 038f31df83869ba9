"""Ways to pass on less side by side: quality by budget, what a question takes, and every pair of them."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.evaluating import copied, run
from tests.support.reports import RIVALS, one, rivals, summaries, three
from tests.support.shared import indexed
from vitalfew.storage.costs import charge
from vitalfew.tasks.report import read_report, write_report
from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.plots.cost import spent_by_method
from vitalfew.tasks.reports.plots.quality import quality_by_budget, quality_by_price
from vitalfew.tasks.reports.shown import columns, grids
from vitalfew.tasks.reports.shown.notes import notes
from vitalfew.tasks.reports.shown.page import page
from vitalfew.tasks.reports.shown.tables import pair_table, wide_table


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_a_line_for_each_way_has_its_name_beside_it_once() -> None:
    plot = quality_by_budget(rivals())
    assert plot is not None
    assert sorted(each for each in texts(plot.svg) if each in RIVALS) == sorted(RIVALS)
    assert {"60", "120", "240", "480"} <= {*texts(plot.svg)}
    assert f"{len(RIVALS)} methods. On the front: ParetoRAG 0.5" in plot.svg


def using(report: Report, name: str, tokens: float, accuracy: float = 0.9) -> Report:
    """The report, with a way to pass on less for which `tokens` are enough whatever its budget."""
    same = summaries(context_tokens=tokens, accuracy=accuracy)
    methods = (
        replace(own, summaries={**own.summaries, **same}) if own.budget and own.name.startswith(name) else own
        for own in report.methods
    )
    return replace(report, methods=tuple(methods))


def test_tables_show_the_tokens_used_beside_the_budget_and_files_the_number() -> None:
    report = using(rivals(("naive", "spans"), (120, 240, None)), "spans", 104.4)
    texts = [cell.text for cell in columns.cells(report, "context_tokens")]
    assert texts == ["120.0 of 120", "240.0 of 240", "90.0", "104.4 of 120", "104.4 of 240", "130.0"]
    assert wide_table(report)["context_tokens"].to_list() == [120, 240, 90, 104.4, 104.4, 130]
    rows, caption = [name for name, _ in grids.pairs(report).rows], grids.pairs(report).caption
    assert rows == ["spans max_tokens=240: 104.4 of 240 tokens", "naive max_tokens=240: 240.0 of 240 tokens"]
    assert "the tokens of its contexts, mean per question, of its budget" in caption
    assert pair_table(report).select("context_tokens", "other_context_tokens").rows() == [(240, 104.4)]


def test_budgets_that_change_nothing_are_one_point_with_one_name() -> None:
    report = using(rivals(RIVALS[:4]), "sentences", 52.0)
    plot = quality_by_budget(report)
    assert plot is not None
    assert plot.title == "Accuracy by the tokens used"
    assert plot.svg.count("sentences 0.900 with 52 tokens") == 1
    assert {"100", "200", "480", "budget (refine.max_tokens)"} <= {*texts(plot.svg)}
    plot = quality_by_price(report)
    assert plot is not None
    assert [each for each in texts(plot.svg) if each.startswith("sentences")] == ["sentences max_tokens=60"]
    assert any(each.startswith("tokens of the contexts") for each in texts(plot.svg))


def test_of_the_scale_of_budgets_only_what_is_in_sight_is_shown() -> None:
    report = using(using(rivals(RIVALS[:2], (60, 480)), RIVALS[0], 50.0), RIVALS[1], 62.0, 0.95)
    plot = quality_by_budget(report)
    assert plot is not None
    assert "480" not in texts(plot.svg)
    assert sum(each.isdigit() and 45 < int(each) < 65 for each in texts(plot.svg)) >= 3


def test_one_line_beside_a_method_without_a_budget_is_enough() -> None:
    report = rivals(RIVALS[:2])
    methods = tuple(own for own in report.methods if own.name.startswith(RIVALS[0]) or own.budget is None)
    plot = quality_by_budget(replace(report, methods=methods, pairs=()))
    assert plot is not None
    assert "2 methods. On the front:" in plot.svg


def test_names_do_not_lie_on_one_another() -> None:
    plot = quality_by_budget(rivals())
    assert plot is not None
    shown = re.findall(r'<text[^>]*\by="([\d.]+)"[^>]*>([^<]*)</text>', plot.svg)
    heights = sorted(float(y) for y, name in shown if name in RIVALS)
    assert len(heights) == len(RIVALS)
    assert min(lower - upper for upper, lower in pairwise(heights)) > 8


def test_without_a_line_of_budgets_beside_another_there_is_no_such_plot() -> None:
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
        "sure": {"refine": {"refiner": "spans", "stop": 0.01}},
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
    # Of three hits the first is enough for a refiner that wants but little of their probability.
    asked = report.asked.questions
    assert [method.stopped for method in report.methods] == [0] * 5 + [asked]
    assert any(line.startswith("Budgets (refine.max_tokens) and context tokens are words") for line in notes(report))
    assert f"Stopped early, sure enough of what was taken: sure in {asked} of {asked} questions." in notes(report)
