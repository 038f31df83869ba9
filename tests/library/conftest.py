from pathlib import Path

import pytest

import vitalfew as vf
from tests.support.evaluating import copied
from tests.support.own_files import write_own_files
from tests.support.shared import shared

EXPERIMENT = """
generate: {generator: reader}
baseline: naive
methods:
  naive: {retrieve: {retriever: passage, top_k: 3}}
  cut: {retrieve: {retriever: passage, top_k: 3}, refine: {max_tokens: 30}}
  ParetoRAG: {retrieve: {retriever: core_context, top_k: 8}, refine: {max_tokens: 40}}
  PFE:
    retrieve: {retriever: passage, top_k: 4}
    refine: {refiner: mmr, top_k: 3}
    generate: {per_context: true}
    critique: {critic: embedded}
    select: {selector: pareto_ideal}
  Oreo: {retrieve: {retriever: passage, top_k: 2}, refine: {refiner: oreo}}
  model alone: {retrieve: null}
"""
"""One method of every shape that an experiment can have."""


def _made(folder: Path) -> None:
    folder.mkdir()
    write_own_files(folder)
    (folder / "shapes.yaml").write_text(EXPERIMENT)
    store = vf.Store(folder / "store", progress=False)
    store.index("towns", f"squad:{folder / 'mine.json'}", runner="serial")
    settings = {"questions": {"sample": 12, "batch": 5}}
    store.evaluate(str(folder / "shapes.yaml"), "towns", runner="serial", settings=settings)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """A folder with a user's files, `shapes.yaml`, and the store with the index `towns` and the evaluation. Read it."""
    return shared("library", _made)


@pytest.fixture(scope="session")
def store(corpus: Path) -> vf.Store:
    return vf.Store(corpus / "store", progress=False)


@pytest.fixture
def own(corpus: Path, tmp_path: Path) -> vf.Store:
    """A copy of the store, to write to."""
    return vf.Store(copied(corpus / "store", tmp_path / "store"), progress=False)
