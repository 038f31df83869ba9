"""A command imports no library that it does not need, however long the list of methods grows."""

import subprocess
import sys
from importlib.metadata import version
from inspect import getdoc
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.indexing import index
from vitalfew.flows.cli.descriptions import summary
from vitalfew.flows.cli.main import app
from vitalfew.tasks.registry import METHODS, resolve

HEAVY = {"torch", "transformers", "ray", "prefect", "faiss", "scipy", "sklearn", "nltk", "matplotlib", "openai"}
PROGRAM = """
import sys
from vitalfew.flows.cli.main import app
try:
    app(sys.argv[2:])
except SystemExit as end:
    assert not end.code, end.code
assert not (imported := set(sys.argv[1].split(",")) & set(sys.modules)), imported
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("startup") / "store"
    index(folder)
    return folder


def without(libraries: set[str], *arguments: str) -> None:
    """Run a command, which must end well and must not have imported these."""
    command = [sys.executable, "-c", PROGRAM, ",".join(sorted(libraries)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["methods"], ["methods", "minilm"], ["datasets"], ["models"]],
    ids=" ".join,
)
def test_what_tells_of_the_program_imports_no_heavy_library(arguments: list[str]) -> None:
    without(HEAVY | {"duckdb"}, *arguments)


@pytest.mark.parametrize("arguments", [["sql", "SELECT 1"], ["tables"], ["runs"], ["costs"]], ids=" ".join)
def test_what_looks_into_a_store_imports_no_heavy_library(store: Path, arguments: list[str]) -> None:
    without(HEAVY | {"pandas"}, *arguments, "--store", str(store))


def test_what_lists_a_store_imports_no_model(store: Path) -> None:
    without(HEAVY - {"faiss"}, "store", "ls", "--store", str(store))  # an index's settings are FAISS's


def test_the_list_of_methods_has_their_own_words() -> None:
    for kind, names in METHODS.items():
        for name in names:
            assert summary(kind, name) == (getdoc(resolve(kind, name)) or "").partition("\n")[0]


def test_the_version_is_that_of_the_package() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"vitalfew {version('vitalfew')}\n"
