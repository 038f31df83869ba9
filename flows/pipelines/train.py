"""A training as plain Python: a recipe and data sets → load → train, and the finished model in a directory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from configs.training import TrainModel
from flows.pipelines.index_corpus import Execute
from storage.artifacts import Manifest
from storage.catalog import database as catalog
from storage.runs import Run, recorded_run
from storage.weights import export, figures
from tasks.load import Load
from tasks.stage import Stage
from tasks.train import Train


@dataclass(frozen=True)
class Trained:
    """What a training came to: the run, its manifests in order, the stages of them that were already there, and a row
    of figures for each measurement on what was held out."""

    run: Run
    manifests: list[Manifest]
    reused: set[str]
    figures: list[dict[str, Any]]

    @property
    def artifact(self) -> str:
        return self.manifests[-1].artifact


def training_stages(parameters: TrainModel) -> list[Stage]:
    """load (of the questions) → load (of more passages) → train. Raises what a user has to mend."""
    store = parameters.store.absolute()  # a worker may have another working directory
    loads = [Load(store, names, parameters.load) for names in (parameters.datasets, parameters.passages) if names]
    passages = loads[1].artifact if len(loads) > 1 else None
    train = Train(store, loads[0].artifact, passages, parameters.train)
    if parameters.num_gpus is not None and train.num_gpus:
        train.num_gpus = parameters.num_gpus
    return [*loads, train]


def is_trained(parameters: TrainModel) -> bool:
    """Whether every artifact is there already, so that no workers need to be started."""
    return all(stage.manifest() for stage in training_stages(parameters))


def train(parameters: TrainModel, execute: Execute) -> Trained:
    """Train by a recipe, and copy the finished model to `parameters.out` where that is given. What is there already is
    not done again."""
    stages = training_stages(parameters)
    config = parameters.model_dump(mode="json")
    artifacts = [stage.artifact.name for stage in stages]
    try:
        with recorded_run(parameters.store, "train", parameters.recipe, config, artifacts) as run:
            reused = {stage.artifact.name for stage in stages if stage.manifest()}
            manifests = [manifest for stage in stages for manifest in _done(stage, execute, run)]
            trained = stages[-1].artifact
            if parameters.out:
                export(trained, parameters.out)
    finally:
        catalog.refresh(parameters.store)  # fails no run and hides no error
    return Trained(run, manifests, reused, figures(trained))


def _done(stage: Stage, execute: Execute, run: Run) -> Sequence[Manifest]:
    manifest = stage.manifest()
    return [manifest] if manifest else execute([stage], run.run_id)
