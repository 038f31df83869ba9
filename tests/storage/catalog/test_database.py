"""`vitalfew tables`, the macros, the prompt of `vitalfew sql`, and `vitalfew costs`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner, Result

from tests.support.evaluating import copied, evaluated
from tests.support.indexing import index, parameters, sql
from tests.support.serving import row
from vitalfew.flows.cli.main import app
from vitalfew.flows.cli.sql import prompt
from vitalfew.flows.pipelines.estimate import quote
from vitalfew.flows.pipelines.experiments import evaluation
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.run import run_serially
from vitalfew.storage import generations
from vitalfew.storage.catalog import database
from vitalfew.storage.catalog.database import CATALOG, connect, query, without_rows
from vitalfew.storage.catalog.macros import MACROS
from vitalfew.storage.catalog.views import ROWS, columns
from vitalfew.storage.requests import RequestLog

TRIAL: dict[str, Any] = {
    "index": "test",
    "generate": {"generator": "tests.support.fakes:FirstWords"},
    "retrieve": {"top_k": 5},
    "methods": {
        "none": {"retrieve": None},
        "naive": {"retrieve": {"retriever": "passage"}},
        "pareto": {"retrieve": {"retriever": "core_context"}},
    },
}


def run(*arguments: str | Path, given: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=given)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index that was quoted, its second version, and two evaluations of three methods, the second a dearer one."""
    folder = tmp_path_factory.mktemp("sql") / "store"
    index(folder, "synthetic:passages=50,questions=10,seed=3")
    quote(graph(parameters(folder)))
    index(folder)
    graph(evaluation("trial", TRIAL, {"store": folder, "runner": "serial"})).run(run_serially)
    longer = {**TRIAL, "generate": {"generator": "tests.support.fakes:AllWords"}, "primary": "completion_tokens"}
    evaluated(evaluation("longer", longer, {"store": folder, "runner": "serial"}))
    log = RequestLog(folder)
    log.add(row(0, error="the model has no answer"))
    log.close()
    return folder


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A store that holds nothing yet."""
    (tmp_path / "runs").mkdir()
    return tmp_path


def test_every_table_and_column_is_documented() -> None:
    with without_rows() as connection:
        views = {name for (name,) in connection.sql("SHOW TABLES").fetchall()} - {"place"}
        assert views == set(ROWS)
        for table in ROWS:
            there = [row[0] for row in connection.sql(f"DESCRIBE {table}").fetchall()]
            assert sorted(there) == sorted(columns(table)), table
            assert all(column.about for column in columns(table).values()), table
    assert columns("ledger")["quoted_usd"].unit == "USD"


@pytest.mark.parametrize("macro", MACROS, ids=lambda macro: macro.name)
def test_the_example_of_every_macro_answers_on_any_store(macro: Any, store: Path, bare: Path) -> None:
    assert query(store, macro.example).fetchall(), macro.example
    assert query(bare, macro.example).fetchall() == []


def test_a_questions_story_is_told_in_order(store: Path) -> None:
    ((question, text),) = sql(store, "SELECT question_id, text FROM asked ORDER BY ALL LIMIT 1")
    by_id = sql(store, f"SELECT method, step, text FROM story({question}, 'trial')")
    assert by_id == sql(store, f"SELECT method, step, text FROM story('{text.upper()[3:40]}', 'trial')")
    assert by_id[0] == ("", "question", text)
    steps = [step for method, step, _ in by_id if method == "pareto"]
    assert steps == [*(f"{what} {n}" for what in ("hit", "context") for n in range(1, 6)), "candidate 0", "scores"]
    one = sql(store, f"SELECT method, step, text FROM story({question}, 'trial', 'naive', chars := 0)")
    assert {method for method, _, _ in one} == {"", "naive"}
    assert one[-1][2].startswith("accuracy ")


def test_a_row_for_every_generation(store: Path, tmp_path: Path) -> None:
    place = copied(store, tmp_path / "store")
    generations.judge(place, "test", 2, "in doubt")
    generations.rollback(place, "test")
    shown = "SELECT name, generation, verdict, current, removed FROM generations WHERE generation < 3 ORDER BY 2"
    assert sql(place, shown) == [("test", 1, "", True, False), ("test", 2, "in doubt", False, False)]
    assert sql(place, "SELECT count(DISTINCT settings), count(DISTINCT corpus) FROM generations")[0][1] >= 2
    assert sql(place, "SELECT run_id FROM generations WHERE current") == sql(
        place, "SELECT run_id FROM indexes WHERE current"
    )
    assert sql(place, 'SELECT "index", count(*) FROM passages GROUP BY ALL') == [("test", 50)]


def test_what_a_re_encoding_changed(tmp_path: Path) -> None:
    source, store = tmp_path / "rows.jsonl", tmp_path / "store"

    def indexed_as(*rows: tuple[str, str, str]) -> None:
        named = ({"id": name, "title": title, "text": text} for name, title, text in rows)
        source.write_text("".join(json.dumps(row) + "\n" for row in named))
        index(store, f"jsonl:{source}")

    def changed() -> list[tuple[Any, ...]]:
        return sql(store, "SELECT change, source_id, text FROM changed('test')")

    indexed_as(("a", "A", "It stays."), ("b", "B", "It goes."), ("c", "C", "It is called C."), ("d", "D", "It moves."))
    assert changed() == []
    indexed_as(("a", "A", "It stays."), ("b", "B", "It comes."), ("c", "c", "It is called C."), ("e", "D", "It moves."))
    second = [
        ("removed", "b", "It goes."),
        ("added", "b", "It comes."),
        ("retitled", "c", "C → c"),
        ("moved", "e", "It moves."),
    ]
    assert changed() == second
    index(store, f"jsonl:{source}", bm25={"enabled": True})
    assert changed() == second  # a version with the same passages changes none
    assert sql(store, "SELECT text FROM changed(chars := 5) WHERE change = 'moved'") == [("It mo…",)]
    with pytest.raises(duckdb.Error, match="no index 'another'; there are: test"):
        sql(store, "FROM changed('another')")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lines that are typed at the prompt, and then Ctrl-D. A line that ends with \x03 is Ctrl-C."""
    lines: list[str] = []

    def line(shown: str) -> str:
        if not lines:
            raise EOFError
        if (text := lines.pop(0)).endswith("\x03"):
            raise KeyboardInterrupt
        return text

    monkeypatch.setattr("builtins.input", line)
    return lines


def test_the_prompt_goes_on_after_errors_and_ctrl_c(
    store: Path, typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    typed += ["SELECT * FROM pasages;", "SELECT wrong", "and\x03", "SELECT 40 + -- not yet;", "2 AS", "found;"]
    typed += ["\\d scores", "\\x", ";", "DROP VIEW hits;", "\\q", "SELECT 'after';"]
    prompt(store, "table")
    said = capsys.readouterr()
    assert "pasages" in said.err
    assert "unknown command \\x" in said.err
    assert "one statement that only reads" in said.err
    assert all(shown in said.out for shown in ("found", "42", "a row is the value of one metric for one question"))
    assert "wrong" not in said.out + said.err
    assert typed == ["SELECT 'after';"]


def test_a_query_ends_with_its_time(bare: Path) -> None:
    endless = "WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT x + 1 FROM t) SELECT max(x) FROM t"
    done = run("sql", endless, "--timeout", "0.5", "--store", bare)
    assert done.exit_code == 1
    assert "the query was stopped after 0.5 s" in done.output
    assert "--timeout SECONDS" in done.output


def test_a_query_takes_no_more_than_its_memory(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"memory_limit": "64MB", "temp_directory": str(bare / "spilled"), "max_temp_directory_size": "1MB"}
    monkeypatch.setattr(database, "LIMITS", limits)
    greedy = "SELECT max(list) FROM (SELECT list(range) FROM range(100000000) GROUP BY range % 2) t(list)"
    done = run("sql", greedy, "--store", bare)
    assert done.exit_code == 1
    assert "the query needs more memory than it may take (64MB" in done.output
    assert not [*bare.glob("spilled/*")]
    assert run("sql", "SELECT 41 + 1 AS n", "--store", bare).exit_code == 0


WRITER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_readers_go_on_while_another_process_writes(store: Path, tmp_path: Path) -> None:
    reader = connect(store)
    before = reader.sql("SELECT count(*) FROM hits").fetchall()
    artifacts = reader.sql("SELECT count(*) FROM artifacts").fetchall()
    graph(parameters(store, encode={"context": "passage"})).run(run_serially)  # writes the catalog anew too
    assert reader.sql("SELECT count(*) FROM hits").fetchall() == before
    assert sql(store, "SELECT count(*) FROM artifacts") > artifacts  # whoever comes later does not share the old one
    reader.close()
    command = [sys.executable, "-c", WRITER, str(store / CATALOG)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "held\n"
        assert sql(store, "SELECT count(*) FROM hits") == before  # locked: another catalog takes its place
        writer.communicate("")
