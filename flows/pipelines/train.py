"""A training as plain Python: load → train by a recipe, and the finished model in a directory."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import LoadConfig
from vitalfew.configs.section import Section
from vitalfew.configs.training import SplitOptions, TrainModel, TrainOreo
from vitalfew.flows.pipelines.evaluate import SearchedIndex
from vitalfew.flows.pipelines.run import Execute, Outcome, Plan
from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact, export_weights, training_figures
from vitalfew.storage.runs import Run, find_index
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.collect import Collect
from vitalfew.tasks.encode import EncodeQuestions
from vitalfew.tasks.load import Load
from vitalfew.tasks.registry import declared, method_named, with_options
from vitalfew.tasks.reports.plots.learning import learning_plot
from vitalfew.tasks.reports.runs import find_run, read_manifest
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
    """load (of the questions) → load (of more passages, of data sets that are held out) → train. Raises the errors that
    a user has to correct."""
    store = parameters.store.absolute()  # a worker may have another working directory
    options = with_options(parameters.train, Train.section)
    whole, apart = _loads(store, options, parameters.datasets, parameters.load)
    loads = [whole, *apart.values()]
    passages = Load(store, parameters.passages, parameters.load) if parameters.passages else None
    loads += [passages] if passages else []
    more = {part: load.artifact for part, load in apart.items()}
    if parameters.labels:
        more["labels"] = labels_of(store, parameters.labels)
    return [*loads, Train(store, whole.artifact, passages.artifact if passages else None, options, more)]


def _loads(
    store: Path, options: Section, datasets: tuple[str, ...], config: LoadConfig
) -> tuple[Load, dict[str, Load]]:
    """All questions, and those that are not learnt from, by their part."""
    given: dict[str, str] = options.apart if isinstance(options, SplitOptions) else {}
    apart = {part: Load(store, (dataset,), config) for part, dataset in given.items()}
    return Load(store, (*given.values(), *datasets), config), apart


def labels_of(store: Path, given: str) -> Artifact:
    """The labels of an evaluation, given as `RUN` or `RUN:METHOD`. Raises NoReport, ConfigError."""
    name, _, wanted = given.partition(":")
    run = find_run(store, name)
    labelled = {method: tables["labels"] for method, tables in run.methods.items() if "labels" in tables}
    if not labelled:
        raise ConfigError(
            f"labels: run {run.run_id} of {run.name} has no labels; evaluate it with --set label.labeller=…"
        )
    method = method_named(wanted, labelled) if wanted else ""
    found = {labelled[method]} if method in labelled else set(labelled.values())
    if len(found) > 1 or (method and method not in labelled):
        raise ConfigError(
            f"labels: run {run.run_id} of {run.name} has the labels of {', '.join(labelled)}; name one of these "
            f"methods, as in labels={name}:{next(iter(labelled))}"
        )
    (artifact,) = found
    read_manifest(store, artifact)
    return Artifact(store, *artifact.split("/"))


def oreo_stages(parameters: TrainOreo) -> list[Stage]:
    """ask → retrieve → collect → a training after another. Raises the errors that a user has to correct."""
    store = parameters.store.absolute()
    index = SearchedIndex(find_index(store, parameters.index), store)
    passages = asked = index.corpus["passages"]
    stages: list[Stage] = []
    collecting = with_options(parameters.collect, "collect")
    apart: dict[str, Load] = {}
    if parameters.questions.dataset:
        whole, apart = _loads(store, collecting, (parameters.questions.dataset,), LoadConfig())
        stages += [whole, *apart.values()]
        asked = whole.artifact
    elif collecting.split == "file":
        raise ConfigError("collect.split=file needs the data set to learn from: --set questions.dataset=FORMAT:PATH")
    ask = Ask(store, asked, parameters.questions)
    stages.append(ask)
    wanted, vectors = with_options(parameters.retrieve, "retrieve"), None
    if declared(wanted, "dense"):
        stages.append(EncodeQuestions(store, ask.artifact, index.encoding))
        vectors = stages[-1].artifact
    retrieve = Retrieve(store, ask.artifact, vectors, index.named, wanted)
    of_parts = {part: load.artifact for part, load in apart.items()}
    collect = Collect(store, ask.artifact, retrieve.artifact, passages, collecting, of_parts)
    stages += [retrieve, collect]
    earlier = None
    trainings = (TrainSft, parameters.sft), (TrainContrastive, parameters.contrastive), (TrainPpo, parameters.ppo)
    for kind, config in trainings:
        if config is not None:
            stages.append(kind(store, collect.artifact, earlier, with_options(config, kind.section)))
            earlier = stages[-1].artifact
    return stages
