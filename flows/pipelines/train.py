"""A training as plain Python: load → train by a recipe, and the finished model in a directory."""

from dataclasses import dataclass
from typing import Any

from configs.training import TrainModel
from flows.pipelines.run import Execute, Outcome, Plan
from storage.runs import Run
from storage.weights import export, figures
from tasks.load import Load
from tasks.stage import Stage
from tasks.train import Train


@dataclass(frozen=True)
class Trained(Outcome):
    """The outcome of a training. `figures`: a row for every measurement on the held-out part."""

    figures: list[dict[str, Any]]

    @property
    def artifact(self) -> str:
        return self.manifests[-1].artifact


class TrainingPlan(Plan):
    """The stages that train by a recipe; the finished model is copied to `parameters.out` if that is given."""

    flow = "train"
    parameters: TrainModel

    def __init__(self, parameters: TrainModel) -> None:
        super().__init__(parameters, parameters.recipe, training_stages(parameters))

    def save(self, run: Run) -> None:
        if self.parameters.out:
            export(self.stages[-1].artifact, self.parameters.out)

    def run(self, execute: Execute) -> Trained:
        outcome = super().run(execute)
        return Trained(outcome.run, outcome.manifests, outcome.reused, figures(self.stages[-1].artifact))


def training_stages(parameters: TrainModel) -> list[Stage]:
    """load (of the questions) → load (of more passages) → train. Raises the errors that a user has to correct."""
    store = parameters.store.absolute()  # a worker may have another working directory
    loads = [Load(store, names, parameters.load) for names in (parameters.datasets, parameters.passages) if names]
    passages = loads[1].artifact if len(loads) > 1 else None
    train = Train(store, loads[0].artifact, passages, parameters.train)
    if parameters.num_gpus is not None and train.num_gpus:
        train.num_gpus = parameters.num_gpus
    return [*loads, train]
