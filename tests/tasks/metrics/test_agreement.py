"""The metric `agreement`: labels against gold passages, and an evaluation without a generator that has it."""

from pathlib import Path

import pytest

from tests.support.indexing import index, sql
from vitalfew.configs.evaluation import ScoreConfig
from vitalfew.flows.pipelines.experiments import evaluation
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.run import run_serially
from vitalfew.tasks.metrics.base import Case
from vitalfew.tasks.registry import make


def case(labels: dict[int, float], gold: tuple[int, ...] = (1,)) -> Case:
    return Case("Who?", ("x",), gold, (), labels=tuple(labels.items()))


def test_labels_are_compared_with_gold_passages() -> None:
    metric = make(ScoreConfig(metrics=("agreement",)), "score")
    cases = [case({1: 1.0, 2: 0.0}), case({1: 0.0, 2: 1.0, 3: 0.2}), case({2: 1.0}, ()), case({})]
    found = metric.summary(cases)
    assert {name: summary.left_out for name, summary in found.items()} == dict.fromkeys(found, 2)
    figures = {name: summary.value for name, summary in found.items()}
    expected = {"accuracy": 0.6, "f1_1": 0.5, "f1_0": 2 / 3, "f1": 7 / 12, "relevant": 0.4}
    assert figures == pytest.approx({f"label_{name}": value for name, value in expected.items()})
    nothing = metric.summary([case({}), case({1: 1.0}, ())])
    assert all(summary == (None, 2) for summary in nothing.values())


def test_labellers_are_set_side_by_side(tmp_path: Path) -> None:
    index(tmp_path, "synthetic:passages=60,questions=10,seed=3", bm25={"enabled": True})
    settings = {
        "index": "test",
        "retrieve": {"retriever": "bm25", "top_k": 5},
        "generate": None,
        "score": {"metrics": ["agreement"]},
        "methods": {name: {"label": {"labeller": name}} for name in ("gold", "answer_text", "title")},
    }
    plan = graph(evaluation("trial", settings, {"store": tmp_path, "runner": "serial"}))
    plan.run(run_serially)
    wanted = "SELECT method, value FROM summaries JOIN methods USING (fingerprint) WHERE metric = 'label_accuracy'"
    accuracy = dict(sql(tmp_path, wanted))
    assert accuracy["gold"] == 1
    assert all(0 < value <= 1 for value in accuracy.values())
    assert len(accuracy) == 3
