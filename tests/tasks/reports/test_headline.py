"""The sentences that a report begins with."""

from dataclasses import replace

from tests.support import reports
from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.shown.markdown import markdown_report
from vitalfew.tasks.reports.shown.notes import MOST, headline
from vitalfew.tasks.reports.shown.page import page
from vitalfew.tasks.reports.statistics.paired import Difference


def compared(report: Report, low: float | None, high: float | None, p: float | None) -> Report:
    """The report with one and the same difference in accuracy of every method that has a baseline."""
    difference = Difference(-0.018, low, high, p, 0.4, -0.05, 112, 9, 11, 92, p)
    methods = [
        method if method.against is None else replace(method, differences={"accuracy": difference})
        for method in report.methods
    ]
    return replace(report, methods=tuple(methods))


def pair() -> Report:
    _, naive, ours, _ = reports.three().methods
    return reports.report(replace(naive, against=None), ours)


def test_a_method_has_its_quality_its_certainty_and_its_price() -> None:
    (line,) = headline(compared(pair(), -0.116, 0.08, 0.7))
    assert line == (
        "ParetoRAG top-10: accuracy 0.527, -0.018 against naive top-10 (-0.116 to +0.080, not distinguishable at "
        "n = 112: corrected p = 0.70); 468.0 prompt tokens, 32 % of naive top-10's."
    )


def test_what_was_used_of_a_budget_stands_before_the_price() -> None:
    report = compared(pair(), -0.116, 0.08, 0.7)
    naive, ours = report.methods
    ours = replace(ours, budget=120, summaries={**ours.summaries, **reports.summaries(context_tokens=104.4)})
    (line,) = headline(replace(report, methods=(naive, ours)))
    assert line.endswith("; used 104.4 of 120 context tokens; 468.0 prompt tokens, 32 % of naive top-10's.")


def test_a_significant_difference_is_its_interval_alone() -> None:
    (line,) = headline(compared(pair(), -0.03, -0.01, 0.001))
    assert "(-0.030 to -0.010)" in line


def test_too_few_questions_have_no_sentence() -> None:
    assert headline(compared(pair(), None, None, None)) == []
    assert headline(reports.one()) == []


def test_of_a_grid_the_front_has_sentences_the_best_first() -> None:
    report = compared(reports.grid(), -0.1, 0.1, 0.9)
    lines = headline(report)
    assert 0 < len(lines) <= MOST
    accuracies = [float(line.split("accuracy ")[1].split(",")[0]) for line in lines]
    assert accuracies == sorted(accuracies, reverse=True)


def test_the_page_and_the_markdown_begin_with_them() -> None:
    report = compared(pair(), -0.116, 0.08, 0.7)
    text = page(report)
    assert text.index("not distinguishable at n = 112") < text.index("<table>")
    text = markdown_report(report)
    assert text.index("not distinguishable at n = 112") < text.index("| method")
