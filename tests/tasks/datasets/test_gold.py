"""Gold by place: questions that name a file, a heading or a quote get the passages that stand there."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.evaluating import run, values
from tests.support.indexing import index, sql, table
from vitalfew.flows.pipelines.evaluate import Evaluated
from vitalfew.tasks.reports.shown.notes import failures

TRAVEL = """---
title: Travel rules
team: travel
---

## Abroad

The board approves trips abroad. Ask it a month before.

## At home

Nobody has to approve trips   at
home.
"""
SICKNESS = "# Sickness\n\nCall before nine.\n\n## Abroad\n\nKeep the receipts of every doctor.\n"
FAKE = {
    "generate": None,
    "score": {"metrics": ["passage_recall", "mrr", "context_recall", "supporting_facts"], "k": [1, 20]},
}
METHODS = {"passages": {"retrieve": {"retriever": "passage", "top_k": 20}}}

QUESTIONS: tuple[dict[str, Any], ...] = (
    {"question": "Who approves trips abroad?", "answers": ["the board"], "source": "rules/travel.md"},
    {"question": "When do I call?", "answers": ["before nine"], "source": "./sickness.md#Sickness"},
    {"question": "Are there rules for trips?", "answers": ["yes"], "source": ["rules/travel.md", "sickness.md#abroad"]},
    {"question": "Who approves trips at home?", "answers": ["nobody"], "quote": "nobody has to approve trips at home"},
    {"question": "Whom do I ask?", "answers": ["the board"], "quote": "ask it", "source": "rules/travel.md"},
    {"question": "Who drives?", "answers": ["Ada"], "source": "cars.md"},
    {"question": "Who flies?", "answers": ["Bea"], "quote": "Bea flies"},
    {"question": "What else?", "answers": ["nothing"]},
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gold")
    (folder / "handbook" / "rules").mkdir(parents=True)
    (folder / "handbook" / "rules" / "travel.md").write_text(TRAVEL)
    (folder / "handbook" / "sickness.md").write_text(SICKNESS)
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, QUESTIONS)))
    return folder


def settings(folder: Path, **given: Any) -> dict[str, Any]:
    return {**FAKE, "methods": METHODS, "questions": {"dataset": f"jsonl:{folder / 'questions.jsonl'}"}, **given}


@pytest.fixture(scope="module")
def outcome(folder: Path) -> Evaluated:
    index(folder / "store", f"folder:{folder / 'handbook'}")
    return run(folder / "store", settings(folder), index="test")


@pytest.fixture(scope="module")
def store(folder: Path, outcome: Evaluated) -> Path:
    return folder / "store"


def gold(store: Path) -> dict[str, dict[str, Any]]:
    """By question, the sources of its gold passages, their groups, and the texts of its supporting facts."""
    passages = {row["passage_id"]: row for row in table(store, "passages").to_pylist()}
    return {
        row["text"]: {
            "sources": [passages[each]["source_id"] for each in row["gold_passages"]],
            "groups": row["gold_groups"],
            "facts": [passages[s["passage_id"]]["text"][s["start"] : s["end"]] for s in row["supporting_facts"]],
        }
        for row in table(store, "asked").to_pylist()
    }


def test_places_become_gold_passages(store: Path) -> None:
    found = gold(store)
    # of a file, the passages that hold an answer; where none does, all of them
    assert found["Who approves trips abroad?"]["sources"] == ["rules/travel.md#abroad"]
    assert found["When do I call?"]["sources"] == ["sickness.md#sickness"]
    several = found["Are there rules for trips?"]
    assert dict(zip(several["sources"], several["groups"], strict=True)) == {
        "rules/travel.md#abroad": 0,
        "rules/travel.md#at-home": 0,
        "sickness.md#abroad": 1,
    }
    assert found["What else?"] == {"sources": [], "groups": [], "facts": []}
    # a quote is a supporting fact, whatever its case and white space
    assert found["Who approves trips at home?"]["sources"] == ["rules/travel.md#at-home"]
    assert found["Who approves trips at home?"]["facts"] == ["Nobody has to approve trips   at\nhome"]
    assert found["Whom do I ask?"] == {"sources": ["rules/travel.md#abroad"], "groups": [0], "facts": ["Ask it"]}


def test_a_place_that_the_corpus_lacks_is_a_reject_and_its_question_is_asked(store: Path) -> None:
    rejects = [row for row in table(store, "rejects").to_pylist() if row["stage"] == "ask"]
    ids = {row["question_id"]: row["text"] for row in table(store, "asked").to_pylist()}
    assert len(ids) == len(QUESTIONS)
    assert {ids[row["offset"]]: row["detail"].partition(":")[0] for row in rejects} == {
        "Who drives?": "the corpus has no 'cars.md'",
        "Who flies?": "the corpus has no 'Bea flies'",
    }
    assert {row["reason"] for row in rejects} == {"no_gold_passage"}


def test_a_passage_of_a_file_is_as_good_as_all(store: Path, outcome: Evaluated) -> None:
    assert failures(outcome.report.report)[0].startswith("2 questions name a source or quote that the index does not")
    figures = values(store, outcome, "passages")
    # every passage is retrieved: all groups are found, and a group's second passage gains nothing
    assert figures["passage_recall@20"] == figures["context_recall"] == 1
    assert (5,) in sql(store, "SELECT questions - left_out FROM summaries WHERE metric = 'mrr'")


def test_methods_on_differently_cut_passages_have_their_own_gold(folder: Path, tmp_path: Path) -> None:
    handbook = folder / "handbook"
    for name, words in (("short", 3), ("long", 300)):
        index(tmp_path / "store", f"folder:{handbook}?words={words}", name=name)
    methods = {name: {"index": name, "retrieve": {"retriever": "passage", "top_k": 50}} for name in ("short", "long")}
    outcome = run(tmp_path / "store", settings(folder, methods=methods))
    asked = {name: outcome.methods[name]["ask"].artifact for name in methods}
    assert asked["short"] != asked["long"]
    assert [values(tmp_path / "store", outcome, name)["passage_recall@20"] for name in methods] == [1, 1]


ODD = {
    "Ada#.md": "# Ada\n\nA note.\n\n## Loops and C#\n\nA loop ends with end.\n",
    "Ticket #1.md": "# Ticket\n\nIt is about the rudder.\n",
    "100% sure?.md": "# Bets\n\nNobody bets on rain.\n",
    "two\nlines.md": "# Odd\n\nThe name of this file has two lines.\n",
    "a/intro.md": "# Intro\n\nThe first house is blue.\n",
    "b/intro.md": "# Intro\n\nThe second house is grey.\n",
}
SOURCES = {
    "Ada#.md#Loops and C#": ["Ada#.md#loops-and-c"],
    "100% sure?.md#bets": ["100% sure?.md#bets"],
    "100%25%20sure%3F.md": ["100% sure?.md#bets"],
    "two\nlines.md": ["two\nlines.md#odd"],
    "a/intro.md": ["a/intro.md#intro"],
    "odd/b/intro.md": ["b/intro.md#intro"],
    "Ada": [],
    "Ticket ": [],
}


def test_a_source_is_compared_with_the_names_that_exist_the_longest_first(tmp_path: Path) -> None:
    for name, text in ODD.items():
        (tmp_path / "odd" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "odd" / name).write_text(text, encoding="utf-8")
    rows = [{"question": f"What is in {source!r}?", "source": source} for source in SOURCES]
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    index(tmp_path / "store", f"folder:{tmp_path / 'odd'}")
    run(tmp_path / "store", settings(tmp_path), index="test")
    found = gold(tmp_path / "store")
    for source, expected in SOURCES.items():
        assert sorted(found[f"What is in {source!r}?"]["sources"]) == expected, source


def test_a_row_whose_places_make_no_sense_is_a_reject(tmp_path: Path) -> None:
    asked = {"question": "Who?", "answers": ["Ada"]}
    rows = [
        {"text": "A passage."},
        asked | {"source": ["a.md", "b.md"], "quote": ["x", "y", "z"]},
        asked | {"source": {"url": "https://example.org"}},  # which is said, and the question asked without it
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    index(tmp_path / "store", f"jsonl:{tmp_path / 'rows.jsonl'}")
    rejects = [row["detail"] for row in table(tmp_path / "store", "rejects").to_pylist()]
    assert sorted(rejects)[0].startswith("3 quotes for 2 sources")
    assert sorted(rejects)[1].startswith("the question is asked without its place: the source is an object")
    assert len(rejects) == 2
    [question] = table(tmp_path / "store", "questions").to_pylist()
    assert question["gold_places"] == []
