"""Every notebook runs, from its first cell to its last, on a small store; git holds none of its outputs."""

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.indexing import index, parameters
from vitalfew.flows.pipelines.estimate import quote
from vitalfew.flows.pipelines.experiments import evaluation
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.run import run_serially

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CORPUS = "synthetic:passages=60,questions=20,seed=3"
TRIAL: dict[str, Any] = {
    "index": "test",
    "generate": {"generator": "tests.support.fakes:FirstWords"},
    "methods": {
        "naive": {"retrieve": {"retriever": "passage"}},
        "ParetoRAG's": {"retrieve": {"retriever": "core_context"}},
    },
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notebooks") / "store"
    quote(graph(parameters(folder, CORPUS)))
    index(folder, CORPUS)
    graph(evaluation("trial", TRIAL, {"store": folder, "runner": "serial"})).run(run_serially)
    return folder


def tree(store: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in store.rglob("*") if path.is_file() and path.suffix != ".duckdb"}


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STORE", str(store))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]))
    before = tree(store)
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()  # raises on a cell's error
    assert tree(store) == before
    for cell in notebook.cells[3:]:  # behind the title, the opening, and the first text
        if cell.cell_type == "code":
            kinds = {kind for output in cell.outputs for kind in output.get("data", {})}
            assert kinds & {"text/html", "image/png"}, cell.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_git_holds_no_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    assert "vf.Store(" in code[0].source  # one cell opens the store
    assert notebook.cells[0].cell_type == "markdown"
