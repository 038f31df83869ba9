"""The demo: every command that it prints works as printed, and a second run finds all of it in the store."""

import json
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from vitalfew.flows.cli.main import app
from vitalfew.storage.runs import read_runs
from vitalfew.tasks.reports.shown.terminal import bar

TOWNS = ("Velmar", "Ostrad", "Quill", "Brem", "Tassin", "Lorn", "Pevek", "Ister", "Murn", "Galt", "Sorrel", "Wick")
TESTED = 4
"""Towns with a question for the test, of which every method asks its models."""


def corpus(folder: Path) -> str:
    """A passage on every town, with a question for development, and for some one for the test."""
    articles = []
    for number, town in enumerate(TOWNS):
        year = str(1700 + number)
        text = f"{town} was founded in {year}. It lies on a river. Its mayor is {town[::-1]}."
        asked = {"development": f"When was {town} founded?"}
        if number < TESTED:
            asked["test"] = f"In which year was the town of {town} founded?"
        gold = [{"text": year, "answer_start": text.index(year)}]
        qas = [{"id": f"{half}/when/{number}", "question": q, "answers": gold} for half, q in asked.items()]
        articles.append({"title": town, "paragraphs": [{"context": text, "qas": qas}]})
    path = folder / "towns.json"
    path.write_text(json.dumps({"data": articles}), encoding="utf-8")
    return f"squad:{path}"


def printed(text: str) -> list[list[str]]:
    """The words of every command that stands in the output."""
    return [shlex.split(line)[2:] for line in text.splitlines() if line.startswith("$ vitalfew ")]


def demo(store: Path) -> str:
    result = CliRunner().invoke(app, ["demo", "--store", str(store)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_demo_and_the_commands_it_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run twice, and then what it prints; test_wheel.py runs it on the manual."""
    monkeypatch.setattr("vitalfew.flows.cli.demo.CORPUS", corpus(tmp_path))
    monkeypatch.setattr("vitalfew.flows.cli.demo._experiment", lambda: "quickstart")  # whatever models this user has
    store = tmp_path / "store"
    first = demo(store)
    monkeypatch.setattr("vitalfew.tasks.reports.plots.list.PLOTS", ())  # drawn once is enough
    again = demo(store)
    assert "Nothing to do: all artifacts already exist." in again
    assert {run.state for run in read_runs(store)} == {"completed"}
    commands = printed(first)
    assert [words[0] for words in commands] == ["index", "search", "evaluate", "compare", "search", "sql", "ui"]
    for words in commands[1:6]:
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output
    (page,) = re.findall(r"Plots and all figures: +(\S+)", first)
    assert Path(page).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "test half (halves of the data set)" in " ".join(first.split())
    assert "█" in first


@given(st.floats(-1, 2), st.floats(-1, 2), st.integers(1, 40))
def test_a_bar_is_never_longer_for_less(one: float, other: float, length: int) -> None:
    low, high = sorted((one, other))
    assert len(bar(low, length)) <= len(bar(high, length)) <= length
