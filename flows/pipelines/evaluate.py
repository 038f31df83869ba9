"""The stages of an evaluation, and the flow as plain Python: ask → encode_questions → retrieve → refine → generate →
critique → select → score, each for all methods, so that a model is loaded once and shared work is done once."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from configs.evaluation import Evaluate, Method
from configs.loading import ConfigError
from configs.schema import EncodeConfig, LoadConfig, Unit
from flows.pipelines.experiments import complete
from flows.pipelines.index_corpus import Execute
from flows.pipelines.variants import with_indexes
from storage.artifacts import Artifact, Manifest
from storage.catalog import database as catalog
from storage.indexes.units import table_of
from storage.runs import Run, find_index, recorded_run
from tasks.ask import Ask
from tasks.critique import Critique
from tasks.encode import EncodeQuestions
from tasks.generate import Generate
from tasks.load import Load
from tasks.refine import Refine
from tasks.registry import as_recorded, make
from tasks.retrieve import Retrieve, Searcher
from tasks.score import Score
from tasks.select import Select
from tasks.stage import Stage

UNITS: tuple[Unit, ...] = ("sentence", "passage")
VERBS = ("load", "ask", "encode_questions", "retrieve", "refine", "generate", "critique", "select", "score")


@dataclass(frozen=True)
class Evaluated:
    """What a flow came to: the run, each method's manifests by verb, and the artifacts that were already there."""

    run: Run
    methods: dict[str, dict[str, Manifest]]
    reused: set[str]


def evaluation_stages(parameters: Evaluate) -> dict[str, dict[str, Stage]]:
    """By method and verb. Raises what a user has to mend, before anything runs."""
    parameters = with_indexes(complete(parameters))
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
    unread = ("encode_questions", "critique")  # no metric asks for these
    results = {stage.table: stage.artifact for verb, stage in stages.items() if verb not in unread}
    units: dict[Unit, Artifact] = {}
    if method.retrieve and method.index:
        tables = find_index(store, method.index).artifacts
        units = {unit: _artifact(store, method.index, table_of(unit)) for unit in UNITS if table_of(unit) in tables}
    stages["score"] = Score(store, asked, results, units, parameters.score)
    return stages


def is_evaluated(parameters: Evaluate) -> bool:
    """Whether every artifact is there already, so that no workers need to be started."""
    return all(stage.manifest() for stages in evaluation_stages(parameters).values() for stage in stages.values())


def evaluate(parameters: Evaluate, execute: Execute) -> Evaluated:
    """Answer the questions by every method, and score the answers. What is there already is not done again."""
    parameters = with_indexes(complete(parameters))
    stages = evaluation_stages(parameters)
    config = parameters.model_dump(mode="json")
    due = list(_by_verb(stages))
    names = [stage.artifact.name for each in due for stage in each]
    methods = {name: {stage.table: stage.artifact.name for stage in each.values()} for name, each in stages.items()}
    manifests: dict[str, Manifest] = {}
    reused: set[str] = set()
    try:
        with recorded_run(parameters.store, "evaluate", parameters.name, config, names, methods) as run:
            for each in due:
                there = {stage.artifact.name: found for stage in each if (found := stage.manifest())}
                missing = [stage for stage in each if stage.artifact.name not in there]
                done = execute(missing, run.run_id) if missing else []
                reused |= set(there)
                manifests |= there | {manifest.artifact: manifest for manifest in done}
    finally:
        catalog.refresh(parameters.store)
    results = {
        name: {verb: manifests[stage.artifact.name] for verb, stage in each.items()} for name, each in stages.items()
    }
    return Evaluated(run, results, reused)


def _by_verb(stages: dict[str, dict[str, Stage]]) -> Iterator[list[Stage]]:
    """The stages of one verb after those of another, each artifact once."""
    for verb in VERBS:
        distinct = {each[verb].artifact.name: each[verb] for each in stages.values() if verb in each}
        if distinct:
            yield list(distinct.values())
