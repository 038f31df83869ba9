"""An evaluation, as plain Python: ask → encode_questions → retrieve → label → refine → generate → critique → select →
score, each for all methods, so that a model is loaded once and shared work is done once."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from configs.evaluation import Evaluate, Method
from configs.loading import ConfigError, build
from configs.schema import EncodeConfig, LoadConfig, Unit
from flows.pipelines.experiments import complete
from flows.pipelines.run import Execute, Outcome, Plan
from flows.pipelines.variants import with_indexes
from storage.artifacts import Artifact, Manifest
from storage.indexes.units import table_of
from storage.runs import find_index
from tasks.ask import Ask
from tasks.critique import Critique
from tasks.encode import EncodeQuestions
from tasks.generate import Generate
from tasks.label import Label
from tasks.load import Load
from tasks.refine import Refine
from tasks.registry import as_recorded, make, resolve
from tasks.report import Written, read_report, write_report
from tasks.retrieve import Retrieve, Searcher
from tasks.score import Score
from tasks.select import Select
from tasks.stage import FurtherStage, Stage

Stages = dict[str, dict[str, Stage]]
"""By method and the stage's name."""


@dataclass(frozen=True)
class Evaluated(Outcome):
    """What an evaluation came to. `methods`: each one's manifests by the stage's name."""

    store: Path
    methods: dict[str, dict[str, Manifest]]

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
    """With the name of the index that every method searches, where it asked for a variant."""

    def __init__(self, parameters: Evaluate) -> None:
        parameters = with_indexes(complete(parameters))
        self.by_method = evaluation_stages(parameters)
        every = (stage for stages in self.by_method.values() for stage in stages.values())
        super().__init__(parameters, parameters.name, every)

    def methods(self) -> dict[str, dict[str, str]]:
        return {
            method: {stage.table: stage.artifact.name for stage in stages.values()}
            for method, stages in self.by_method.items()
        }

    def run(self, execute: Execute) -> Evaluated:
        outcome = super().run(execute)
        manifests = {manifest.artifact: manifest for manifest in outcome.manifests}
        methods = {
            method: {name: manifests[stage.artifact.name] for name, stage in stages.items()}
            for method, stages in self.by_method.items()
        }
        return Evaluated(outcome.run, outcome.manifests, outcome.reused, self.store, methods)


def evaluation_stages(parameters: Evaluate) -> Stages:
    """Of parameters whose methods name their index."""
    store = parameters.store.absolute()
    shared: dict[str, Stage] = {}
    if parameters.questions.dataset:
        shared["load"] = Load(store, (parameters.questions.dataset,), LoadConfig())
        questions = shared["load"].artifact
    else:
        questions = _artifact(store, _any_index(parameters), "passages")
    ask = shared["ask"] = Ask(store, questions, parameters.questions)
    check_indexes(parameters)
    stages = {
        method.name: {**shared, **_method_stages(store, method, ask.artifact, parameters)}
        for method in parameters.methods
    }
    check_further(parameters, stages)
    return stages


def _any_index(parameters: Evaluate) -> str:
    for method in parameters.methods:
        if method.index:
            return method.index
    raise ConfigError(
        "whose questions? Name an index (--index NAME) or a data set (--set questions.dataset=FORMAT:PATH)"
    )


def _artifact(store: Path, index: str, role: str) -> Artifact:
    return Artifact(store, *find_index(store, index).artifacts[role].split("/"))


def check_indexes(parameters: Evaluate) -> None:
    """Raises IndexNotFound, IndexMismatch, ConfigError where a method's index cannot answer its requests."""
    searchers: dict[str, Searcher] = {}
    for method in parameters.methods:
        if method.retrieve is None:
            continue
        if method.index is None:
            raise ConfigError(f"method {method.name}: which index? --index NAME, or `retrieve: null` for none")
        if method.index not in searchers:
            searchers[method.index] = Searcher(parameters.store, method.index)
        searchers[method.index].check(method.retrieve)


def _method_stages(store: Path, method: Method, asked: Artifact, parameters: Evaluate) -> dict[str, Stage]:
    line = _Line(store, method, asked)
    if method.retrieve and method.index:
        named = find_index(store, method.index)
        retrieve = Retrieve(store, asked, None, method.index, method.retrieve)
        refiner = make(method.refine, "refine")
        vectors = None
        if retrieve.retriever.dense or refiner.needs_vectors:
            encoding = as_recorded(EncodeConfig.model_validate(named.config["encode"]), "encode").without({"device"})
            vectors = line.add(EncodeQuestions(store, asked, encoding))
        if retrieve.retriever.dense:
            retrieve = Retrieve(store, asked, vectors, method.index, method.retrieve)
        hits = line.add(retrieve)
        roles = ("passages", "sentences", "vectors")
        corpus = {role: _artifact(store, method.index, role) for role in roles if role in named.artifacts}
        if method.label:
            line.add(Label(store, asked, hits, corpus["passages"], method.label))
        needed = vectors if refiner.needs_vectors else None
        line.add(Refine(store, asked, hits, corpus, method.refine, needed))
    if method.generate:
        evidence = line.tables.get("evidence")
        candidates = line.add(Generate(store, asked, evidence, method.generate))
        if method.critique:
            critiques = line.add(Critique(store, asked, evidence, candidates, method.critique))
            if method.select:
                line.add(Select(store, candidates, critiques, method.select))
    results = {table: line.tables[table] for table in Score.results if table in line.tables}
    units: dict[Unit, Artifact] = {}
    if method.retrieve and method.index:
        tables = find_index(store, method.index).artifacts
        units = {
            unit: _artifact(store, method.index, table_of(unit)) for unit in get_args(Unit) if table_of(unit) in tables
        }
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


def check_further(parameters: Evaluate, stages: Stages) -> None:
    """Raises ConfigError where a further stage has no place in any method."""
    for name in {name for method in parameters.methods for name, own in method.stages.items() if own is not None}:
        further = resolve("stage", name)
        if not any(further.name in of_method for of_method in stages.values()):
            needs = ", ".join(further.reads)
            raise ConfigError(f"stages.{name} follows {further.after} and reads {needs}: no method here has both")
