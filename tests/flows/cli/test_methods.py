"""`vitalfew methods`: what there is, what can be set of it, and an example that can be parsed."""

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vitalfew.configs.loading import build, parse_assignments
from vitalfew.configs.schema import IndexCorpus, Search
from vitalfew.configs.writing import WriteQuestions
from vitalfew.flows.cli.main import app
from vitalfew.flows.pipelines.experiments import evaluation, find
from vitalfew.tasks.registry import METHODS, completed

EVERY = [(kind, name) for kind, names in METHODS.items() for name in names if kind not in ("dataset", "trainer")]


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "400"})
    assert result.exit_code == 0, result.output
    return result.output


def examples(output: str) -> list[list[str]]:
    """The commands of an explanation, as words."""
    return [shlex.split(line) for line in output.splitlines() if line.strip().startswith("vitalfew ")]


@pytest.mark.parametrize(("kind", "name"), EVERY, ids=[f"{kind}-{name}" for kind, name in EVERY])
def test_every_methods_example_has_settings_that_are_right(kind: str, name: str) -> None:
    output = shown("methods", name)
    assert f"{name}  ({kind})" in output
    for words in examples(output[output.index(f"{name}  ({kind})") :]):
        if words[:2] == ["vitalfew", "train"] or "huggingface:" in words[2]:
            continue  # of another kind of this name
        given = parse_assignments([word for place, word in enumerate(words) if words[place - 1] == "--set"])
        if words[1] == "index":
            completed(build(IndexCorpus, {"datasets": [words[2]], "name": "mine"}, given))
        elif words[1] == "search":
            completed(build(Search, given))
        elif words[1:3] == ["questions", "write"]:
            completed(build(WriteQuestions, {"index": "demo"}, given))
        else:
            assert evaluation(*find(words[2]), {"index": "demo"}, given).methods


def test_a_method_of_ones_own() -> None:
    assert "select.sharpness = 1.0  (number, from 0)" in shown("methods", "tests.tasks.test_registry:Mine")


def test_an_experiment_beside_the_store_is_known_by_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "experiments" / "ours"
    folder.mkdir(parents=True)
    (folder / "keywords.yaml").write_text("about: words alone\nmethods: {naive: {retrieve: {retriever: bm25}}}\n")
    (tmp_path / "experiments" / "quickstart.yaml").write_text("about: it takes precedence\nmethods: {naive: {}}\n")
    lines = shown("experiments", "--store", str(tmp_path / "store")).splitlines()
    assert {line.split()[0] for line in lines if "words alone" in line} == {"ours/keywords"}
    assert {line.split()[0] for line in lines if "it takes precedence" in line} == {"quickstart"}
