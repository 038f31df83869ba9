"""Plots, told in words: quality by budget and threshold, speed, steps' seconds, rewards, pictures of one question."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.evaluating import evaluated
from tests.support.indexing import index
from tests.support.reports import RIVALS, costs, one, report, rivals, summaries
from vitalfew.flows.pipelines.experiments import evaluation
from vitalfew.tasks.report import read_report, write_report
from vitalfew.tasks.reports.contents import MethodResult
from vitalfew.tasks.reports.plots.cost import latency_split
from vitalfew.tasks.reports.plots.drawing import standing_alone
from vitalfew.tasks.reports.plots.forest import ForestRow, Kind, forest
from vitalfew.tasks.reports.plots.learning import learning_plot
from vitalfew.tasks.reports.plots.list import drawn
from vitalfew.tasks.reports.plots.quality import decoding_speed, quality_by_budget
from vitalfew.tasks.reports.plots.questions import candidates_in_the_plane, contexts_in_two_dimensions
from vitalfew.tasks.reports.plots.sweeps import by_threshold, quality_by_refiner

pytestmark = pytest.mark.usefixtures("plots")


def sparse(name: str, threshold: float | None, kept: float, **more: Any) -> MethodResult:
    seconds = {"init_seconds": 0.25, "prefill_seconds": 2.5, "copy_seconds": 0.125, "decode_seconds": 1.5}
    values = {"f1": 0.5 - kept / 100, "kept": kept, "decoding_speed": 20 - kept, **seconds, **more}
    return MethodResult(name, {"generate.threshold": threshold, "generate.attention": "block"}, summaries(**values))


def test_a_line_for_each_way_to_pass_on_less_has_its_name_once() -> None:
    plot = quality_by_budget(rivals())
    assert plot is not None
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", plot.svg)
    assert sorted(each for each in texts if each in RIVALS) == sorted(RIVALS)
    assert {"60", "120", "240", "480"} <= {*texts}
    assert f"{len(RIVALS)} methods. On the front: ParetoRAG 0.5" in plot.svg
    assert quality_by_budget(rivals(RIVALS[:1])) is None


def test_of_sparse_rag_quality_contexts_and_speed_are_drawn_by_threshold() -> None:
    methods = (sparse(f"threshold {number / 10}", number / 10, 8.0 - number) for number in (1, 3, 2))
    sweep = report(sparse("PCW", None, 10.0), *methods)
    plot, speed = by_threshold(sweep), decoding_speed(sweep)
    assert plot is not None
    assert speed is not None
    assert "F1: 0.430 at 0.1, 0.440 at 0.2, 0.450 at 0.3." in plot.svg
    assert "K: 7.0 at 0.1, 6.0 at 0.2, 5.0 at 0.3." in plot.svg
    assert "PCW: 10" in speed.svg
    assert plot in drawn(sweep)
    assert by_threshold(one()) is decoding_speed(one()) is None


def test_a_forest_tells_every_row_and_names_the_kinds_that_it_has() -> None:
    rows = [
        ForestRow("NQ", -0.0333, -0.0667, 0.0, 150),
        ForestRow("Celery", 0.12, 0.004, 0.18, 1_200, "hollow"),
    ]
    legend: dict[Kind, str] = {"filled": "bundled reader", "hollow": "language model", "grey": "too few questions"}
    plot = forest(rows, "Spans", "accuracy minus whole passages", "Mean and 95 % interval.", legend)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", plot.svg)
    assert {"NQ", "Celery", "−0.03 (−0.07 to +0.00), n = 150"} <= {*texts}
    assert "+0.120 (+0.004 to +0.180), n = 1,200" in texts
    assert {"bundled reader", "language model"} <= {*texts}
    assert "too few questions" not in texts
    dark = standing_alone(plot.svg, "white", "#0d1117")
    assert 'fill="#0d1117"' in dark
    assert "currentColor" not in dark


def test_seconds_are_told_by_step_with_those_of_a_refiner_that_computes() -> None:
    idle = replace(sparse("RAG", None, 10.0), costs=costs())
    busy = replace(idle, name="CRAG", costs=tuple(replace(cost, tokens=5) for cost in costs()))
    plot = latency_split(report(idle, busy, sparse("sweep", 0.1, 3.0, prefill_seconds=None)))
    assert plot is not None
    assert "RAG: init 0.25 s, prefill 2.5 s, copy 0.125 s, decoding 1.5 s; CRAG:" in plot.svg
    assert "refiner's model 0.0004 s" in plot.svg.replace("&#x27;", "'")
    assert "1 of 3 methods are not drawn: a step is not reported" in plot.caption


def test_reward_and_kl_of_a_training_are_drawn_and_told() -> None:
    plot = learning_plot([{"step": n, "losses": [("reward", n / 20), ("kl", 0.01 * n)]} for n in range(1, 21)])
    assert plot is not None
    assert "mean reward per step: 0.050 at the start, 1.000 at the end; KL per text (nats): 0.010 at the start" in plot
    assert learning_plot([{"step": 1, "losses": [("loss", 0.5)]}]) is None


SETTINGS = {
    "index": "test",
    "retrieve": {"retriever": "passage", "top_k": 8},
    "refine": {"refiner": ["cut", "mmr"], "mmr_lambda": 0.5, "top_k": 4},
    "generate": {"generator": "tests.support.fakes:FirstWords", "per_context": True},
    "critique": {"critic": "tests.support.fakes:WordCritic"},
    "methods": {"best": {"select": {}}, "set": {"select": {"selector": "pareto_set"}}},
    "score": {"metrics": ["accuracy", "tokens"]},
}


def test_the_pictures_are_of_the_question_that_methods_differ_about(tmp_path: Path) -> None:
    index(tmp_path, "synthetic:passages=60,questions=16,seed=3")
    outcome = evaluated(evaluation("trial", SETTINGS, {"store": tmp_path, "runner": "serial"}))
    found = read_report(tmp_path, outcome.run)
    shown = found.choice
    assert shown is not None
    assert set(shown.chosen) == {"best refiner=cut", "set refiner=cut"}
    best, several = shown.chosen.values()
    assert len(best) == 1 < len(several)
    assert {n for n, on in zip(shown.candidates, shown.on_front, strict=True) if on} == set(several)
    page = write_report(tmp_path, found).html.read_text()
    for draw in (candidates_in_the_plane, contexts_in_two_dimensions, quality_by_refiner):
        plot = draw(found)
        assert plot is not None
        ET.fromstring(plot.svg)
        assert plot.title in page
    assert "Contexts that mmr keeps" in page
    assert found.context_map is not None
    assert sorted(found.context_map.kept) != [0, 1, 2, 3]  # some better hit was left out
