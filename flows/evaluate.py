"""The flow `evaluate`: ask → encode_questions → retrieve → refine → generate → critique → select → score → report, on
Prefect and Ray."""

import os
from contextlib import nullcontext, suppress
from typing import cast

from prefect import flow
from prefect.blocks.system import Secret

from configs.evaluation import Evaluate
from flows.artifacts import show_costs, show_report
from flows.execute import on_ray
from flows.forms import EvaluateForm
from flows.pipelines import evaluate as evaluation
from flows.pipelines.evaluate import Evaluated
from flows.ray_pool import ray_cluster

KEY, SECRET = "OPENAI_API_KEY", "openai-api-key"


@flow(name="evaluate", validate_parameters=True, persist_result=False)
def evaluate(parameters: Evaluate) -> evaluation.Evaluated:
    """Answer questions by several methods, and set quality, tokens, time and costs side by side."""
    return evaluate_and_show(parameters)


def evaluate_and_show(parameters: Evaluate) -> evaluation.Evaluated:
    """What every flow does that evaluates."""
    if any(method.generate and method.generate.generator == "openai" for method in parameters.methods):
        use_secret()
    with nullcontext() if evaluation.is_evaluated(parameters) else ray_cluster(parameters):
        outcome = evaluation.evaluate(parameters, on_ray(parameters.workers, keep=True))
    made = {manifest.artifact: manifest for each in outcome.methods.values() for manifest in each.values()}
    methods: dict[str, list[str]] = {artifact: [] for artifact in made}
    for name, each in outcome.methods.items():
        for manifest in each.values():
            methods[manifest.artifact].append(name)
    show_costs(parameters.store, made.values(), outcome.reused, methods)
    show_report(parameters.store, outcome.run)
    return outcome


def use_secret() -> None:
    """Take the key of the generator `openai` from Prefect's Secret block `openai-api-key`, where there is one and the
    environment has none. Workers that this process starts inherit its environment; nothing else sees the key."""
    if not os.environ.get(KEY):
        with suppress(ValueError):  # no such block
            os.environ[KEY] = cast(Secret[str], Secret.load(SECRET)).get()


@flow(
    name="evaluate-experiment",
    flow_run_name="{parameters.experiment}",
    validate_parameters=True,
    persist_result=False,
)
def evaluate_experiment(parameters: EvaluateForm) -> Evaluated:
    """Answer questions by the methods of an experiment, and set quality, tokens, time and costs side by side."""
    return evaluate_and_show(parameters.evaluation())
