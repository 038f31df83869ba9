"""The pictures of PFE-Self-RAG, from an evaluation's own tables."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.support.evaluating import evaluated
from tests.support.indexing import index, sql
from vitalfew.flows.pipelines.evaluate import Evaluated
from vitalfew.flows.pipelines.experiments import evaluation
from vitalfew.tasks.report import read_report, write_report
from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.plots.questions import candidates_in_the_plane, contexts_in_two_dimensions
from vitalfew.tasks.reports.plots.sweeps import quality_by_refiner

SETTINGS = {
    "index": "test",
    "retrieve": {"retriever": "passage", "top_k": 8},
    "refine": {"refiner": ["cut", "mmr"], "mmr_lambda": 0.5, "top_k": 4},
    "generate": {"generator": "tests.support.fakes:FirstWords", "per_context": True},
    "critique": {"critic": "tests.support.fakes:WordCritic"},
    "methods": {"best": {"select": {}}, "set": {"select": {"selector": "pareto_set"}}},
    "score": {"metrics": ["accuracy", "tokens"]},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Evaluated, Report]:
    store = tmp_path_factory.mktemp("store")
    index(store, "synthetic:passages=60,questions=16,seed=3")
    outcome = evaluated(evaluation("trial", SETTINGS, {"store": store, "runner": "serial"}))
    return store, outcome, read_report(store, outcome.run)


def test_the_question_is_the_one_that_methods_differ_about(made: tuple[Path, Evaluated, Report]) -> None:
    store, _, found = made
    shown = found.choice
    assert shown is not None
    assert set(shown.chosen) == {"best refiner=cut", "set refiner=cut"}
    best, several = shown.chosen.values()
    assert len(best) == 1 < len(several)
    assert {n for n, on in zip(shown.candidates, shown.on_front, strict=True) if on} == set(several)
    rows = sql(
        store,
        "SELECT DISTINCT candidate, utility_f1, isrel FROM critiques JOIN methods USING (fingerprint) "
        f"JOIN asked USING (question_id) WHERE method = 'best refiner=cut' AND text = '{shown.question}' ORDER BY 1",
    )
    assert [(f1, isrel) for _, f1, isrel in rows] == list(shown.points)


def test_pictures_are_in_the_page(made: tuple[Path, Evaluated, Report]) -> None:
    store, _, found = made
    page = write_report(store, found).html.read_text()
    for draw in (candidates_in_the_plane, contexts_in_two_dimensions, quality_by_refiner):
        plot = draw(found)
        assert plot is not None
        ET.fromstring(plot.svg)
        assert plot.title in page
    described = quality_by_refiner(found).svg  # type: ignore[union-attr]
    assert described.count("with cut, ") == described.count("with mmr") == 2
    assert "Contexts that mmr keeps" in page
    assert "best:" in described
    assert "set:" in described
