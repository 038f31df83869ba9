"""Copies of a text: it is loaded once, under all its names, which searches, gold, exports and foreign runs know."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.evaluating import run
from tests.support.indexing import index, sql, table
from vitalfew.configs.schema import RetrieveConfig
from vitalfew.tasks import load
from vitalfew.tasks.reports.trec import write_qrels, write_run
from vitalfew.tasks.retrieve import Searcher

SAME, OTHER = "The key hangs behind the door.", "The boat is green."
ROWS = (
    {"id": "p1", "text": SAME},
    {"id": "p2", "text": OTHER},
    {"id": "p3", "text": SAME},
    {"text": SAME},
    {"id": "p3", "text": SAME},
    {"id": "p4", "text": SAME},
)
QUESTIONS = (
    {"id": "q1", "question": "Where is the key?", "source": "p4"},
    {"id": "q2", "question": "Where is the key?", "source": "p4"},
    {"id": "q3", "question": "What is green?", "source": "p2"},
)
PASSAGES: dict[str, Any] = {"passages": {"retrieve": {"retriever": "passage", "top_k": 10}}}


@pytest.fixture(scope="module", params=[2, 100], ids=["in several runs", "in one run"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copies")
    for name, rows in (("rows", ROWS), ("questions", QUESTIONS)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "RUN_ROWS", request.param)
        index(folder / "store", f"jsonl:{folder / 'rows.jsonl'}")
        run(folder / "store", settings(folder), index="test")
    return folder / "store"


def settings(folder: Path, **methods: Any) -> dict[str, Any]:
    return {
        "generate": None,
        "questions": {"dataset": f"jsonl:{folder / 'questions.jsonl'}"},
        "methods": methods or PASSAGES,
        "score": {"metrics": ["passage_recall"], "k": [1]},
    }


def test_a_text_has_the_names_of_all_its_copies_which_are_rejects(store: Path) -> None:
    named = {row["text"]: (row["source_id"], row["also"]) for row in table(store, "passages").to_pylist()}
    assert named == {SAME: ("p1", ["p3", "p4"]), OTHER: ("p2", [])}
    rejects = sql(store, "SELECT \"offset\", reason, detail FROM rejects WHERE source = 'jsonl:rows.jsonl' ORDER BY 1")
    assert [(offset, reason, detail.partition(" row ")[0]) for offset, reason, detail in rejects] == [
        (3, "duplicate", "p3: the same text as"),
        (4, "duplicate", "the same text as"),
        (5, "duplicate", "p3: the same text as"),
        (6, "duplicate", "p4: the same text as"),
    ]
    assert rejects[0][2].endswith("row 1 of jsonl:rows.jsonl, p1")
    questions = {row["text"]: row["also"] for row in table(store, "questions").to_pylist()}
    assert questions == {"Where is the key?": ["q2"], "What is green?": []}
    (hit,) = Searcher.named(store, "test").hits("key", RetrieveConfig(retriever="passage", where="source_id = 'p1'"))
    assert hit.also == ("p3", "p4")


def test_every_name_is_exported_and_judged(store: Path, tmp_path: Path) -> None:
    write_run(store, "trial", None, tmp_path / "run")
    write_qrels(store, "trial", None, tmp_path / "qrels")
    ranked = [line.split()[::2][:2] for line in (tmp_path / "run").read_text().splitlines()]
    judged = [line.split()[::2][:2] for line in (tmp_path / "qrels").read_text().splitlines()]
    names = ["p1", "p3", "p4"]
    assert judged == [[question, name] for question in ("q1", "q2") for name in names] + [["q3", "p2"]]
    assert sorted(ranked) == [[question, name] for question in ("q1", "q2", "q3") for name in ("p1", "p2", "p3", "p4")]
    assert write_run(store, "trial", None, tmp_path / "run", "content") == 4


def test_a_foreign_run_may_call_a_text_by_any_of_its_names(store: Path, tmp_path: Path) -> None:
    lines = ["q1 Q0 p4 1 3 x", "q1 Q0 p2 2 2 x", "q1 Q0 p3 3 1 x", "q3 Q0 p1 1 1 x"]
    (tmp_path / "foreign.run").write_text("\n".join(lines))
    foreign = {"retrieve": {"retriever": "run_file", "file": str(tmp_path / "foreign.run")}}
    outcome = run(store, settings(store.parent, foreign=foreign), index="test")
    fingerprint = outcome.methods["foreign"]["retrieve"].artifact.partition("/")[2]
    found = sql(store, f"SELECT rank, text FROM hits WHERE fingerprint = '{fingerprint}' ORDER BY question_id, rank")
    assert sorted(tuple(row) for row in found) == [(1, SAME), (1, SAME), (2, OTHER)]
