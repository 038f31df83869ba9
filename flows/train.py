"""The flow `train`: load → train by a recipe, on Prefect and Ray."""

from contextlib import nullcontext

from prefect import flow

from vitalfew.flows.errors import explained
from vitalfew.flows.execute import on_ray, one_cap, show_costs, show_figures
from vitalfew.flows.forms import TrainForm
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.quote.cap import check_cap
from vitalfew.flows.pipelines.train import Trained
from vitalfew.flows.ray_pool import ray_cluster


@flow(name="train", flow_run_name="{parameters.recipe}", validate_parameters=True, persist_result=False)
@explained
def train(parameters: TrainForm) -> Trained:
    """Train a model with a recipe and evaluate it on held-out data; a killed run resumes from its checkpoint."""
    training = parameters.training()
    plan = graph(training)
    check_cap(plan)
    with one_cap(training.max_usd), nullcontext() if plan.done() else ray_cluster(training):
        trained = plan.run(on_ray(training.workers))
    show_costs(training.store, trained)
    show_figures(training.recipe, trained.figures)
    return trained
