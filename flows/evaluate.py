"""The flow `evaluate`: ask → encode_questions → retrieve → refine → generate → score, on Prefect and Ray."""

from contextlib import nullcontext

from prefect import flow

from configs.evaluation import Evaluate
from flows import evaluation
from flows.stages import on_ray, ray_cluster


@flow(name="evaluate", validate_parameters=True, persist_result=False)
def evaluate(parameters: Evaluate) -> evaluation.Evaluated:
    """Answer questions by several methods, and set quality, tokens and costs side by side."""
    with nullcontext() if evaluation.is_evaluated(parameters) else ray_cluster(parameters):
        return evaluation.evaluate(parameters, on_ray(parameters.workers, keep=True))
