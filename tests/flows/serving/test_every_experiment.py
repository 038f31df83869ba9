"""The answer served is the answer evaluated, for every method of an experiment that runs with the bundled models."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.evaluating import copied, evaluated
from tests.support.serving import Running
from tests.support.shared import indexed
from vitalfew.configs.evaluation import Evaluate, Method
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.pipelines import experiments
from vitalfew.flows.pipelines.answering import Answering, Configured, configured
from vitalfew.flows.pipelines.evaluate import EvaluationPlan
from vitalfew.flows.serving.application import application
from vitalfew.flows.serving.configurations import Served
from vitalfew.storage.artifacts import Artifact
from vitalfew.tasks.models.device import precision_name
from vitalfew.tasks.perturb import Perturb

pytestmark = pytest.mark.slow

CORPUS = "synthetic:passages=120,questions=45,seed=3"
QUESTIONS = 2
BUNDLED = {None, "oreo", "cxmi", "embedded", "reader"}
"""Names of models that come with the package; null is a method's own."""
CHOSEN = ("retriever", "refiner", "critic", "selector")


def settings_of(value: Any, name: str) -> Iterator[Any]:
    """Every value of a setting with this name, wherever it stands."""
    for key, own in value.items() if isinstance(value, dict) else ():
        if key == name:
            yield own
        yield from settings_of(own, name)


def runs_here(method: Method) -> bool:
    """Return true if the reader answers, and no model is named that does not come with the package."""
    models = [own for name in ("model", "adapter", "rater") for own in settings_of(method.sections(), name)]
    is_read = method.generate is not None and method.generate.generator == "reader"
    return is_read and all(isinstance(own, str | None) and own in BUNDLED for own in models)


def evaluation(store: Path, methods: tuple[Method, ...]) -> Evaluate:
    questions: Any = {"sample": QUESTIONS}
    given: dict[str, Any] = {"store": store, "runner": "serial", "questions": questions}
    return experiments.complete(Evaluate(name="every", methods=methods, **given))


def methods(store: Path) -> Iterator[Method]:
    """Methods of all experiments, on one index, named EXPERIMENT / METHOD; of several with the same retriever, refiner,
    critic and selector, the first. A method that disturbs its hits by those of other questions cannot be served."""
    seen = set()
    for name in experiments.names(store):
        given = {"store": store, "index": "test", "choose": None}
        for method in experiments.evaluation(name, experiments.find(name, store)[1], given).methods:
            own = method.model_copy(update={"name": f"{name} / {method.name}", "variant": {}})
            shape = str([next(settings_of(own.sections(), kind), None) for kind in CHOSEN])
            if shape not in seen and runs_here(own) and not Perturb.is_due(own.stages["perturb"]):
                seen.add(shape)
                yield own


def rows(artifact: Artifact) -> list[dict[str, Any]]:
    return [row for record in artifact.completed().shards for row in artifact.read(record.shard).to_pylist()]


def evaluated_answers(plan: EvaluationPlan, method: str) -> dict[str, str]:
    """The store's answer to every question."""
    stages = plan.by_method[method]
    texts = {row["question_id"]: row["text"] for row in rows(plan.ask.artifact)}
    if "select" in stages:
        best = [row for row in rows(stages["select"].artifact) if row["rank"] == 1]
    else:
        best = [row for row in rows(stages["generate"].artifact) if row["candidate"] == 0]
    return {texts[row["question_id"]]: row["text"] for row in best}


def served_answers(plan: EvaluationPlan, method: Method, questions: Sequence[str]) -> list[dict[str, str]]:
    """The server's answers to all questions, one by one and at once."""
    chosen = Configured(plan.parameters.name, method, plan.indexes[method.index] if method.index else None, "")
    served = Served("model", Answering(plan.parameters.store, chosen))
    with Running(lambda hosts: application([served], hosts=hosts)) as running, running.client() as client:
        running.ready()

        def ask(question: str) -> str:
            asked = client.post("/answer", json={"question": question}).raise_for_status()
            return str(asked.json()["text"])

        with ThreadPoolExecutor(len(questions)) as pool:
            return [
                dict(zip(questions, found, strict=True)) for found in (map(ask, questions), pool.map(ask, questions))
            ]


def test_every_method_answers_as_it_was_evaluated(tmp_path: Path) -> None:
    made = indexed(CORPUS, bm25={"enabled": True}, encode={"encoder": "minilm"})
    store = copied(made, tmp_path / "store")
    plan = EvaluationPlan(evaluation(store, tuple(methods(store))))
    evaluated(plan.parameters)
    with pytest.raises(ConfigError, match="which only an evaluation has"):
        Answering(store, configured(store, "oreo/figure6:Oreo noise=1", "test"))
    asked, different = 0, []
    for method in plan.parameters.methods:
        expected = evaluated_answers(plan, method.name)
        assert len(expected) == QUESTIONS
        for found in served_answers(plan, method, [*expected]):
            different += [(method.name, question) for question, text in found.items() if text != expected[question]]
            asked += len(found)
    assert len(plan.parameters.methods) > 25
    assert len(different) <= (0 if precision_name("auto", "cpu") == "fp32" else 0.02 * asked), different
