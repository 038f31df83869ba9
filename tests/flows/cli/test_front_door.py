"""What a stranger meets first: help, the names of options, the store and index that are meant, and completion."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from tests.support.evaluating import copied, searchable
from tests.support.evaluating import run as evaluate
from vitalfew.flows.cli.main import app
from vitalfew.flows.cli.methods import SETTINGS


def run(*words: str | Path, width: int = 80, **environment: Any) -> Result:
    given = {"COLUMNS": str(width), **environment}
    return CliRunner().invoke(app, [*map(str, words)], prog_name="vitalfew", env=given)


def commands(command: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, below in getattr(command, "commands", {}).items():
        yield (*names, name), below
        yield from commands(below, *names, name)


COMMANDS = dict(commands(get_command(app)))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one index, `test`, and an evaluation of `trial`."""
    made = copied(searchable(), tmp_path_factory.mktemp("front") / "store")
    method = {"retrieve": {"retriever": "bm25", "top_k": 3}}
    evaluate(made, {"generate": None, "methods": {"keywords": method}, "questions": {"sample": 5}})
    return made


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_help_begins_with_a_short_line_and_names_settings_that_there_are(names: tuple[str, ...]) -> None:
    command = COMMANDS[names]
    assert len(command.help.partition("\n")[0].split()) <= 8, command.help
    shown = run(*" ".join(names).split(), "--help").output
    assert "<bool>" not in shown
    options = {option: parameter for parameter in command.params for option in parameter.opts}
    assert "--config" in options or "--config" not in shown
    about = options["--set"].help if "--set" in options else ""
    for of, setting in re.findall(r"settings (\w+)` lists, such as ([\w.]+)=", about):
        assert f" {setting} = " in run("settings", of, width=200).output


def test_an_old_spelling_names_the_new_one() -> None:
    for words, new in (("store ls --json", "--format json"), ("compare a b --questions 1", "--n")):
        done = run(*words.split(), width=200)
        assert (done.exit_code, f"is now {new}" in done.output) == (2, True)


def test_every_command_that_has_settings_lists_them() -> None:
    for command in SETTINGS:
        assert re.search(r"^  [\w.]+ = ", run("settings", command).output, re.MULTILINE)
    assert "did you mean 'evaluate'" in run("settings", "evaluat").output


def test_a_store_of_one_index_needs_no_name_and_the_environment_names_the_store(store: Path) -> None:
    found = run("search", "Who built the mill?", "-i", "test", "--format", "json", VITALFEW_STORE=str(store))
    assert found.exit_code == 0, found.output
    said = run("search", "Who built the mill?", VITALFEW_STORE=str(store))
    assert "Index test, the only one of the store." in said.output
    assert "(test, spans, alpha 0.8)" in said.output
    method = ["retrieval_only", "--set", "questions.sample=2", "--runner", "serial"]
    evaluated = run("evaluate", *method, VITALFEW_STORE=str(store))
    assert (evaluated.exit_code, "Index test, the only one" in evaluated.output) == (0, True), evaluated.output


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("search Who? --index ", ["test"]),
        ("evaluate quickst", ["quickstart", "quickstart_sparse_rag"]),
        ("compare trial:", ["trial:keywords"]),
        ("serve start_answers:sp", ["start_answers:spans"]),
        ("index --corpus ", ["demo", "notes"]),
    ],
)
def test_the_shell_completes_names(store: Path, line: str, completed: list[str]) -> None:
    (store.parent / "corpora").mkdir(exist_ok=True)
    (store.parent / "corpora" / "notes.yaml").touch()
    assert complete(line, store) == completed


def complete(line: str, store: Path) -> list[str]:
    shell: dict[str, Any] = {"_VITALFEW_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = run(_TYPER_COMPLETE_ARGS=f"vitalfew {line}", VITALFEW_STORE=str(store), **shell)
    return [word.partition("\t")[0] for word in done.output.splitlines() if word]


def test_a_store_that_cannot_be_read_completes_nothing(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "store.json").write_text("{")
    for line in ("search Who? --index ", "report ", "compare a:"):
        assert complete(line, tmp_path / "store") == []
