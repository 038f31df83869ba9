"""An evaluation, as plain Python: ask → encode_questions → retrieve → refine → generate → critique → select → score.

Further stages (`FurtherStage`) stand between these. A stage is done for all methods before the next one, so that a
model is loaded once and shared work is done once.
"""

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, count
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from vitalfew.configs.evaluation import Evaluate, Method, RefineConfig
from vitalfew.configs.loading import ConfigError, build, flat, merged
from vitalfew.configs.schema import USUAL_CONTEXT, EncodeConfig, Execution, IndexCorpus, LoadConfig, Unit
from vitalfew.configs.section import Section
from vitalfew.flows.pipelines.run import Execute, Outcome, Plan
from vitalfew.storage import generations
from vitalfew.storage.artifacts import Artifact, Manifest
from vitalfew.storage.indexes.opened import IndexMismatch, OpenedIndex
from vitalfew.storage.indexes.units import table_of
from vitalfew.storage.runs import NamedIndex, Run, find_index, index_names, only_index, read_runs
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.datasets.written import located
from vitalfew.tasks.encode import EncodeQuestions
from vitalfew.tasks.generate import Generate, Received
from vitalfew.tasks.judge import Judge
from vitalfew.tasks.load import Load
from vitalfew.tasks.rate import Critique
from vitalfew.tasks.refine import Refine
from vitalfew.tasks.registry import METHODS, as_recorded, completed, declared, resolve, with_options
from vitalfew.tasks.report import WrittenReport, find_report, read_report, write_report
from vitalfew.tasks.reports.contents import Report
from vitalfew.tasks.reports.differences import opponents
from vitalfew.tasks.reports.methods import differing
from vitalfew.tasks.retrieve import Retrieve, Searcher, rescores
from vitalfew.tasks.score import Score
from vitalfew.tasks.select import Select
from vitalfew.tasks.stage import ANSWERED, BASELINE, FurtherStage, Stage

SECTIONS = tuple(name for name, field in IndexCorpus.model_fields.items() if isinstance(field.default, BaseModel))
"""The settings that decide an index of given sources."""


def with_indexes(parameters: Evaluate) -> tuple[Evaluate, dict[str, NamedIndex]]:
    """Settle what the methods leave to their indexes: which index has a method's `variant`, and what contexts show. A
    method that names no index has the only one of the store.

    Every name is looked up once, so that all stages are of one corpus even if an index of that name is finished
    meanwhile; NAME@3 is its third generation. Raises IndexNotFound, CannotPromote, ConfigError, and IndexMismatch with
    the command that makes a missing index; an optional method that no index can serve is left out instead, with that as
    the reason.
    """
    if any(method.retrieve and not method.index for method in parameters.methods):
        only = only_index(parameters.store)
        with_only = (each.model_copy(update={"index": each.index or only}) for each in parameters.methods)
        parameters = parameters.model_copy(update={"methods": tuple(with_only)})
    names = dict.fromkeys(method.index for method in parameters.methods if method.index)
    known = {name: generations.named(parameters.store, name) for name in names}
    methods, left_out, indexes = [], dict(parameters.left_out), dict[str, NamedIndex]()
    for method in parameters.methods:
        index, is_optional = known.get(method.index or ""), parameters.is_optional(method)
        if method.retrieve and index:
            try:
                index = _variant(parameters.store, method, index) if method.variant else index
                indexes.setdefault(index.name, index)
                if is_optional:
                    SearchedIndex(index, parameters.store.absolute()).searcher.check(method.retrieve)
            except IndexMismatch as mismatch:
                if not is_optional:
                    raise
                left_out[method.name] = str(mismatch)
                continue
            method = method.model_copy(update={"index": index.name, "refine": _shown(method.refine, index)})
        elif index:
            indexes.setdefault(index.name, index)
        methods.append(method)
    return parameters.model_copy(update={"methods": tuple(methods), "left_out": left_out}), indexes


def _shown(refine: RefineConfig, index: NamedIndex) -> RefineConfig:
    """The settings with what contexts show: where nothing is said, what the index was encoded from."""
    if isinstance(refine.first, RefineConfig):
        refine = refine.model_copy(update={"first": _shown(refine.first, index)})
    if refine.text and not (refine.is_wider and refine.titles is None):
        return refine
    text = EncodeConfig.model_validate(index.config["encode"]).text
    return refine.model_copy(update={"titles": text == "titled"} if refine.text else {"text": text})


def _variant(store: Path, method: Method, base: NamedIndex) -> NamedIndex:
    """The index itself if it has the settings, else the most similar index of the same passages that has them."""
    try:
        wanted = _settings(merged(base.config, method.variant))
        _check(method.variant, base)
    except ConfigError as error:
        raise ConfigError(f"method {method.name}, variant: {error}") from None
    asked = dict(flat({section: method.variant[section] for section in SECTIONS if section in method.variant}))
    if unknown := method.variant.keys() - set(SECTIONS):
        raise ConfigError(
            f"method {method.name}: variant has an unknown section {min(unknown)!r}; known: {', '.join(SECTIONS)}"
        )
    unit = declared(method.retrieve, "unit") if method.retrieve else ""
    others = (find_index(store, name) for name in index_names(store) if name != base.name)
    able = [
        (sum(settings.get(key) != wanted.get(key) for key in wanted.keys() | settings.keys()), index)
        for index in (base, *others)
        if index.artifacts["passages"] == base.artifacts["passages"]
        for settings in [_settings(index.config)]
        if all(settings.get(key) == wanted[key] for key in asked) and unit in settings["encode.units"]
    ]
    if able:
        return min(able, key=lambda each: (each[0], each[1].name != base.name, each[1].name))[1]
    settings_due = " and ".join(f"{key}={_text(wanted[key])}" for key in asked)
    raise IndexMismatch(
        f"method {method.name} needs an index of the corpus of {base.name!r} with {settings_due}; to make it, run\n  "
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


def _settings(config: Mapping[str, Any], read: Callable[[Section, str], Section] = as_recorded) -> dict[str, Any]:
    """By path ("encode.context"), all settings that determine an index of given sources."""
    whole = completed(build(IndexCorpus, config), read=read).model_dump(mode="json")
    return dict(flat({section: whole[section] for section in SECTIONS}))


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
    def figures(self) -> Report:
        """The report, computed from the store. Raises NoReport."""
        return read_report(self.store, self.run)

    @cached_property
    def report(self) -> WrittenReport:
        """The report with its files, which are written once; its plots take longer than its figures. Raises
        NoReport."""
        return find_report(self.store, self.figures) or write_report(self.store, self.figures)


class EvaluationPlan(Plan):
    """The stages that answer the questions by every method, and score the answers.

    Raises user-correctable errors, before anything runs.
    """

    flow = "evaluate"
    parameters: Evaluate
    """With what was left open: the index that every method searches, and what its contexts show."""

    def __init__(self, parameters: Evaluate) -> None:
        """`parameters`: complete."""
        parameters, self.indexes = with_indexes(parameters)
        self.by_method = evaluation_stages(parameters, self.indexes)
        _check_primary(parameters.primary, next(iter(self.by_method.values()))["score"])
        every = (stage for stages in self.by_method.values() for stage in stages.values())
        super().__init__(parameters, parameters.name, every)

    @property
    def ask(self) -> Stage:
        """The stage that chooses the questions, of the first method: one of other passages chooses the same."""
        return next(iter(self.by_method.values()))["ask"]

    def methods(self) -> dict[str, dict[str, str]]:
        return {
            method: {stage.table: stage.artifact.name for stage in stages.values()}
            for method, stages in self.by_method.items()
        }

    def alternatives(self) -> "list[list[EvaluationPlan]]":
        """The evaluations of a run in their order: the plans of which one will be executed."""
        return [[self]]

    def run(self, execute: Execute) -> Evaluated:
        return self._evaluated(super().run(execute))

    def before(self) -> Evaluated | None:
        return self.outcome_of(last) if (last := self.last()) else None

    def last(self) -> Run | None:
        """The latest evaluation of the store."""
        return next((run for run in reversed(read_runs(self.store)) if run.flow == self.flow), None)

    def outcome_of(self, run: Run) -> Evaluated | None:
        """The outcome of an earlier run; None where that did something else, or did not complete."""
        asked = _asked(self.parameters.model_dump(mode="json"))
        if run.state != "completed" or run.methods != self.methods() or _asked(run.config) != asked:
            return None
        manifests = [manifest for stage in self.stages if (manifest := self.manifest(stage))]
        return self._evaluated(Outcome(run, manifests, {manifest.artifact for manifest in manifests}))

    def _evaluated(self, outcome: Outcome) -> Evaluated:
        manifests = {manifest.artifact: manifest for manifest in outcome.manifests}
        methods = {
            method: {name: manifests[stage.artifact.name] for name, stage in stages.items()}
            for method, stages in self.by_method.items()
        }
        return Evaluated(outcome.run, outcome.manifests, outcome.reused, self.store, methods)


def _asked(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run without those of how it is executed."""
    return {key: value for key, value in config.items() if key not in Execution.model_fields}


def evaluation_stages(parameters: Evaluate, indexes: Mapping[str, NamedIndex], corpora: Path | None = None) -> Stages:
    """Plan the stages of parameters whose methods name their index. `corpora`: the store of the indexes, and of
    questions that are loaded already, if it is another than the one that is written to."""
    store = parameters.store.absolute()
    corpora = (corpora or store).absolute()
    shared: dict[str, Stage] = {}
    if parameters.questions.dataset:
        shared["load"] = _load(store, corpora, parameters.questions.dataset)
        questions, datasets = shared["load"].artifact, [parameters.questions.dataset]
    elif indexes:
        first = next(iter(indexes.values()))
        questions, datasets = first.located(corpora)["passages"], first.config["datasets"]
    else:
        raise ConfigError(
            "there are no questions; name an index (--index NAME) or a data set (--set questions.dataset=FORMAT:PATH)"
        )
    searched = {name: SearchedIndex(index, corpora) for name, index in indexes.items()}
    asks = _asks(store, questions, parameters, searched if any(map(_names_gold, datasets)) else {})
    for method in parameters.methods:
        if method.retrieve:
            searched[method.index or ""].searcher.check(method.retrieve)
    lines: dict[str, _Line] = {}
    against = baselines(parameters)
    for method in sorted(parameters.methods, key=lambda method: method.name in against):  # baselines first
        baseline = lines.get(against.get(method.name, ""))
        lines[method.name] = _Line(store, method, asks[method.name].artifact, searched, baseline)
    _check_further(lines.values())
    _check_preferred(against, lines)
    for method in parameters.methods:
        corpus = searched[method.index or ""].corpus if method.retrieve else {}
        _add_score(lines[method.name], corpus, parameters)
    return {
        method.name: {**shared, "ask": asks[method.name], **lines[method.name].stages} for method in parameters.methods
    }


def baselines(parameters: Evaluate) -> dict[str, str]:
    """The name of the baseline that a method is compared with, for every method but the baselines, as reports do."""
    names = [method.name for method in parameters.methods]
    settings = [*differing({method.name: method for method in parameters.methods}).values()]
    places = opponents(settings, [*compress(count(), map(parameters.is_baseline, parameters.methods))])
    return {name: names[place] for name, place in zip(names, places, strict=True) if place is not None}


def _names_gold(dataset: str) -> bool:
    """Return whether questions of a data set may name their gold by places in the corpus."""
    name = dataset.partition(":")[0]
    return name in METHODS["dataset"] and resolve("dataset", name).names_gold


def _asks(
    store: Path, questions: Artifact, parameters: Evaluate, searched: Mapping[str, "SearchedIndex"]
) -> dict[str, Ask]:
    """The stage that chooses the questions, by method: the same for all whose indexes have the same passages, and for
    those that search none. `searched`: none where questions do not name places."""
    corpora = {name: index.corpus["passages"] for name, index in searched.items()}
    first = next(iter(corpora.values()), None)
    by_corpus = {
        corpus: Ask(store, questions, parameters.questions, corpus)
        for corpus in dict.fromkeys([first, *corpora.values()])
    }
    return {
        method.name: by_corpus[corpora.get(method.index or "", first) if method.retrieve else first]
        for method in parameters.methods
    }


def answering_stages(store: Path, method: Method, asked: Artifact, index: NamedIndex | None) -> list[Stage]:
    """The stages of one method that answer questions, in their order; `asked` holds the questions. Raises ConfigError,
    IndexMismatch, and the errors of a method whose model is missing."""
    searched = {index.name: SearchedIndex(index, store)} if index else {}
    if method.retrieve:
        searched[method.index or ""].searcher.check(method.retrieve)
    line = _Line(store, method, asked, searched)
    _check_further([line])
    return [*line.stages.values()]


def _load(store: Path, corpora: Path, dataset: str) -> Load:
    """The stage that loads questions, in the store that has them already, else in the one that is written to."""
    dataset = located(corpora, dataset)  # an estimate's store has no written questions
    there = Load(corpora, (dataset,), LoadConfig())
    return there if corpora == store or there.artifact.manifest() else Load(store, (dataset,), LoadConfig())


class SearchedIndex:
    """An index that methods search, its artifacts by role (`corpus`), and how the questions for it are encoded."""

    def __init__(self, index: NamedIndex, store: Path) -> None:
        self.named, self.store, self.corpus = index, store, index.located(store)

    @cached_property
    def searcher(self) -> Searcher:
        return Searcher(OpenedIndex(self.named.name, self.corpus))

    @cached_property
    def encoding(self) -> EncodeConfig:
        """Complete, for the device of whoever asks."""
        return as_recorded(EncodeConfig.model_validate(self.named.config["encode"]), "encode").without({"device"})


def _add_score(line: "_Line", corpus: Mapping[str, Artifact], parameters: Evaluate) -> None:
    """Add the stage that scores what a method's other stages write."""
    units: dict[Unit, Artifact] = {unit: corpus[table_of(unit)] for unit in get_args(Unit) if table_of(unit) in corpus}
    written = {stage.table: stage.artifact for stage in line.stages.values()}
    results = {table: written[table] for table in Score.results if table in written}
    line.add(Score(line.store, line.tables["asked"], results, units, parameters.score))


class _Line:
    """The stages of a method, in their order, and the tables as the next stage is to read them."""

    def __init__(
        self,
        store: Path,
        method: Method,
        asked: Artifact,
        searched: Mapping[str, SearchedIndex],
        baseline: "_Line | None" = None,
    ) -> None:
        """`baseline`: of the method that it is compared with, if that is another."""
        self.store = store
        self.baseline = baseline or self
        self.answering = Select.name if method.select else Generate.name
        self.stages: dict[str, Stage] = {}
        self.tables = {"asked": asked}
        named = {name: (resolve("stage", name), own) for name, own in method.stages.items() if own is not None}
        self.further: dict[str, tuple[type[FurtherStage], Any]] = {
            name: (further, options) for name, (further, options) in named.items() if further.is_due(options)
        }
        """By the names that the settings give them, with their options."""
        index = searched[method.index or ""] if method.retrieve else None
        evidence = self._searching(method, asked, index) if index else None
        if method.generate:
            candidates = self.add(Generate(store, asked, evidence, method.generate))
            if method.critique:
                critiques = self.add(Critique(store, asked, evidence, candidates, method.critique))
                if method.select:
                    self.add(Select(store, candidates, critiques, method.select))

    def _searching(self, method: Method, asked: Artifact, index: SearchedIndex) -> Artifact:
        """Add the stages that find contexts; return their table."""
        assert method.retrieve
        is_dense = declared(method.retrieve, "dense") or rescores(method.retrieve)
        needs_vectors = declared(method.refine, "needs_vectors")
        if needs_vectors and "faiss" not in index.corpus:
            raise IndexMismatch(
                f"method {method.name}: refiner {method.refine.refiner!r} compares hits by the vectors of index "
                f"{index.named.name!r}, which has none; make them with `vitalfew index --encode all "
                f"--name {index.named.name}`"
            )
        vectors = self.add(EncodeQuestions(self.store, asked, index.encoding)) if is_dense or needs_vectors else None
        read: dict[str, Artifact] = {
            role: index.corpus[role] for role in ("passages", "sentences", "vectors") if role in index.corpus
        }
        self.tables |= read
        searching, compared = vectors if is_dense else None, vectors if needs_vectors else None
        hits = self.add(Retrieve(self.store, asked, searching, index.named, method.retrieve, index.store))
        return self.add(
            Refine(self.store, asked, hits, read, method.refine, compared, declared(method.retrieve, "sharpness"))
        )

    def add(self, stage: Stage) -> Artifact:
        """Add a stage and the further ones that follow it; its table as the next stage is to read it."""
        self.stages[stage.name] = stage
        self.tables[stage.table] = stage.artifact
        if isinstance(stage, FurtherStage) and stage.replaces:
            self.tables[stage.replaces] = stage.artifact
        if isinstance(stage, Generate) and stage.method.elsewhere:
            self.add(Received(stage.artifact, stage.config))
        for further, options in self.further.values():
            after = self.answering if further.after == ANSWERED else further.after
            if after == stage.name and all(table in self.tables for table in further.reads):
                tables = {**{BASELINE + table: theirs for table, theirs in self.baseline.tables.items()}, **self.tables}
                read = (table for table in (*further.reads, *further.also_reads) if table in tables)
                self.add(further(self.store, {table: tables[table] for table in read}, options))
        return self.tables[stage.table]


def _check_primary(primary: str | None, score: Stage) -> None:
    """Raises ConfigError where no metric gives it, or neither more nor less of it is better."""
    metrics = score.metrics.values() if isinstance(score, Score) else ()
    columns = [column for metric in metrics for column in metric.columns()]
    able = [column.name for column in columns if column.direction != "neither"]
    if primary and primary not in able:
        raise ConfigError(f"primary = {primary}: it is not in score.metrics; use one of: {', '.join(able)}, or null")


def _check_further(lines: Collection[_Line]) -> None:
    """Raises ConfigError where a further stage has no place in any method."""
    for name, further in {name: further for line in lines for name, (further, _) in line.further.items()}.items():
        if not any(further.name in line.stages for line in lines):
            needs = ", ".join(further.reads)
            raise ConfigError(
                f"stages.{name} needs a method with stage {further.after} and tables {needs}; there is no such method"
            )


def _check_preferred(against: Mapping[str, str], lines: Mapping[str, _Line]) -> None:
    """Raises ConfigError where answers are to be compared with those of a baseline that gives none."""
    for name, baseline in against.items():
        judge = lines[name].stages.get(Judge.name)
        if isinstance(judge, Judge) and judge.config.preferred and Generate.name not in lines[baseline].stages:
            raise ConfigError(
                f"method {name}: judge.preferred compares answers with those of the baseline, but {baseline} gives "
                "none (generate: null); name another `baseline`, or set judge.preferred=false"
            )
