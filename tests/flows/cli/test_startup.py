"""A command imports no library that it does not need, however long the list of methods grows."""

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

import vitalfew as vf
from tests.support.evaluating import copied
from tests.support.indexing import SYNTHETIC
from tests.support.shared import indexed
from vitalfew.flows.cli.main import app

HEAVY = {"torch", "transformers", "ray", "prefect", "faiss", "scipy", "sklearn", "nltk", "matplotlib", "openai"}
PROGRAM = """
import json, sys
from vitalfew.flows.cli.main import app
for command in json.loads(sys.argv[2]):
    try:
        app(command)
    except SystemExit as end:
        assert not end.code, (command, end.code)
    assert not (imported := set(sys.argv[1].split(",")) & set(sys.modules)), (command, imported)
"""


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(copied(indexed(bm25={"enabled": True}), tmp_path / "store"))


def without(libraries: set[str], *commands: Sequence[str]) -> None:
    """Run commands, one after the other; each must end well and must not have imported these."""
    command = [sys.executable, "-c", PROGRAM, ",".join(sorted(libraries)), json.dumps(commands)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_tells_of_the_program_imports_no_heavy_library() -> None:
    commands = (["--help"], ["--version"], ["methods"], ["methods", "minilm"], ["datasets"], ["models"])
    without(HEAVY | {"duckdb"}, *commands)


def test_what_looks_into_a_store_imports_no_heavy_library(store: str) -> None:
    commands = (["sql", "SELECT 1"], ["tables"], ["runs"], ["costs"])
    without(HEAVY | {"pandas"}, *([*command, "--store", store] for command in commands))


def test_a_finished_index_and_a_search_import_only_what_they_search_with(store: str) -> None:
    settings = ["--set", "encode.encoder=tests.support.fakes:HashEncoder", "--set", "load.shard_passages=20"]
    without(HEAVY - {"faiss"}, ["index", SYNTHETIC, "--name", "test", "--store", store, *settings])
    without(HEAVY - {"faiss"} | {"pandas"}, ["search", "Who?", "--index", "test", "--store", store])


def test_a_finished_evaluation_an_answer_and_a_check_up_import_no_network_no_server_and_no_plots(
    store: str, tmp_path: Path
) -> None:
    words = tmp_path / "words.yaml"
    words.write_text(
        "generate: {generator: 'tests.support.fakes:FirstWords'}\nmethods:\n  naive: {retrieve: {retriever: passage}}\n"
    )
    evaluation = ["evaluate", str(words), "--index", "test", "--store", store]
    assert CliRunner().invoke(app, [*evaluation, "--runner", "serial"]).exit_code == 0
    answer = ["answer", "Who?", "words:naive", "--index", "test", "--store", store]
    without(HEAVY - {"faiss", "scipy", "nltk"}, evaluation, answer, ["doctor", "--store", store])
    assert vf.Store(store).runs().height == 2  # of the index and of the evaluation


def test_the_version_is_that_of_the_package() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"vitalfew {version('vitalfew')}\n"
