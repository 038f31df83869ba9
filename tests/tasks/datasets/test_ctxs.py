"""The format `ctxs`: on real data, in both layouts, on bad rows and arbitrary ones."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.real_data import real_data
from tests.tasks.datasets.test_datasets import STRINGS, VALUES, check, only, read, write
from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import Passage, Question, Reject

CONTEXT = st.fixed_dictionaries({"text": STRINGS}, optional={"title": STRINGS, "id": STRINGS, "isgold": st.booleans()})
ROW = st.fixed_dictionaries(
    {"question": STRINGS, "ctxs": st.lists(CONTEXT | VALUES, max_size=3) | VALUES},
    optional={"answers": st.lists(STRINGS, max_size=2) | VALUES, "id": STRINGS | VALUES},
)


def lines(folder: Path, *rows: Any) -> Path:
    return write(folder, "".join(json.dumps(row) + "\n" for row in rows))


def row(*contexts: Any, **changes: Any) -> dict[str, Any]:
    return {"question": "who?", "answers": ["Ada"], "ctxs": list(contexts)} | changes


def test_every_question_of_nq_gold_has_its_gold_passage() -> None:
    records = read("ctxs", real_data("nq_gold/dev.jsonl"))
    check(records)
    passages, questions = only(Passage, records), only(Question, records)
    assert (len(passages), len(questions), only(Reject, records)) == (1300, 1300, [])
    assert all(len(question.gold_passages) == 1 and question.answers for question in questions)
    assert (passages[0].title, passages[0].source_id) == ("The Royal", "1#0")


def test_contexts_are_passages_and_the_gold_ones_are_named(tmp_path: Path) -> None:
    contexts = [
        {"id": "wiki:7", "title": "Ada", "text": " Ada lit it. ", "score": "1.2", "has_answer": True},
        {"title": "Oil", "text": "Oil burns.", "isgold": True},
    ]
    records = read("ctxs", lines(tmp_path, row(*contexts), row(contexts[0], id="q7", question="why?")))
    assert records == [
        (1, Passage("Ada", "Ada lit it.", "wiki:7")),
        (1, Passage("Oil", "Oil burns.", "1#1")),
        (1, Question("who?", ("Ada",), (passage_id("Oil burns."),))),
        (2, Passage("Ada", "Ada lit it.", "wiki:7")),
        (2, Question("why?", ("Ada",), source_id="q7")),
    ]


def test_answers_stand_where_dpr_and_self_rag_put_them(tmp_path: Path) -> None:
    places: list[dict[str, Any]] = [
        {"answers": ["a", "b", "a"]},
        {"possible_answers": '["a", "b"]'},
        {"golden_answers": ["a", "b"]},
        {"answer": "a"},
        {"output": ["a"]},
    ]
    records = read("ctxs", lines(tmp_path, *({"question": "who?", "ctxs": []} | place for place in places)))
    assert [question.answers for question in only(Question, records)] == [("a", "b")] * 3 + [("a",)] * 2


def test_the_part_at_fault_is_rejected(tmp_path: Path) -> None:
    faults: list[tuple[Any, list[type], str]] = [
        (1, [Reject], "a number (1) instead of an object"),
        ({"question": "who?"}, [Reject], "no 'ctxs'"),
        (row({"text": "a", "isgold": 1}), [Reject, Question], "ctxs[0]: 'isgold' is a number"),
        (row({"text": "a"}, question=""), [Passage, Reject], "question: 'question' is blank"),
        (row({"text": "", "isgold": True}, {"text": "a"}), [Reject, Passage, Reject], "ctxs[0]: 'text' is blank"),
    ]
    records = read("ctxs", write(tmp_path, [content for content, _, _ in faults]))
    for number, (_, kinds, detail) in enumerate(faults, start=1):
        assert [type(record) for offset, record in records if offset == number] == kinds
        assert next(r.detail for offset, r in records if offset == number and isinstance(r, Reject)).startswith(detail)
    assert records[-1][1] == Reject("no_gold_passage", "question: none of its 1 gold contexts could be read")


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(VALUES | ROW, max_size=4))
def test_both_layouts_give_the_same_records(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    folder = tmp_path_factory.getbasetemp()
    array = read("ctxs", write(folder, rows))
    check(array)
    assert {offset for offset, _ in array} == set(range(1, len(rows) + 1))
    if rows and isinstance(rows[0], dict):
        assert read("ctxs", lines(folder, *rows)) == array
