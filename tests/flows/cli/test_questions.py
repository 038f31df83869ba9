"""`vitalfew questions`: from a folder of documents to questions that an evaluation asks."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.fakes import ChatServer, Reply, completion
from tests.support.indexing import table
from tests.support.prices import priced
from vitalfew.flows.cli.main import app

FAKE = ["--set", "encode.encoder=tests.support.fakes:HashEncoder"]
TOWNS = ("Velmar", "Orvik", "Hale", "Tarn", "Sund", "Brakel")


def done(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})
    assert result.exit_code == status, result.output
    return result.output


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An index of a folder with a file for every town."""
    monkeypatch.chdir(tmp_path)
    for number, town in enumerate(TOWNS):
        text = f"# {town}\n\nA bridge leads over the river since {1700 + 7 * number}, and {town} has a mill.\n\n"
        text += (
            f"## Mayor\n\nThe mayor of the small place is called Ada Norrin{number} and has {number + 3} deputies.\n"
        )
        Path("towns", f"{town}.md").parent.mkdir(exist_ok=True)
        Path("towns", f"{town}.md").write_text(text)
    done("index", "folder:towns", "--name", "towns", "--runner", "serial", *FAKE)
    return "store"


def test_questions_are_written_shown_exported_and_asked(store: str) -> None:
    output = done("questions", "write", "--index", "towns", "--n", "8", "--runner", "serial")
    assert "8 questions from 6 documents" in output
    assert "measure retrieval, not answers" in output
    assert "Nothing to do" in done("questions", "write", "--index", "towns", "--n", "8", "--runner", "serial")
    planned = done("plan", "questions", "--index", "towns", "--runner", "serial", "--set", "write.n=8")
    assert "Everything is in the store" in planned
    assert "_____" in done("questions", "show", "towns", "--n", "2")
    done("questions", "export", "towns", "--out", "towns.jsonl")
    rows = [json.loads(line) for line in Path("towns.jsonl").read_text().splitlines()]
    assert len(rows) == 8
    assert all(row["question"].replace("_____", row["answers"][0]) == row["quote"] for row in rows)
    given = ["--set", "questions.dataset=jsonl:towns.jsonl", "--runner", "serial"]
    assert "8 questions" in done("evaluate", "retrieval_only", "--index", "towns", *given)
    gold = {row["source_id"]: row["gold_passages"] for row in table(Path(store), "asked").to_pylist()}
    passages = {row["question_id"]: row["passage_id"] for row in table(Path(store), "written_questions").to_pylist()}
    assert gold == {row["id"]: [passages[int(row["id"].partition("/")[2])]] for row in rows}


def test_an_edited_file_is_not_written_over(store: str) -> None:
    done("questions", "write", "--index", "towns", "--n", "3", "--name", "few", "--runner", "serial")
    Path("few.jsonl").write_text("edited")
    assert "there is such a file" in done("questions", "export", "few", "--out", "few.jsonl", status=1)
    assert Path("few.jsonl").read_text() == "edited"


def test_a_quote_above_the_cap_sends_nothing_and_prose_is_refused(store: str, tmp_path: Path) -> None:
    def behave(path: str, body: object, attempt: int) -> Reply:
        return Reply({"object": "list", "data": []}) if path == "/v1/models" else completion("A fine passage.")

    with ChatServer(behave) as server, priced(tmp_path, "openai:tiny"):
        model = [f"write.base_url={server.url}", "write.writer=llm", "write.engine=openai", "write.model=tiny"]
        settings = [word for each in model for word in ("--set", each)]
        write = ["questions", "write", "--index", "towns", "--n", "3", "--runner", "serial", *settings]
        told = done("plan", "questions", "--index", "towns", "--runner", "serial", "--set", "write.n=3", *settings)
        assert "of it for requests to servers" in told
        assert "at most 12 in all" in told
        told = done(*write, "--max-usd", "0.1", status=1)
        assert "Nothing was sent" in told
        assert not [path for path, *_ in server.asked if path.endswith("completions")]
        told = done(*write, "--max-usd", "100", status=1)
    assert "no question could be written from any of 12 passages: 12 × not_in_form" in told
    assert "the reply must be a JSON object" in done("sql", "SELECT detail FROM rejects WHERE stage = 'write' LIMIT 1")
