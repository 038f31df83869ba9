"""Retrieval against reader, and the questions on which methods differ."""

from pathlib import Path

import numpy as np

from tests.support import reports
from tests.support.evaluating import copied, evaluated, parameters, searchable
from vitalfew.tasks.report import read_report
from vitalfew.tasks.reports.contents import MethodResult, ReaderCounts
from vitalfew.tasks.reports.differing import METHODS, SHOWN, WRONG
from vitalfew.tasks.reports.readings import reading, sentences
from vitalfew.tasks.reports.runs import QuestionScores
from vitalfew.tasks.reports.shown.page import page

NAN = float("nan")


def scores(**values: list[float]) -> QuestionScores:
    named = {name.replace("_at_", "@"): np.array(own) for name, own in values.items()}
    return QuestionScores(np.arange(len(next(iter(named.values())))), named)


def test_the_answer_is_there_or_not_and_read_or_not() -> None:
    found = {"answer_recall_at_1": [0.0, 0.0, 0.0, 1.0, NAN], "answer_recall_at_10": [1.0, 1.0, 0.0, 1.0, NAN]}
    asked = scores(accuracy=[1.0, 0.0, 1.0, 0.0, NAN], contexts=[10.0] * 5, **found)
    assert reading(asked, 40) == ReaderCounts(4, 3, 1, "the first 10 hits", whole=True)
    assert reading(asked, 5, "sentence") == ReaderCounts(4, 3, 1, "the first 5 sentences")
    shown = scores(accuracy=[1.0, 0.0, 1.0, 0.0, NAN], answer_shown=[1.0, 1.0, 0.0, 0.0, NAN], **found)
    assert reading(shown, 40) == ReaderCounts(4, 2, 1, "the contexts", whole=True, dropped=1)
    refined = ReaderCounts(4, 2, 1, "the first 10 hits", whole=True, dropped=1)
    assert reading(shown, 40, is_refined=True) == refined  # question 3 was retrieved, and is not in the prompt
    cut = scores(accuracy=[1.0, 0.0, 1.0, 0.0, NAN], contexts=[3.0] * 5, **found)
    assert reading(cut, 40) == ReaderCounts(4, 3, 1, "the first 10 hits", whole=False)


def test_a_gold_answer_that_its_gold_text_does_not_have_is_no_miss_of_retrieval() -> None:
    asked = scores(
        accuracy=[1.0, 0.0, 0.0],
        answer_recall_at_10=[1.0, 0.0, 0.0],
        passage_recall_at_10=[1.0, 1.0, 0.0],
        f1=[1.0, 0, 0],
    )
    own = reading(asked, 10, "passage")
    assert own == ReaderCounts(3, 1, 1, "the first 10 passages", worded=1)
    # A sentence of the gold passage need not be the one that answers.
    assert reading(asked, 10, "sentence") == ReaderCounts(3, 1, 1, "the first 10 sentences")
    (said,) = sentences(reports.report(MethodResult("spans", {}, {}, reading=own)))
    assert "misses the answer to 1 of 3 questions" in said
    assert "; for 1 the gold text was found" in said


def test_the_questions_on_which_methods_differ_are_a_handful(tmp_path: Path) -> None:
    store = copied(searchable(), tmp_path / "store")
    settings = {
        "index": "test",
        "generate": {"generator": "tests.support.fakes:FirstWords"},
        "primary": "passage_recall@1",
        "methods": {
            "naive": {"retrieve": {"retriever": "passage", "top_k": 5}},
            **{f"bm25 {k}": {"retrieve": {"retriever": "bm25", "top_k": k}} for k in range(1, METHODS + 1)},
        },
    }
    report = read_report(store, evaluated(parameters(store, settings)).run)
    found = report.differing
    assert found is not None
    assert 0 < len(found.shown) <= min(SHOWN, found.count) + WRONG
    assert (found.questions, len(found.methods), found.methods[0]) == (45, METHODS, "naive")
    for each in found.shown:
        values = [own.value for own in each.answered]
        assert max(values) > min(values) or not any(values)
        assert [own.method for own in each.answered] == list(found.methods)
        for own in each.answered:
            holds = any(answer.lower() in own.excerpt.lower() for answer in each.gold)
            assert holds or not own.holding
    assert found.shown[0].question in page(report, plots=[])
