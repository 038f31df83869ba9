"""The retriever `run_file`: what was exported comes back, contexts keep their file's order, faults are named."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.evaluating import copied, run, values
from tests.support.indexing import index, sql
from tests.support.shared import indexed
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.report import read_report
from vitalfew.tasks.reports.shown.notes import failures, unscored
from vitalfew.tasks.reports.trec import write_run

SCORE = {"metrics": ["passage_recall", "mrr", "ndcg"], "k": [1, 5, 10]}


def read(file: Path, **retrieve: Any) -> dict[str, Any]:
    methods = {"read": {"retrieve": {"retriever": "run_file", "file": str(file), **retrieve}}}
    return {"index": "test", "generate": None, "methods": methods, "score": SCORE, "questions": {"batch": 4}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(indexed(), tmp_path_factory.mktemp("ranked") / "store")


@pytest.mark.parametrize("ids", ["source", "content"])
def test_what_was_exported_comes_back(store: Path, tmp_path: Path, ids: Any) -> None:
    searched = run(store, {**read(tmp_path), "methods": {"searched": {"retrieve": {"retriever": "passage"}}}})
    write_run(store, searched.run.run_id, None, tmp_path / "run", ids)
    again = run(store, read(tmp_path / "run"))
    assert values(store, again, "read") == values(store, searched, "searched")


def test_contexts_are_evaluated_as_they_were_retrieved(tmp_path: Path) -> None:
    contexts = [{"text": text, "isgold": text == "Ada lit it."} for text in ("Oil burns.", "Ada lit it.", "No.")]
    rows = [{"question": "who?", "answers": ["Ada"], "ctxs": contexts}, {"question": "why?", "ctxs": contexts[::-1]}]
    file = tmp_path / "ctxs.json"
    file.write_text(json.dumps(rows))
    index(tmp_path / "store", f"ctxs:{file}")
    found = run(tmp_path / "store", read(file, top_k=2))
    assert values(tmp_path / "store", found, "read")["mrr"] == 0.5
    hits = "SELECT q.text, h.rank, h.text FROM hits AS h JOIN asked AS q USING (question_id) ORDER BY ALL"
    assert sql(tmp_path / "store", hits) == [
        ("who?", 1, "Oil burns."), ("who?", 2, "Ada lit it."), ("why?", 1, "No."), ("why?", 2, "Ada lit it."),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{q} Q0 nowhere 1 0.5 x", r"line 1: index 'test' has no passage 'nowhere'"),
        ("{q} Q0 {p} 1 0.5 x\n{q} Q0 {p} 2 0.4 x", r"line 2: '\d+' is ranked twice"),
        ("{q} {p} 1 0.5", r"line 1: expected `question Q0 passage rank score tag`"),
        ("{q} Q0 {p} 1 nan x", r"line 1: rank 1 and score nan have to be finite numbers"),
        (
            "other Q0 {p} 1 0.5 x",
            r"run has none of the questions asked: the first in it is 'other', the first asked '[^']+'\. Name",
        ),
    ],
)
def test_a_fault_is_named_with_its_line(store: Path, tmp_path: Path, line: str, message: str) -> None:
    ((question,),) = sql(store, "SELECT question_id FROM questions LIMIT 1")
    ((passage,),) = sql(store, "SELECT passage_id FROM passages LIMIT 1")
    (tmp_path / "run").write_text(line.format(q=question, p=passage))
    with pytest.raises(InputError, match=message):
        run(store, read(tmp_path / "run"))
    with pytest.raises(InputError, match="does not exist"):
        run(store, read(tmp_path / "none"))


def test_questions_in_another_case_are_an_error_and_few_questions_are_said(tmp_path: Path) -> None:
    rows = [
        {"id": "p", "text": "Ada lit it."},
        *({"id": f"Q{n}", "question": f"Who {n}?", "source": "p"} for n in (1, 2)),
    ]
    (tmp_path / "asked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    index(tmp_path / "store", f"jsonl:{tmp_path / 'asked.jsonl'}")
    (tmp_path / "run").write_text("q1 Q0 p 1 1 x\nq2 Q0 p 1 1 x\n")
    with pytest.raises(
        InputError, match=r"the first in it is 'q1', the first asked 'Q\d'; they differ in upper and lower case"
    ):
        run(tmp_path / "store", read(tmp_path / "run"))
    (tmp_path / "run").write_text("Q1 Q0 p 1 1 x\nq2 Q0 p 1 1 x\n")
    found = run(tmp_path / "store", read(tmp_path / "run"))
    assert values(tmp_path / "store", found, "read")["mrr"] == 0.5
    made = read_report(tmp_path / "store", found.run)
    said = [*failures(made), *unscored(made)]
    assert "read: 1 of 2 questions have no hits, and count as not found." in said
