"""`vitalfew start`: from a folder to a method to serve; every command that it prints works, and every end is honest."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.shared import shared
from vitalfew.flows.cli.main import app
from vitalfew.storage.runs import read_runs

FAKE = ["--set", "encode.encoder=tests.support.fakes:HashEncoder", "--set", "runner=serial"]
FILES = 36


def run(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})
    assert result.exit_code == status, result.output
    return result.output


def printed(text: str) -> list[list[str]]:
    """The words of every command that stands in the output."""
    return [shlex.split(line)[2:] for line in text.splitlines() if line.startswith("$ vitalfew ")]


def write_towns(folder: Path, count: int) -> None:
    folder.mkdir(parents=True)
    filler = "Its people are known for the sorts of bread that they bake in the old ovens by the river. " * 6
    for number in range(count):
        founded = f"The town of Velmar{number} was founded by the brothers Norrin{number} long ago."
        (folder / f"{number}.md").write_text(f"# Town {number}\n\n{founded} {filler}\n")


def _made(folder: Path) -> None:
    write_towns(folder / "towns", FILES)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "first.txt").write_text(run("start", "towns", *FAKE))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> str:
    """The output of a first run, in whose directory the test is. It writes there only what the first run wrote."""
    monkeypatch.chdir(shared("start", _made))
    return Path("first.txt").read_text()


def test_the_journey_ends_with_what_to_do(started: str) -> None:
    steps = [" ".join(words[:2]) for words in printed(started)]
    assert steps[:3] == ["index folder:towns", "questions write", "evaluate start"]
    after = started[started.index("This took") :]
    assert re.search(r"This took \d+ s: index \d+ s, questions write \d+ s, evaluate \d+ s", after)
    assert {words[0] for words in printed(after)} == {"evaluate", "answer", "serve", "questions", "start"}
    assert re.search(r"^Begin with (spans|naive RAG)[.:]", started, re.MULTILINE)


def test_a_second_run_reuses_everything(started: str) -> None:
    before = len(list(Path("store").glob("*/*/manifest.json")))
    again = run("start", "towns", *FAKE)
    assert again.count("Nothing to do") == 2
    assert printed(again) == printed(started)
    (shown,) = (words for words in printed(started) if words[:2] == ["questions", "show"])
    assert "_____" in run(*shown)
    assert len(list(Path("store").glob("*/*/manifest.json"))) == before
    assert {each.state for each in read_runs(Path("store"))} == {"completed"}
    other = run("start", "towns", *FAKE, "--set", "encode.context=passage", status=1)
    assert "index towns has other settings: encode.context=late" in other
    (again,) = (words for words in printed(started) if words[:1] == ["start"] and "--questions" in words)
    assert "encode.encoder=tests.support.fakes:HashEncoder" in again  # else it would make another index


def test_questions_of_ones_own_are_judged_by_what_they_have(started: str, tmp_path: Path) -> None:
    file = tmp_path / "asked.jsonl"

    def asked(*without: str) -> list[list[str]]:
        rows = []
        for n in range(FILES):
            row = {"question": f"Who founded Velmar{n}?", "answers": [f"the brothers Norrin{n}"], "source": f"{n}.md"}
            rows.append({key: value for key, value in row.items() if key not in without})
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return printed(run("start", "towns", "--questions", str(file), *FAKE, "--set", GENERATOR))

    by_answers = asked()
    assert [words[0] for words in by_answers[:3]] == ["index", "evaluate", "answer"]
    assert by_answers[1][1] == "start_answers"
    assert GENERATOR in by_answers[1]
    assert by_answers[2][1] == "Who founded Velmar0?"
    with pytest.raises(AssertionError, match="Add `answers`, a `source`"):
        asked("answers", "source")


GENERATOR = "generate.generator=tests.support.fakes:FirstWords"


def test_bad_folders_get_a_sentence_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_towns(Path("towns"), 1)
    Path("empty").mkdir()
    assert "Did you mean towns?" in run("start", "town", status=1)
    assert "`vitalfew start towns`" in run("start", "towns/0.md", status=1)
    assert "Markdown, HTML and text files are read" in run("start", "empty", *FAKE, status=1)


def test_a_few_sentences_of_another_language_choose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("orte").mkdir()
    sentence = "Die Stadt Velmar liegt am Fluss und wurde im Jahre 1700 von Bauern gegründet, die dort auch blieben."
    Path("orte", "a.md").write_text(f"# Velmar\n\n{' '.join([sentence] * 8)}\n")
    few = run("start", "orte", *FAKE)
    assert "Too early to choose: 1 of at least 30 questions." in few
    assert "Until then begin with spans" in " ".join(few.split())
