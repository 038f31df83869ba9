"""A training as plain Python: load → train by a recipe, and the finished model in a directory."""

from dataclasses import dataclass
from typing import Any

from vitalfew.configs.schema import LoadConfig
from vitalfew.configs.training import TrainModel, TrainOreo
from vitalfew.flows.pipelines.evaluate import SearchedIndex
from vitalfew.flows.pipelines.run import Execute, Outcome, Plan
from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact, export_weights, training_figures
from vitalfew.storage.runs import Run, find_index
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.collect import Collect
from vitalfew.tasks.encode import EncodeQuestions
from vitalfew.tasks.load import Load
from vitalfew.tasks.registry import declared, with_options
from vitalfew.tasks.reports.plots.learning import learning_plot
from vitalfew.tasks.retrieve import Retrieve
from vitalfew.tasks.stage import Stage
from vitalfew.tasks.train import Train, TrainContrastive, TrainPpo, TrainSft

PLOT = "rewards.svg"


@dataclass(frozen=True)
class Trained(Outcome):
    """The outcome of a training. `figures`: a row for every measurement on the held-out part."""

    figures: list[dict[str, Any]]

    @property
    def artifact(self) -> str:
        return self.manifests[-1].artifact


class TrainingPlan(Plan):
    """The stages that train by a recipe; the finished model is copied to `parameters.out` if that is given. Where
    rewards are learnt from, a plot of them is drawn beside it, and among the run's reports."""

    flow = "train"
    parameters: TrainModel | TrainOreo

    def __init__(self, parameters: TrainModel | TrainOreo) -> None:
        stages = oreo_stages(parameters) if isinstance(parameters, TrainOreo) else training_stages(parameters)
        for stage in stages:
            if isinstance(stage, Train) and stage.num_gpus and parameters.num_gpus is not None:
                stage.num_gpus = parameters.num_gpus
        super().__init__(parameters, parameters.recipe, stages)

    def save(self, run: Run) -> None:
        artifact, out = self.stages[-1].artifact, self.parameters.out
        if out:
            export_weights(artifact, out)
        if plot := learning_plot(_steps(artifact)):
            for folder in filter(None, (self.parameters.store / "reports" / run.run_id, out)):
                files.write_bytes(folder / PLOT, plot.encode())

    def run(self, execute: Execute) -> Trained:
        outcome = super().run(execute)
        return Trained(outcome.run, outcome.manifests, outcome.reused, training_figures(self.stages[-1].artifact))


def _steps(artifact: Artifact) -> list[dict[str, Any]]:
    """The rows of `training_steps` of a finished training."""
    shards = [record.shard for record in artifact.completed().shards if record.rows("training_steps")]
    return [row for shard in shards for row in artifact.read(shard, "training_steps").to_pylist()]


def training_stages(parameters: TrainModel) -> list[Stage]:
    """load (of the questions) → load (of more passages) → train. Raises the errors that a user has to correct."""
    store = parameters.store.absolute()  # a worker may have another working directory
    loads = [Load(store, names, parameters.load) for names in (parameters.datasets, parameters.passages) if names]
    passages = loads[1].artifact if len(loads) > 1 else None
    return [*loads, Train(store, loads[0].artifact, passages, with_options(parameters.train, Train.section))]


def oreo_stages(parameters: TrainOreo) -> list[Stage]:
    """ask → retrieve → collect → a training after another. Raises the errors that a user has to correct."""
    store = parameters.store.absolute()
    index = SearchedIndex(find_index(store, parameters.index), store)
    passages = asked = index.corpus["passages"]
    stages: list[Stage] = []
    if parameters.questions.dataset:
        stages.append(Load(store, (parameters.questions.dataset,), LoadConfig()))
        asked = stages[-1].artifact
    ask = Ask(store, asked, parameters.questions)
    stages.append(ask)
    wanted, vectors = with_options(parameters.retrieve, "retrieve"), None
    if declared(wanted, "dense"):
        stages.append(EncodeQuestions(store, ask.artifact, index.encoding))
        vectors = stages[-1].artifact
    retrieve = Retrieve(store, ask.artifact, vectors, index.named, wanted)
    collecting = with_options(parameters.collect, "collect")
    collect = Collect(store, ask.artifact, retrieve.artifact, passages, collecting)
    stages += [retrieve, collect]
    earlier = None
    trainings = (TrainSft, parameters.sft), (TrainContrastive, parameters.contrastive), (TrainPpo, parameters.ppo)
    for kind, config in trainings:
        if config is not None:
            stages.append(kind(store, collect.artifact, earlier, with_options(config, kind.section)))
            earlier = stages[-1].artifact
    return stages
