"""An evaluation, as plain Python: ask → encode_questions → retrieve → label → refine → generate → critique → select →
score, each for all methods, so that a model is loaded once and shared work is done once."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import get_args

from configs.evaluation import Evaluate, Method
from configs.loading import ConfigError
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
from tasks.registry import as_recorded, make
from tasks.report import Written, read_report, write_report
from tasks.retrieve import Retrieve, Searcher
from tasks.score import Score
from tasks.select import Select
from tasks.stage import Stage

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
    return {
        method.name: {**shared, **_method_stages(store, method, ask.artifact, parameters)}
        for method in parameters.methods
    }


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
    stages: dict[str, Stage] = {}
    if method.retrieve and method.index:
        named = find_index(store, method.index)
        retrieve = Retrieve(store, asked, None, method.index, method.retrieve)
        refiner = make(method.refine, "refine")
        vectors = None
        if retrieve.retriever.dense or refiner.needs_vectors:
            encoding = as_recorded(EncodeConfig.model_validate(named.config["encode"]), "encode").without({"device"})
            stages["encode_questions"] = EncodeQuestions(store, asked, encoding)
            vectors = stages["encode_questions"].artifact
        if retrieve.retriever.dense:
            retrieve = Retrieve(store, asked, vectors, method.index, method.retrieve)
        stages["retrieve"] = retrieve
        roles = ("passages", "sentences", "vectors")
        corpus = {role: _artifact(store, method.index, role) for role in roles if role in named.artifacts}
        if method.label:
            stages["label"] = Label(store, asked, retrieve.artifact, corpus["passages"], method.label)
        needed = vectors if refiner.needs_vectors else None
        stages["refine"] = Refine(store, asked, retrieve.artifact, corpus, method.refine, needed)
    if method.generate:
        evidence = stages["refine"].artifact if "refine" in stages else None
        stages["generate"] = Generate(store, asked, evidence, method.generate)
        candidates = stages["generate"].artifact
        if method.critique:
            stages["critique"] = Critique(store, asked, evidence, candidates, method.critique)
        if method.select:
            stages["select"] = Select(store, candidates, stages["critique"].artifact, method.select)
    results = {stage.table: stage.artifact for stage in stages.values() if stage.table in Score.results}
    units: dict[Unit, Artifact] = {}
    if method.retrieve and method.index:
        tables = find_index(store, method.index).artifacts
        units = {
            unit: _artifact(store, method.index, table_of(unit)) for unit in get_args(Unit) if table_of(unit) in tables
        }
    stages["score"] = Score(store, asked, results, units, parameters.score)
    return stages
