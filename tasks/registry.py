"""Where methods are found: kind → name → "module:Class", imported when it is used, and made from its settings."""

import difflib
from importlib import import_module
from typing import Any

from pydantic import BaseModel, ValidationError

from configs.loading import ConfigError, explained
from configs.options import Batching, Server
from configs.section import Section, SectionT, closed

METHODS: dict[str, dict[str, str]] = {
    "engine": {
        "transformers": "tasks.models.engines.transformers:Transformers",
        "vllm": "tasks.models.engines.vllm:Vllm",
        "openai": "tasks.models.engines.openai:OpenAI",
    },
    "dataset": {
        "hotpotqa": "tasks.datasets.hotpotqa:HotpotQA",
        "titletext": "tasks.datasets.titletext:TitleText",
        "squad": "tasks.datasets.squad:Squad",
        "jsonl": "tasks.datasets.jsonl:JsonLines",
        "csv": "tasks.datasets.csv:Csv",
        "parquet": "tasks.datasets.parquet:Parquet",
        "huggingface": "tasks.datasets.huggingface:HuggingFace",
        "folder": "tasks.datasets.folder:Folder",
        "beir": "tasks.datasets.beir:Beir",
        "msmarco": "tasks.datasets.msmarco:MSMarco",
        "dpr_wiki": "tasks.datasets.dpr_wiki:DprWiki",
        "nq_open": "tasks.datasets.nq_open:NQOpen",
        "popqa": "tasks.datasets.popqa:PopQA",
        "triviaqa": "tasks.datasets.triviaqa:TriviaQA",
        "arc": "tasks.datasets.arc:Arc",
        "pubhealth": "tasks.datasets.pubhealth:PubHealth",
        "qmsum": "tasks.datasets.qmsum:QMSum",
        "synthetic": "tasks.datasets.synthetic:Synthetic",
    },
    "splitter": {
        "punkt": "tasks.splitters.punkt:Punkt",
        "propositions": "tasks.splitters.propositions:Propositions",
        "ready_propositions": "tasks.splitters.ready_propositions:ReadyPropositions",
    },
    "encoder": {
        "minilm": "tasks.encoders.minilm:MiniLM",
        "contriever": "tasks.encoders.contriever:Contriever",
        "ance": "tasks.encoders.ance:ANCE",
        "dpr": "tasks.encoders.dpr:DPR",
        "huggingface": "tasks.encoders.huggingface:HuggingFace",
    },
    "retriever": {
        "core_context": "tasks.retrievers.core_context:CoreContext",
        "passage": "tasks.retrievers.passage:PassageRetriever",
        "bm25": "tasks.retrievers.bm25:BM25",
        "hybrid": "tasks.retrievers.hybrid:Hybrid",
    },
    "refiner": {
        "cut": "tasks.refiners.cut:Cut",
        "mmr": "tasks.refiners.mmr:Mmr",
        "recomp": "tasks.refiners.recomp:Recomp",
    },
    "generator": {
        "reader": "tasks.generators.reader:Reader",
        "transformers": "tasks.generators.transformers:TransformersGenerator",
        "vllm": "tasks.generators.vllm:VllmGenerator",
        "openai": "tasks.generators.openai:OpenAIGenerator",
        "self_rag": "tasks.generators.self_rag:SelfRag",
    },
    "critic": {
        "embedded": "tasks.critics.embedded:Embedded",
        "reflection": "tasks.critics.reflection:Reflection",
        "judge": "tasks.critics.judge:Judge",
    },
    "selector": {
        "weighted_sum": "tasks.selectors.weighted_sum:WeightedSum",
        "pareto_set": "tasks.selectors.pareto_set:ParetoSet",
        "pareto_ideal": "tasks.selectors.pareto_ideal:ParetoIdeal",
        "geometric_mean": "tasks.selectors.geometric_mean:GeometricMean",
    },
    "labeller": {
        "gold": "tasks.labellers.gold:Gold",
    },
    "trainer": {
        "reader": "tasks.trainers.reader:ReaderTrainer",
        "critic": "tasks.trainers.critic:CriticTrainer",
    },
    "metric": {
        "accuracy": "tasks.metrics.answers:Accuracy",
        "exact_match": "tasks.metrics.answers:ExactMatch",
        "f1": "tasks.metrics.answers:F1",
        "rouge": "tasks.metrics.rouge:Rouge",
        "mauve": "tasks.metrics.mauve:Mauve",
        "passage_recall": "tasks.metrics.ranking:PassageRecall",
        "answer_recall": "tasks.metrics.correct_units:AnswerRecall",
        "mrr": "tasks.metrics.ranking:MRR",
        "ndcg": "tasks.metrics.ranking:NDCG",
        "first_rank": "tasks.metrics.correct_units:FirstRank",
        "useful_information": "tasks.metrics.useful_information:UsefulInformation",
        "context_recall": "tasks.metrics.context_recall:ContextRecall",
        "choice": "tasks.metrics.choice:Choice",
        "answer_set": "tasks.metrics.answer_set:AnswerSet",
        "set_size": "tasks.metrics.answer_set:SetSize",
        "tokens": "tasks.metrics.tokens:Tokens",
    },
}


class UnknownName(ValueError):
    """A name that is not known: the message lists the known ones and suggests the nearest."""

    def __init__(self, what: str, name: str, known: list[str]) -> None:
        super().__init__(f"unknown {what} {name!r}{nearest(name, known)}; known: {', '.join(known)}")


def nearest(name: str, known: list[str]) -> str:
    """' (did you mean X?)' for the closest known name, or '' where none is close."""
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def resolve(kind: str, name: str) -> Any:
    """The class registered as `name`, or the class at "module:Class" for a method of the user's own.

    Raises UnknownName where neither is found.
    """
    known = METHODS[kind]
    target = known.get(name, name if ":" in name else None)
    if target is None:
        raise UnknownName(kind, name, sorted(known))
    module, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ModuleNotFoundError, AttributeError) as error:
        if name in known:
            raise
        raise UnknownName(kind, name, sorted(known)) from error


def options_type(section: SectionT) -> type[SectionT]:
    """What can be set of the method that a section names: its `Options`, which extend it. Raises UnknownName."""
    options: type[SectionT] | None = getattr(resolve(section.kind, section.method), "Options", None)
    return options or closed(type(section))


def with_options(section: SectionT, path: str) -> SectionT:
    """A section as the `Options` of the method that it names: validated, defaults filled in.

    `path`: of the section in the settings, for messages; '' where they are nothing else. Raises UnknownName, and
    ConfigError that names every key that the method does not have, and which method has it.
    """
    options = options_type(section)
    try:
        return options.model_validate(section.model_dump(exclude_unset=True))
    except ValidationError as error:
        lines = explained(error, options, path)
        unknown = [str(fault["loc"][0]) for fault in error.errors() if fault["type"] == "extra_forbidden"]
        lines += [told for name in unknown if (told := _elsewhere(section, path, name))]
        raise ConfigError("\n".join(lines)) from None


def make(section: Section, path: str) -> Any:
    """The method that a section names. Raises UnknownName, ConfigError, and what the method's constructor raises."""
    return resolve(section.kind, section.method)(with_options(section, path))


def make_engine(name: str, options: BaseModel, path: str, **fixed: Any) -> Any:
    """The engine that a method runs its model on, with what was set of the method's options that the engine has too.

    `path`: of the section in the settings; `fixed`: options of the engine that the method says itself. Raises
    UnknownName, ConfigError for an option that was set and that this engine lacks, and what its constructor raises.
    """
    engine = resolve("engine", name)
    taken = engine.Options.model_fields
    own = type(options).model_fields
    for setting in [*Batching.model_fields, *Server.model_fields]:
        if setting in own and setting not in taken and getattr(options, setting) != own[setting].default:
            raise ConfigError(f"{path}.{setting}: the engine {name!r} has no such setting")
    return engine(engine.Options(**options.model_dump(include=set(taken)), **fixed), path)


def secrets(section: Section, path: str) -> dict[str, str]:
    """Environment variables that the method of a section reads secrets from, itself or by its engine, each with the
    name of the Prefect block that may hold it. Raises UnknownName, ConfigError."""
    engine = getattr(with_options(section, path), "engine", None)
    readers = [resolve(section.kind, section.method), *([resolve("engine", engine)] if engine else [])]
    return {variable: block for reader in readers for variable, block in getattr(reader, "secrets", {}).items()}


def _elsewhere(section: Section, path: str, setting: str) -> str:
    """Where a setting is that this method does not have: moved, or another method's; '' where nobody has it."""
    key = ".".join(filter(None, (path, setting)))
    if setting in section.moved:
        return f"{key} has moved: {section.moved[setting]}"
    owners = [name for name in sorted(METHODS[section.kind]) if setting in _own_settings(section, name)]
    return f"{key} is a setting of {section.kind} {', '.join(owners)}" if owners else ""


def _own_settings(section: Section, name: str) -> set[str]:
    options = getattr(resolve(section.kind, name), "Options", type(section))
    return set(options.model_fields) - set(type(section).model_fields)
