"""The flow `train`: load → train by a recipe, on Prefect and Ray."""

from prefect import flow

from vitalfew.flows.errors import explained
from vitalfew.flows.execute import handed, run_on_ray, show_costs, show_figures
from vitalfew.flows.forms import TrainForm
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.train import Trained
from vitalfew.flows.workers.holders import hold


@flow(name="train", flow_run_name="{parameters.recipe}", persist_result=False, on_running=[hold])
@explained
def train(parameters: TrainForm) -> Trained:
    """Train a model with a recipe and evaluate it on held-out data; a killed run resumes from its checkpoint."""
    training = parameters.training()
    trained: Trained = run_on_ray(handed() or graph(training), fresh=True)
    show_costs(training.store, trained)
    show_figures(training.recipe, trained.figures)
    return trained
