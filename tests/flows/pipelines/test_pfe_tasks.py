"""PFE-Self-RAG's experiments: a closed task is scored by its choice, and who reads how many passages."""

from pathlib import Path
from typing import Any

from tests.support.evaluating import evaluated, values
from tests.support.indexing import index
from tests.support.samples import SAMPLES
from vitalfew.configs.evaluation import Evaluate
from vitalfew.flows.pipelines.experiments import evaluation, find


def experiment(name: str, **given: Any) -> Evaluate:
    return evaluation(*find(f"pfe_self_rag/{name}"), {"index": "test", **given})


def test_a_closed_task_is_scored_by_its_choice_whatever_answers(tmp_path: Path) -> None:
    index(tmp_path / "store", "synthetic:passages=60,questions=10,seed=3")
    fakes = {
        "generate": {"generator": "tests.support.fakes:FirstWords"},
        "critique": {"critic": "tests.support.fakes:WordCritic"},
        "refine": {"vectors": "index"},  # which are hashes, not MiniLM's
        "questions": {"dataset": f"arc:{SAMPLES['arc'].write(tmp_path)}"},
    }
    parameters = experiment("arc_challenge", store=tmp_path / "store", runner="serial", **fakes)
    outcome = evaluated(parameters)
    for method in parameters.methods:
        assert values(tmp_path / "store", outcome, method.name)["choice"] is not None
    contexts = {method: each["generate"].rows["candidates"] for method, each in outcome.methods.items()}
    questions = outcome.methods["Self-RAG"]["score"].rows_in
    assert contexts["no retrieval"] == contexts["naive RAG"] == questions
    assert contexts["Self-RAG"] == 10 * questions
    assert contexts["PFE, full Pareto set"] == contexts["PFE, geometric mean"] == 5 * questions
