"""An evaluation, as plain Python: ask → encode_questions → retrieve → label → perturb → refine → appraise → generate →
critique → select → score, each for all methods, so that a model is loaded once and shared work is done once."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from vitalfew.configs.evaluation import Evaluate, Method
from vitalfew.configs.loading import ConfigError, build
from vitalfew.configs.schema import EncodeConfig, LoadConfig, Unit
from vitalfew.flows.pipelines.experiments import complete
from vitalfew.flows.pipelines.run import Execute, Outcome, Plan
from vitalfew.flows.pipelines.variants import with_indexes, with_texts
from vitalfew.storage.artifacts import Artifact, Manifest
from vitalfew.storage.indexes.opened import OpenedIndex
from vitalfew.storage.indexes.units import table_of
from vitalfew.storage.runs import NamedIndex, find_index
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.critique import Critique
from vitalfew.tasks.encode import EncodeQuestions
from vitalfew.tasks.generate import Generate
from vitalfew.tasks.label import Label
from vitalfew.tasks.load import Load
from vitalfew.tasks.probing.appraise import Appraise
from vitalfew.tasks.probing.perturb import Perturb
from vitalfew.tasks.refine import Refine
from vitalfew.tasks.registry import as_recorded, make, resolve
from vitalfew.tasks.report import Written, read_report, write_report
from vitalfew.tasks.retrieve import Retrieve, Searcher
from vitalfew.tasks.score import Score
from vitalfew.tasks.select import Select
from vitalfew.tasks.stage import FurtherStage, Stage

Stages = dict[str, dict[str, Stage]]
"""By method and the stage's name."""


@dataclass(frozen=True)
class Evaluated(Outcome):
    """What an evaluation came to. `methods`: each one's manifests by the stage's name; `development`: the evaluation
    that its settings were chosen by."""

    store: Path
    methods: dict[str, dict[str, Manifest]]
    development: "Evaluated | None" = None

    @cached_property
    def report(self) -> Written:
        """The report, read from the store and written there by whoever asks for it first, and once. Raises NoReport."""
        return write_report(self.store, read_report(self.store, self.run))


class EvaluationPlan(Plan):
    """The stages that answer the questions by every method, and score the answers.

    Raises what a user has to mend, before anything runs.
    """

    flow = "evaluate"
    parameters: Evaluate
    """With what was left open: the index that every method searches, and what its contexts show."""

    def __init__(self, parameters: Evaluate) -> None:
        parameters = with_texts(with_indexes(complete(parameters)))
        self.by_method = evaluation_stages(parameters)
        _check_primary(parameters.primary, next(iter(self.by_method.values()))["score"])
        every = (stage for stages in self.by_method.values() for stage in stages.values())
        super().__init__(parameters, parameters.name, every)

    @property
    def ask(self) -> Stage:
        """The stage that chooses the questions, which all methods share."""
        return next(iter(self.by_method.values()))["ask"]

    def methods(self) -> dict[str, dict[str, str]]:
        return {
            method: {stage.table: stage.artifact.name for stage in stages.values()}
            for method, stages in self.by_method.items()
        }

    def alternatives(self) -> "list[list[EvaluationPlan]]":
        """The evaluations of a run, one after the other; of each the plans of which one will be executed."""
        return [[self]]

    def run(self, execute: Execute) -> Evaluated:
        outcome = super().run(execute)
        manifests = {manifest.artifact: manifest for manifest in outcome.manifests}
        methods = {
            method: {name: manifests[stage.artifact.name] for name, stage in stages.items()}
            for method, stages in self.by_method.items()
        }
        return Evaluated(outcome.run, outcome.manifests, outcome.reused, self.store, methods)


def evaluation_stages(parameters: Evaluate, corpora: Path | None = None) -> Stages:
    """Of parameters whose methods name their index. `corpora`: the store of the indexes, and of questions that are
    loaded already, if it is another than the one that is written to."""
    store = parameters.store.absolute()
    corpora = (corpora or store).absolute()
    indexes = _indexes(corpora, parameters)
    shared: dict[str, Stage] = {}
    if parameters.questions.dataset:
        shared["load"] = _load(store, corpora, parameters.questions.dataset)
        questions = shared["load"].artifact
    elif indexes:
        questions = next(iter(indexes.values())).located(corpora)["passages"]
    else:
        raise ConfigError(
            "there are no questions; name an index (--index NAME) or a data set (--set questions.dataset=FORMAT:PATH)"
        )
    ask = shared["ask"] = Ask(store, questions, parameters.questions)
    check_indexes(corpora, parameters, indexes)
    stages = {
        method.name: {**shared, **_method_stages(store, corpora, method, ask.artifact, indexes, parameters)}
        for method in parameters.methods
    }
    check_further(parameters, stages)
    return stages


def _load(store: Path, corpora: Path, dataset: str) -> Load:
    """The stage that loads questions, in the store that has them already, else in the one that is written to."""
    there = Load(corpora, (dataset,), LoadConfig())
    return there if corpora == store or there.artifact.manifest() else Load(store, (dataset,), LoadConfig())


def _indexes(store: Path, parameters: Evaluate) -> dict[str, NamedIndex]:
    """What the methods' indexes stand for. Every name is looked up once, so that all stages are of one corpus even if
    an index of that name is finished meanwhile. Raises IndexNotFound."""
    names = dict.fromkeys(method.index for method in parameters.methods if method.index)
    return {name: find_index(store, name) for name in names}


def check_indexes(store: Path, parameters: Evaluate, indexes: Mapping[str, NamedIndex]) -> None:
    """Raises IndexMismatch, ConfigError where a method's index cannot answer its requests."""
    searchers: dict[str, Searcher] = {}
    for method in parameters.methods:
        if method.retrieve is None:
            continue
        if method.index is None:
            raise ConfigError(
                f"method {method.name} needs an index: use --index NAME, or `retrieve: null` for no retrieval"
            )
        if method.index not in searchers:
            searchers[method.index] = Searcher(OpenedIndex(method.index, indexes[method.index].located(store)))
        searchers[method.index].check(method.retrieve)


def _method_stages(
    store: Path,
    corpora: Path,
    method: Method,
    asked: Artifact,
    indexes: Mapping[str, NamedIndex],
    parameters: Evaluate,
) -> dict[str, Stage]:
    line = _Line(store, method, asked)
    units: dict[Unit, Artifact] = {}
    if method.retrieve and method.index:
        index = indexes[method.index]
        corpus = index.located(corpora)
        units = {unit: corpus[table_of(unit)] for unit in get_args(Unit) if table_of(unit) in corpus}
        retrieve = Retrieve(store, asked, None, index, method.retrieve, corpora)
        refiner = make(method.refine, "refine")
        vectors = None
        if retrieve.method.dense or refiner.needs_vectors:
            encoding = as_recorded(EncodeConfig.model_validate(index.config["encode"]), "encode").without({"device"})
            vectors = line.add(EncodeQuestions(store, asked, encoding))
        if retrieve.method.dense:
            retrieve = Retrieve(store, asked, vectors, index, method.retrieve, corpora)
        hits = line.add(retrieve)
        if method.label:
            line.add(Label(store, asked, hits, corpus["passages"], method.label))
        roles = ("passages", "sentences", "vectors")
        read: dict[str, Artifact] = {role: corpus[role] for role in roles if role in corpus}
        given = line.add(Perturb(store, asked, hits, method.perturb)) if method.perturb.changes else hits
        refined = line.add(Refine(store, asked, given, read, method.refine, vectors if refiner.needs_vectors else None))
        if method.appraise:
            line.add(Appraise(store, asked, given, refined, method.appraise))
    if method.generate:
        evidence = line.tables.get("evidence")
        candidates = line.add(Generate(store, asked, evidence, method.generate))
        if method.critique:
            critiques = line.add(Critique(store, asked, evidence, candidates, method.critique))
            if method.select:
                line.add(Select(store, candidates, critiques, method.select))
    results = {table: line.tables[table] for table in Score.results if table in line.tables}
    line.add(Score(store, asked, results, units, parameters.score))
    return line.stages


class _Line:
    """The stages of a method, in their order, and of every table the artifact that was written last."""

    def __init__(self, store: Path, method: Method, asked: Artifact) -> None:
        self.store = store
        self.stages: dict[str, Stage] = {}
        self.tables = {"asked": asked}
        self.further: list[tuple[type[FurtherStage], dict[str, Any]]] = [
            (resolve("stage", name), settings) for name, settings in method.stages.items() if settings is not None
        ]

    def add(self, stage: Stage) -> Artifact:
        """Add a stage and the further ones that follow it; its table as the next stage is to read it."""
        self.stages[stage.name] = stage
        self.tables[stage.table] = stage.artifact
        for further, settings in self.further:
            if further.after == stage.name and all(table in self.tables for table in further.reads):
                options = build(further.Options, settings)
                self.add(further(self.store, {table: self.tables[table] for table in further.reads}, options))
        return self.tables[stage.table]


def _check_primary(primary: str | None, score: Stage) -> None:
    """Raises ConfigError where no metric gives it, or neither more nor less of it is better."""
    metrics = score.metrics.values() if isinstance(score, Score) else ()
    columns = [column for metric in metrics for column in metric.columns()]
    able = [column.name for column in columns if column.direction != "neither"]
    if primary and primary not in able:
        raise ConfigError(f"primary = {primary}: it is not in score.metrics; use one of: {', '.join(able)}, or null")


def check_further(parameters: Evaluate, stages: Stages) -> None:
    """Raises ConfigError where a further stage has no place in any method."""
    for name in {name for method in parameters.methods for name, own in method.stages.items() if own is not None}:
        further = resolve("stage", name)
        if not any(further.name in of_method for of_method in stages.values()):
            needs = ", ".join(further.reads)
            raise ConfigError(
                f"stages.{name} needs a method with stage {further.after} and tables {needs}; there is no such method"
            )
