"""The method to begin with: what people ask chooses it, and sentences with a gap only where they speak against it."""

from dataclasses import replace

import pytest

from tests.support import reports
from vitalfew.tasks.reports.beginning import beginning
from vitalfew.tasks.reports.contents import AskedQuestions, MethodResult, Report
from vitalfew.tasks.reports.recommendation import GAPPED, recommendation, recommended
from vitalfew.tasks.reports.statistics.paired import Difference


def of(mean: float, p: float, questions: int = 200, gapped: int = 200) -> Report:
    """naive RAG, and spans with a difference to it."""
    better = max(1, round(questions * abs(mean)))
    own = Difference(mean, mean - 0.05, mean + 0.05, p, 0.3, None, questions, better, 0, questions - better, p)
    naive = MethodResult("naive RAG", {}, reports.summaries(accuracy=0.5, prompt_tokens=300.0))
    spans = MethodResult(
        "spans", {}, reports.summaries(accuracy=0.5 + mean, prompt_tokens=200.0), differences={"accuracy": own}
    )
    return reports.report(naive, spans, asked=AskedQuestions(questions, "written:handbook", gapped=gapped))


def test_a_lead_by_sentences_with_a_gap_is_not_a_proof() -> None:
    begin = beginning(of(0.2, 0.001), is_written=True)
    assert (begin.method, begin.is_chosen) == ("spans", True)
    assert "So this lead is not a proof" in " ".join(begin.why)
    assert "0.700 of 200 questions" in begin.why[0]
    assert recommendation(of(0.2, 0.001)).startswith(f"{GAPPED} By them alone: take spans: shown to be better")


@pytest.mark.parametrize(("mean", "p"), [(0.01, 0.8), (-0.1, 0.001), (0.0, 1.0)])
def test_what_is_not_ahead_though_the_questions_favour_it_is_not_taken(mean: float, p: float) -> None:
    begin = beginning(of(mean, p), is_written=True)
    assert (begin.method, begin.is_chosen) == ("naive RAG", True)
    assert "Even so spans is not shown to be ahead" in begin.why[-1]


@pytest.mark.parametrize("gapped", [0, 12])
def test_too_few_questions_choose_nothing(gapped: int) -> None:
    begin = beginning(of(0.3, 0.001, questions=12, gapped=gapped), is_written=bool(gapped))
    assert not begin.is_chosen
    assert "too few" in " ".join(begin.why)
    assert "Until they are enough, spans is named for what was measured on other corpora" in begin.why[-1]


def test_questions_of_people_choose_what_the_report_recommends() -> None:
    report = of(0.2, 0.001, gapped=0)
    begin = beginning(report, is_written=False)
    assert begin.why == (recommendation(report),)
    assert begin.why[0].startswith("Take spans")
    assert recommended(report) is report.methods[1]
    assert "docs/results/written_questions.md" in beginning(report, is_written=True).why[-1]
    assert beginning(of(-0.3, 0.001, gapped=0), is_written=False).method == "naive RAG"
    assert beginning(of(0.0, 0.9, gapped=0), is_written=False).method == "spans"  # with fewer tokens
    few_gaps = replace(report, asked=replace(report.asked, gapped=99))
    assert recommendation(few_gaps) == recommendation(report)
