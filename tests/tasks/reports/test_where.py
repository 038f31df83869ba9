"""Where a method pays: the experiment `paretorag/when`, its groups of questions and its plot."""

from pathlib import Path

from tests.support.evaluating import evaluated
from tests.support.indexing import index
from vitalfew.flows.pipelines.experiments import evaluation, find
from vitalfew.tasks.report import read_report
from vitalfew.tasks.reports.plots.differences import where_it_pays
from vitalfew.tasks.reports.plots.list import drawn


def test_differences_are_told_by_what_questions_are_like(tmp_path: Path) -> None:
    index(tmp_path, "synthetic:passages=120,questions=60,seed=3")
    fake = {"generate": {"generator": "tests.support.fakes:FirstWords"}}
    given = {"store": tmp_path, "runner": "serial", "index": "test", **fake}
    report = read_report(tmp_path, evaluated(evaluation(*find("paretorag/when"), given)).run)
    assert report.baseline() == "naive RAG, equal tokens"
    compared = {method.name: method.differences["accuracy"] for method in report.methods if method.against is not None}
    assert {each.method for each in report.among} == compared.keys()
    for condition in {each.condition for each in report.among}:
        for method, whole in compared.items():
            rows = [each for each in report.among if (each.condition, each.method) == (condition, method)]
            assert sum(row.difference.questions for row in rows) <= whole.questions
            assert all(row.low <= row.high for row in rows)
    words = [each for each in report.among if each.condition == "gold_words" and each.method == "ParetoRAG"]
    assert [row.low for row in words] == sorted(row.low for row in words)
    assert len(words) == 3
    plot = where_it_pays(report)
    assert plot is not None
    assert plot in drawn(report)
    assert "words of a gold passage" in plot.svg
    shown = {each.condition for each in report.among}
    assert shown >= {"question_overlap", "gold_rank", "margin"}
