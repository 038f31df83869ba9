"""An evaluation, as plain Python: ask → encode_questions → retrieve → label → perturb → refine → appraise → generate →
critique → select → score, each for all methods, so that a model is loaded once and shared work is done once."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from vitalfew.configs.evaluation import Evaluate, Method
from vitalfew.configs.loading import ConfigError, build, merged
from vitalfew.configs.schema import USUAL_CONTEXT, EncodeConfig, IndexCorpus, LoadConfig, Unit
from vitalfew.configs.section import Section
from vitalfew.flows.pipelines.experiments import complete
from vitalfew.flows.pipelines.run import Execute, Outcome, Plan
from vitalfew.storage.artifacts import Artifact, Manifest
from vitalfew.storage.indexes.opened import IndexMismatch, OpenedIndex
from vitalfew.storage.indexes.units import table_of
from vitalfew.storage.runs import NamedIndex, find_index, index_names
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.encode import EncodeQuestions
from vitalfew.tasks.generate import Generate
from vitalfew.tasks.load import Load
from vitalfew.tasks.rate import Critique
from vitalfew.tasks.refine import Refine
from vitalfew.tasks.registry import as_recorded, completed, declared, resolve, with_options
from vitalfew.tasks.report import WrittenReport, read_report, write_report
from vitalfew.tasks.retrieve import Retrieve, Searcher
from vitalfew.tasks.score import Score
from vitalfew.tasks.select import Select
from vitalfew.tasks.stage import FurtherStage, Stage

SECTIONS = tuple(name for name, field in IndexCorpus.model_fields.items() if isinstance(field.default, BaseModel))
"""The settings that decide an index of given sources."""


def with_indexes(parameters: Evaluate) -> Evaluate:
    """The parameters with the name of the index that a method's `variant` asks for.

    Raises IndexNotFound, ConfigError, and IndexMismatch, with the command that makes the index, if there is none.
    """
    methods = [
        method.model_copy(update={"index": _variant(parameters.store, method, method.index)})
        if method.variant and method.retrieve and method.index
        else method
        for method in parameters.methods
    ]
    return parameters.model_copy(update={"methods": tuple(methods)})


def with_texts(parameters: Evaluate) -> Evaluate:
    """The parameters with what every method's contexts show: where nothing is said, what its index was encoded from.
    Raises IndexNotFound."""
    methods = tuple(_shown(parameters.store, method) for method in parameters.methods)
    return parameters.model_copy(update={"methods": methods})


def _shown(store: Path, method: Method) -> Method:
    refine = method.refine
    if not (method.retrieve and method.index) or (refine.text and not (refine.is_wider and refine.titles is None)):
        return method
    encoding = EncodeConfig.recorded(find_index(store, method.index).config["encode"])
    shown = {"titles": encoding.text == "titled"} if refine.text else {"text": encoding.text}
    return method.model_copy(update={"refine": refine.model_copy(update=shown)})


def _variant(store: Path, method: Method, index: str) -> str:
    """The index itself if it has the settings, else the most similar index of the same passages that has them."""
    base = find_index(store, index)
    try:
        wanted = _settings(merged(base.config, method.variant))
        _check(method.variant, base)
    except ConfigError as error:
        raise ConfigError(f"method {method.name}, variant: {error}") from None
    asked = dict(_flat({section: method.variant[section] for section in SECTIONS if section in method.variant}))
    if unknown := method.variant.keys() - set(SECTIONS):
        raise ConfigError(
            f"method {method.name}: variant has an unknown section {min(unknown)!r}; known: {', '.join(SECTIONS)}"
        )
    unit = declared(method.retrieve, "unit") if method.retrieve else ""
    differences = {
        name: sum(settings.get(key) != wanted.get(key) for key in wanted.keys() | settings.keys())
        for name, settings in _indexes_of(store, base)
        if all(settings.get(key) == wanted[key] for key in asked) and unit in settings["encode.units"]
    }
    if differences:
        return min(differences, key=lambda name: (differences[name], name != index, name))
    settings_due = " and ".join(f"{key}={_text(wanted[key])}" for key in asked)
    raise IndexMismatch(
        f"method {method.name} needs an index of the corpus of {index!r} with {settings_due}; to make it, run\n  "
        f"{_command(store, base, wanted, asked)}"
    )


def _check(variant: Mapping[str, Any], base: NamedIndex) -> None:
    """Raises UnknownName, ConfigError for a setting that its method lacks."""
    whole = build(IndexCorpus, base.config)
    for name, settings in variant.items():
        section = getattr(whole, name, None)
        if isinstance(section, Section):
            field = section.field()
            with_options(build(section.shared(), {field: getattr(section, field)}, settings), name)


def _indexes_of(store: Path, base: NamedIndex) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every index of the same passages, with its settings."""
    for name in index_names(store):
        index = find_index(store, name)
        if index.artifacts["passages"] == base.artifacts["passages"]:
            yield name, _settings(index.config)


def _settings(config: Mapping[str, Any], read: Callable[[Section, str], Section] = as_recorded) -> dict[str, Any]:
    """By path ("encode.context"), all settings that determine an index of given sources. For an index of an older
    version, newer settings are what that did or their defaults, and settings that no longer exist are dropped."""
    whole = completed(build(IndexCorpus, config), read=read).model_dump(mode="json")
    return dict(_flat({section: whole[section] for section in SECTIONS}))


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _command(store: Path, base: NamedIndex, wanted: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    usual = _settings({"datasets": base.config["datasets"], "name": base.name}, with_options)
    usual |= {"encode.context": USUAL_CONTEXT}
    sets = [f"{key}={_text(wanted[key])}" for key in wanted if wanted[key] != usual.get(key) or key in asked]
    named = [key for key in asked if key != "encode.reuse"] or [*asked]
    name = "-".join([base.name, *(f"{key.rpartition('.')[2]}-{_text(wanted[key])}" for key in named)])
    name = re.sub(r"[^A-Za-z0-9._]+", "-", name)[:100].strip("-")
    parts = ["vitalfew", "index", *base.config["datasets"], "--name", name]
    parts += [part for assignment in sets for part in ("--set", assignment)]
    parts += [] if str(store) == "store" else ["--store", str(store)]
    return " ".join(map(shlex.quote, parts))


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


Stages = dict[str, dict[str, Stage]]
"""By method and the stage's name."""


@dataclass(frozen=True)
class Evaluated(Outcome):
    """The outcome of an evaluation. `methods`: manifests by method and the stage's name; `development`: the evaluation
    that its settings were chosen by."""

    store: Path
    methods: dict[str, dict[str, Manifest]]
    development: "Evaluated | None" = None

    @cached_property
    def report(self) -> WrittenReport:
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
    """Plan the stages of parameters whose methods name their index. `corpora`: the store of the indexes, and of
    questions that are loaded already, if it is another than the one that is written to."""
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
    """Look up the methods' indexes. Every name is looked up once, so that all stages are of one corpus even if
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
        is_dense, needs_vectors = declared(method.retrieve, "dense"), declared(method.refine, "needs_vectors")
        vectors = None
        if is_dense or needs_vectors:
            encoding = as_recorded(EncodeConfig.model_validate(index.config["encode"]), "encode").without({"device"})
            vectors = line.add(EncodeQuestions(store, asked, encoding))
        read = {role: corpus[role] for role in ("passages", "sentences", "vectors") if role in corpus}
        line.tables |= read
        hits = line.add(Retrieve(store, asked, vectors if is_dense else None, index, method.retrieve, corpora))
        line.add(Refine(store, asked, hits, read, method.refine, vectors if needs_vectors else None))
    if method.generate:
        evidence = line.tables.get("evidence")
        candidates = line.add(Generate(store, asked, evidence, method.generate))
        if method.critique:
            critiques = line.add(Critique(store, asked, evidence, candidates, method.critique))
            if method.select:
                line.add(Select(store, candidates, critiques, method.select))
    written = {stage.table: stage.artifact for stage in line.stages.values()}
    results = {table: written[table] for table in Score.results if table in written}
    line.add(Score(store, asked, results, units, parameters.score))
    return line.stages


class _Line:
    """The stages of a method, in their order, and the tables as the next stage is to read them."""

    def __init__(self, store: Path, method: Method, asked: Artifact) -> None:
        self.store = store
        self.stages: dict[str, Stage] = {}
        self.tables = {"asked": asked}
        self.further = further_stages(method)

    def add(self, stage: Stage) -> Artifact:
        """Add a stage and the further ones that follow it; its table as the next stage is to read it."""
        self.stages[stage.name] = stage
        self.tables[stage.table] = stage.artifact
        if isinstance(stage, FurtherStage) and stage.replaces:
            self.tables[stage.replaces] = stage.artifact
        for further, options in self.further.values():
            if further.after == stage.name and all(table in self.tables for table in further.reads):
                self.add(further(self.store, {table: self.tables[table] for table in further.reads}, options))
        return self.tables[stage.table]


def _check_primary(primary: str | None, score: Stage) -> None:
    """Raises ConfigError where no metric gives it, or neither more nor less of it is better."""
    metrics = score.metrics.values() if isinstance(score, Score) else ()
    columns = [column for metric in metrics for column in metric.columns()]
    able = [column.name for column in columns if column.direction != "neither"]
    if primary and primary not in able:
        raise ConfigError(f"primary = {primary}: it is not in score.metrics; use one of: {', '.join(able)}, or null")


def further_stages(method: Method) -> dict[str, tuple[type[FurtherStage], Any]]:
    """The further stages of a method that change anything, by the names that its settings give them, with their
    options."""
    stages = {name: (resolve("stage", name), own) for name, own in method.stages.items() if own is not None}
    return {name: (further, options) for name, (further, options) in stages.items() if further.is_due(options)}


def check_further(parameters: Evaluate, stages: Stages) -> None:
    """Raises ConfigError where a further stage has no place in any method."""
    due = {name: stage for method in parameters.methods for name, (stage, _) in further_stages(method).items()}
    for name, further in due.items():
        if not any(further.name in of_method for of_method in stages.values()):
            needs = ", ".join(further.reads)
            raise ConfigError(
                f"stages.{name} needs a method with stage {further.after} and tables {needs}; there is no such method"
            )
