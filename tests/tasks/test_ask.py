"""The stage `ask`: a condition chooses questions, and can do nothing else."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.damage import flip
from tests.support.indexing import index, table
from vitalfew.configs.evaluation import Questions
from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.runs import find_index
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.datasets.base import InputError


@pytest.fixture(scope="module")
def passages(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Passages and their questions."""
    store = tmp_path_factory.mktemp("store")
    index(store, "synthetic:passages=60,questions=20,seed=3")
    return Artifact(store, *find_index(store, "test").artifacts["passages"].split("/"))


def chosen(passages: Artifact, where: str | None, **settings: Any) -> set[int]:
    stage = Ask(passages.store, passages, Questions(where=where, **settings))
    stage.run("test")
    rows = [row for shard in stage.shards() for row in stage.artifact.read(shard).to_pylist()]
    return {row["question_id"] for row in rows}


def test_a_condition_chooses_by_questions_and_by_titles_of_their_gold_passages(passages: Artifact) -> None:
    questions = table(passages.store, "questions").to_pylist()
    titles = {row["passage_id"]: row["title"] for row in table(passages.store, "passages").to_pylist()}
    every = {row["question_id"] for row in questions}
    assert chosen(passages, None) == chosen(passages, "true") == every
    longest = {row["question_id"] for row in questions if len(row["text"]) > 40}
    assert chosen(passages, "len(text) > 40 -- characters") == chosen(passages, "len(text) > 40;") == longest
    title = titles[questions[0]["gold_passages"][0]]
    about = {row["question_id"] for row in questions if title in [titles[each] for each in row["gold_passages"]]}
    quoted = title.replace("'", "''")
    assert chosen(passages, f"list_contains(titles, '{quoted}')") == about
    subquery = f"SELECT list(passage_id) FROM passages WHERE title = '{quoted}'"
    assert chosen(passages, f"list_has_any(gold_passages, ({subquery}))") == about
    assert chosen(passages, "question_id = (SELECT min(question_id) FROM questions)") == {min(every)}


@pytest.mark.parametrize("kind", ["questions", "passages"])
def test_questions_are_chosen_from_no_damaged_file(tmp_path: Path, kind: str) -> None:
    index(tmp_path, "synthetic:passages=12,questions=4,seed=3")
    passages = Artifact(tmp_path, *find_index(tmp_path, "test").artifacts["passages"].split("/"))
    flip(passages.path(0, kind))
    with pytest.raises(files.Damaged, match=rf"{kind}/.*store verify"):
        chosen(passages, "len(text) > 1")


CHANGING = {
    "random() < 0.5": "random()",
    "list_transform(titles, lambda t: uuid()) IS NOT NULL": "uuid()",
    "current_date > DATE '2020-01-01'": "current_date",
    "LOCALTIMESTAMP > TIMESTAMP '2020-01-01'": "localtimestamp",
    "ago(INTERVAL 1 DAY) > TIMESTAMP '2020-01-01'": "ago()",  # a macro that asks for the time
    "current_setting('threads')::INTEGER > 1": "current_setting()",
    "question_id IN (WITH q AS (SELECT random() AS r) SELECT r FROM q)": "random()",
    "question_id IN (SELECT question_id FROM questions USING SAMPLE 3)": "a sample",
    "question_id > (SELECT count(*) FROM duckdb_memory())": "the table duckdb_memory()",
    "question_id > (FROM query('SELECT random()'))": "the table query()",
    "question_id > (SELECT count(*) FROM duckdb_tables)": "the table duckdb_tables",
    "not " * 500 + "true": "an expression this deeply nested",
}


@pytest.mark.parametrize("where", CHANGING)
def test_a_condition_whose_result_may_change_is_refused(passages: Artifact, where: str) -> None:
    stage = Ask(passages.store, passages, Questions(where=where))
    with pytest.raises(InputError, match=f"{re.escape(CHANGING[where])} may change.*use questions.sample"):
        stage._matching()
