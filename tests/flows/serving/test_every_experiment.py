"""The answer served is the answer evaluated, for every method of an experiment that runs with the bundled models."""

import json
from collections.abc import Iterator
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
from vitalfew.flows.pipelines.answering import Answering, Configured
from vitalfew.flows.pipelines.evaluate import EvaluationPlan
from vitalfew.flows.serving.application import application
from vitalfew.flows.serving.configurations import Served
from vitalfew.storage.artifacts import Artifact

pytestmark = pytest.mark.slow

CORPUS = "synthetic:passages=120,questions=45,seed=3"
QUESTIONS = 10
BUNDLED = {None, "oreo", "cxmi", "embedded", "reader"}
"""Names of models that come with the package; null is a method's own."""


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
    """The different methods of all experiments, on one index; each is named EXPERIMENT / METHOD."""
    seen = set()
    for name in experiments.names(store):
        given = {"store": store, "index": "test", "choose": None}
        for method in experiments.evaluation(name, experiments.find(name, store)[1], given).methods:
            own = method.model_copy(update={"name": f"{name} / {method.name}", "variant": {}})
            settings = json.dumps(own.sections(), sort_keys=True)
            if settings not in seen and runs_here(own) and can_be_planned(store, own):
                seen.add(settings)
                yield own


def can_be_planned(store: Path, method: Method) -> bool:
    try:
        EvaluationPlan(evaluation(store, (method,)))
    except (ConfigError, FileNotFoundError) as error:
        print(method.name, error)
        return False
    return True


def test_explore(tmp_path: Path) -> None:
    import time
    b = time.time()
    made = indexed(CORPUS, bm25={"enabled": True}, encode={"encoder": "minilm"})
    store = copied(made, tmp_path / "store")
    print("indexed", time.time() - b)
    found = [*methods(store)]
    print(len(found), time.time() - b)
    for k in found: print("   ", k.name)
    plan = EvaluationPlan(evaluation(store, tuple(found)))
    outcome = evaluated(plan.parameters)
    print("evaluated", time.time() - b)
    print(outcome.methods[found[0].name])
