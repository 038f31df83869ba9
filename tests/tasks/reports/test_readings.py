"""Retrieval against reader, and the questions on which methods differ."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support import reports
from tests.support.evaluating import copied, evaluated, parameters, searchable
from tests.support.indexing import sql
from vitalfew.tasks.report import read_report
from vitalfew.tasks.reports.contents import Answered, Differing, DifferingQuestion, MethodResult, ReaderCounts, Report
from vitalfew.tasks.reports.differing import METHODS, SHOWN
from vitalfew.tasks.reports.readings import reading, sentences, warning
from vitalfew.tasks.reports.runs import QuestionScores
from vitalfew.tasks.reports.shown.markdown import markdown_report
from vitalfew.tasks.reports.shown.notes import differing
from vitalfew.tasks.reports.shown.page import page

NAN = float("nan")


def scores(**values: list[float]) -> QuestionScores:
    named = {name.replace("_at_", "@"): np.array(own) for name, own in values.items()}
    return QuestionScores(np.arange(len(next(iter(named.values())))), named)


def test_the_answer_is_there_or_not_and_read_or_not() -> None:
    found = {"answer_recall_at_1": [0.0, 0.0, 0.0, 1.0, NAN], "answer_recall_at_10": [1.0, 1.0, 0.0, 1.0, NAN]}
    asked = scores(accuracy=[1.0, 0.0, 1.0, 0.0, NAN], contexts=[10.0] * 5, **found)
    assert reading(asked, 40) == ReaderCounts(4, 3, 1, "the first 10 hits", whole=True)
    assert reading(asked, 5) == ReaderCounts(4, 3, 1, "the first 5 hits")
    assert reading(asked, 5, "sentence") == ReaderCounts(4, 3, 1, "the first 5 sentences")
    cut = scores(accuracy=[1.0, 0.0, 1.0, 0.0, NAN], contexts=[3.0] * 5, **found)
    assert reading(cut, 40) == ReaderCounts(4, 3, 1, "the first 10 hits", whole=False)


def test_contexts_that_were_scored_count_before_hits() -> None:
    asked = scores(accuracy=[1.0, 0.0], answer_recall_at_10=[1.0, 1.0], first_rank_missing=[0.0, 1.0])
    assert reading(asked, 5) == ReaderCounts(2, 1, 1, "the contexts")
    kept = scores(accuracy=[1.0, 0.0, 0.0], answer_kept=[1.0, 0.0, NAN])
    assert reading(kept, 5) == ReaderCounts(3, 1, 1, "the contexts")
    assert reading(scores(accuracy=[1.0]), 5) is None
    assert reading(scores(answer_recall_at_10=[1.0]), 5) is None


def of(*counts: tuple[int, int, int], generators: tuple[str, ...] = ("reader", "reader")) -> Report:
    methods = (
        MethodResult(f"m{place}", {}, {}, reading=ReaderCounts(*own, "the first 10 hits"), generator=generator)
        for place, (own, generator) in enumerate(zip(counts, generators, strict=False))
    )
    return reports.report(*methods)


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        ((10, 9, 4), "of 9 of 10 questions and answered right in 4: the reader fails more (5 against 1)."),
        ((10, 4, 4), "of 4 of 10 questions and answered right in 4: retrieval fails more (6 against 0)."),
        ((10, 8, 6), "of 8 of 10 questions and answered right in 6: retrieval fails as often as the reader (2 and 2)."),
        ((1, 1, 1), "of 1 of 1 question and answered right in 1: neither fails."),
    ],
)
def test_a_sentence_says_which_of_the_two_fails(counts: tuple[int, int, int], verdict: str) -> None:
    assert sentences(of(counts)) == [f"m0: the answer was among the first 10 hits {verdict}"]


def test_one_generator_that_loses_most_is_a_warning() -> None:
    (line,) = warning(of((100, 90, 30), (100, 80, 39)))
    assert line == (
        "All methods answer with reader, which answers at most 39 of 80 questions right whose answer is among the "
        "first 10 hits (m1): a better generator would change more than a better method."
    )
    assert line in page(of((100, 90, 30), (100, 80, 39)), plots=[])
    assert warning(of((100, 90, 30), (100, 80, 40))) == []
    assert warning(of((100, 90, 30), (100, 80, 30), generators=("reader", "chat (smollm2)"))) == []
    assert warning(of((8, 7, 1), (8, 7, 1))) == []  # too few to say


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    store = copied(searchable(), tmp_path_factory.mktemp("differing") / "store")
    settings = {
        "index": "test",
        "questions": {"batch": 20},
        "generate": {"generator": "tests.support.fakes:FirstWords"},
        "primary": "passage_recall@1",
        "methods": {
            "naive": {"retrieve": {"retriever": "passage", "top_k": 5}},
            **{f"bm25 {k}": {"retrieve": {"retriever": "bm25", "top_k": k}} for k in range(1, METHODS + 1)},
        },
    }
    return store, read_report(store, evaluated(parameters(store, settings)).run)


def test_the_questions_on_which_methods_differ_are_a_handful(made: tuple[Path, Report]) -> None:
    store, report = made
    found = report.differing
    assert found is not None
    assert 0 < len(found.shown) <= SHOWN
    assert found.count >= len(found.shown)
    assert found.questions == 45
    assert len(found.methods) == METHODS
    assert found.methods[0] == "naive"
    for each in found.shown:
        values = [own.value for own in each.answered]
        assert max(values) > min(values)
        assert [own.method for own in each.answered] == list(found.methods)
        for own in each.answered[:1]:
            ((value, text, contexts),) = sql(
                store,
                "SELECT value, candidates.text, (SELECT count(*) FROM evidence JOIN methods AS e USING (fingerprint) "
                "WHERE e.method = m.method AND evidence.question_id = asked.question_id AND e.run_id = m.run_id) "
                "FROM scores JOIN methods AS m ON m.fingerprint = scores.fingerprint AND m.table_name = 'scores' "
                "JOIN asked ON asked.question_id = scores.question_id JOIN candidates ON "
                "candidates.question_id = asked.question_id JOIN methods AS c ON c.fingerprint = "
                "candidates.fingerprint AND c.method = m.method AND c.run_id = m.run_id "
                f"WHERE metric = 'passage_recall@1' AND m.method = '{own.method}' AND asked.text = '{each.question}' "
                "LIMIT 1",
            )
            assert own.value == pytest.approx(value)
            assert own.answers == (text,)
            assert own.contexts == contexts
            assert own.excerpt
            holds = any(answer.lower() in own.excerpt.lower() for answer in each.gold)
            assert holds or not own.holding


def test_they_are_in_the_page_and_in_the_markdown(made: tuple[Path, Report]) -> None:
    _, report = made
    text, marked = page(report, plots=[]), markdown_report(report)
    assert report.differing is not None
    count = len(report.differing.shown)
    assert differing(report).endswith(f"; the page shows {count} of them, with answers and evidence.")
    assert f"; {count} of them follow, with answers and evidence." in text
    assert "the page shows" not in text
    assert "## Questions on which methods differ" in marked
    assert f"<summary>{report.differing.shown[0].question}</summary>" in text


def test_of_many_long_texts_a_part_is_shown_and_markup_is_text() -> None:
    hostile = "<b>*x* | y</b>"
    answered = tuple(Answered(name, (hostile,), value, 3, 2, hostile) for name, value in (("a", 1.0), ("b", 0.0)))
    shown = (DifferingQuestion(f"Who {hostile}?", (hostile,), answered),)
    methods = (MethodResult(name, {}, reports.summaries(accuracy=0.5)) for name in "ab")
    report = replace(reports.report(*methods), differing=Differing(9, 1, ("a", "b"), shown), primary="accuracy")
    text = page(report, plots=[])
    assert "<b>*x*" not in text
    assert "✓" in text
    assert "number 2 of 3 contexts holds it" in text
    marked = markdown_report(report)
    assert "  - ✗ b: " in marked
    assert "<b>" not in marked.replace("\\<", "")
    assert "The answers of the methods differ in accuracy on 1 of 9 questions" in differing(report)
