"""The flow `train`: load → train by a recipe, on Prefect and Ray."""

from contextlib import nullcontext

from prefect import flow

from configs.training import TrainModel
from flows.artifacts import show_costs, show_figures
from flows.execute import on_ray
from flows.forms import TrainForm
from flows.pipelines import train as training
from flows.ray_pool import ray_cluster


@flow(name="train", flow_run_name="{parameters.recipe}", validate_parameters=True, persist_result=False)
def train(parameters: TrainForm) -> training.Trained:
    """Train a model by a recipe and measure it on what it has not seen; a run that was killed goes on from its
    checkpoint."""
    return train_and_show(parameters.training())


def train_and_show(parameters: TrainModel) -> training.Trained:
    """What the form and the command do."""
    with nullcontext() if training.is_trained(parameters) else ray_cluster(parameters):
        trained = training.train(parameters, on_ray(parameters.workers))
    show_costs(parameters.store, trained.manifests, trained.reused)
    show_figures(parameters.recipe, trained.figures)
    return trained
