"""The registry of methods: kind → name → "module:Class", imported at first use and constructed from settings."""

import difflib
from collections.abc import Callable
from importlib import import_module
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from configs.loading import ConfigError, Model, explained
from configs.options import Batching, Server
from configs.section import Section, SectionT, joined

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
        "msmarco_qa": "tasks.datasets.msmarco_qa:MSMarcoQA",
        "dpr_wiki": "tasks.datasets.dpr_wiki:DprWiki",
        "nq_open": "tasks.datasets.nq_open:NQOpen",
        "popqa": "tasks.datasets.popqa:PopQA",
        "triviaqa": "tasks.datasets.triviaqa:TriviaQA",
        "arc": "tasks.datasets.arc:Arc",
        "pubhealth": "tasks.datasets.pubhealth:PubHealth",
        "qmsum": "tasks.datasets.qmsum:QMSum",
        "ctxs": "tasks.datasets.ctxs:Ctxs",
        "synthetic": "tasks.datasets.synthetic:Synthetic",
        "python_manual": "tasks.datasets.python_manual:PythonManual",
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
    "index": {
        "flat": "storage.indexes.types:Flat",
        "sq8": "storage.indexes.types:SQ8",
        "sqfp16": "storage.indexes.types:SQFP16",
        "hnsw": "storage.indexes.types:HNSW",
        "ivf_flat": "storage.indexes.types:IVFFlat",
        "ivf_sq8": "storage.indexes.types:IVFSQ8",
        "ivf_pq": "storage.indexes.types:IVFPQ",
    },
    "retriever": {
        "core_context": "tasks.retrievers.core_context:CoreContext",
        "passage": "tasks.retrievers.passage:PassageRetriever",
        "bm25": "tasks.retrievers.bm25:BM25",
        "hybrid": "tasks.retrievers.hybrid:Hybrid",
        "run_file": "tasks.retrievers.run_file:RunFile",
    },
    "refiner": {
        "cut": "tasks.refiners.cut:Cut",
        "mmr": "tasks.refiners.mmr:Mmr",
        "rerank": "tasks.refiners.rerank:Rerank",
        "dslr": "tasks.refiners.dslr:Dslr",
        "provence": "tasks.refiners.provence:Provence",
        "cxmi": "tasks.refiners.cxmi:Cxmi",
        "oreo": "tasks.refiners.oreo:Oreo",
        "recomp": "tasks.refiners.recomp:Recomp",
        "recomp_extractive": "tasks.refiners.recomp_extractive:RecompExtractive",
        "compact": "tasks.refiners.compact:Compact",
        "refiner_7b": "tasks.refiners.refiner_7b:Refiner7B",
        "relevance": "tasks.refiners.relevance:Relevance",
        "crag": "tasks.refiners.crag:Crag",
        "exit": "tasks.refiners.exit:Exit",
        "llmlingua": "tasks.refiners.llmlingua:LLMLingua",
        "llmlingua2": "tasks.refiners.llmlingua2:LLMLingua2",
        "longllmlingua": "tasks.refiners.longllmlingua:LongLLMLingua",
        "selective_context": "tasks.refiners.selective_context:SelectiveContext",
        "gold": "tasks.refiners.gold:Gold",
    },
    "generator": {
        "reader": "tasks.generators.reader:Reader",
        "transformers": "tasks.generators.transformers:TransformersGenerator",
        "vllm": "tasks.generators.vllm:VllmGenerator",
        "openai": "tasks.generators.openai:OpenAIGenerator",
        "sparse_rag": "tasks.generators.sparse_rag:SparseRag",
        "rate_then_prompt": "tasks.generators.rate_then_prompt:RateThenPrompt",
        "self_rag": "tasks.generators.self_rag:SelfRag",
        "xrag": "tasks.generators.xrag:XRag",
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
    "appraiser": {"judge": "tasks.appraisers.judge:Judge"},
    "labeller": {
        "gold": "tasks.labellers.gold:Gold",
        "answer_text": "tasks.labellers.answer_text:AnswerText",
        "title": "tasks.labellers.title:Title",
        "two_round": "tasks.labellers.two_round:TwoRound",
    },
    "collector": {"oracle": "tasks.collectors.oracle:Oracle", "llm": "tasks.collectors.llm:Llm"},
    # Further stages of an evaluation (tasks/stage.py, FurtherStage): none is bundled.
    "stage": {},
    "trainer": {
        "reader": "tasks.trainers.reader:ReaderTrainer",
        "critic": "tasks.trainers.critic:CriticTrainer",
        "cxmi": "tasks.trainers.cxmi:CxmiTrainer",
        "sparse_rag": "tasks.trainers.sparse_rag:SparseRagTrainer",
        "oreo_sft": "tasks.trainers.oreo_sft:OreoSft",
        "oreo_contrastive": "tasks.trainers.oreo_contrastive:OreoContrastive",
        "oreo_ppo": "tasks.trainers.oreo_ppo:OreoPpo",
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
        "answer_kept": "tasks.metrics.answer_kept:AnswerKept",
        "first_rank": "tasks.metrics.correct_units:FirstRank",
        "supporting_facts": "tasks.metrics.supporting_facts:SupportingFacts",
        "joint": "tasks.metrics.supporting_facts:Joint",
        "useful_information": "tasks.metrics.useful_information:UsefulInformation",
        "conditions": "tasks.metrics.conditions:Conditions",
        "context_recall": "tasks.metrics.context_recall:ContextRecall",
        "choice": "tasks.metrics.choice:Choice",
        "answer_set": "tasks.metrics.answer_set:AnswerSet",
        "set_size": "tasks.metrics.answer_set:SetSize",
        "tokens": "tasks.metrics.tokens:Tokens",
        "latency": "tasks.metrics.latency:Latency",
        "compression": "tasks.metrics.compression:Compression",
        "grounding": "tasks.metrics.grounding:Grounding",
        "appraisal": "tasks.metrics.appraisal:AppraisalMetric",
        "assessment": "tasks.metrics.assessment:Assessment",
        "agreement": "tasks.metrics.agreement:Agreement",
    },
}


class UnknownName(ValueError):
    """An unknown name; the message lists the known names and suggests the nearest. `besides`: what else it can be."""

    def __init__(self, what: str, name: str, known: list[str], besides: str = "") -> None:
        other = f"; {besides}" if besides else ""
        super().__init__(f"unknown {what} {name!r}{nearest(name, known)}; known: {', '.join(known)}{other}")


def nearest(name: str, known: list[str]) -> str:
    """' (did you mean X?)' for the closest known name, or '' if none is close."""
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def resolve(kind: str, name: str) -> Any:
    """The class registered as `name`, or that at "module:Class" for a user's own. Raises UnknownName if neither is."""
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
    """The `Options` of the method that a section names, of several methods joined. Raises UnknownName."""
    shared = section.shared()
    own = [getattr(resolve(section.kind, name), "Options", shared) for name in section.methods]
    # An Options that others extend adds nothing to theirs.
    own = [
        options for options in dict.fromkeys(own) if not any(issubclass(other, options) for other in {*own} - {options})
    ]
    if len(own) == 1 and own[0].model_config.get("extra") == "forbid":
        return own[0]
    return joined(tuple(own))


def with_options(section: SectionT, path: str) -> SectionT:
    """A section as the `Options` of the method that it names: validated, defaults filled in.

    `path`: of the section in the settings, for messages; '' if the section is all of them. Raises UnknownName, and
    ConfigError, which names every key that the method lacks and the methods that have it.
    """
    options = options_type(section)
    given = section.given()
    if idle := [f"{path}.{key}: {advice}" for key, advice in section.idle().items() if given.get(key) is not None]:
        raise ConfigError("\n".join(idle))
    try:
        return options.model_validate(given)
    except ValidationError as error:
        lines = explained(error, options, path)
        unknown = [str(fault["loc"][0]) for fault in error.errors() if fault["type"] == "extra_forbidden"]
        lines += [elsewhere for name in unknown if (elsewhere := where(section, path, name))]
        raise ConfigError("\n".join(lines)) from None


def as_recorded(section: SectionT, path: str) -> SectionT:
    """A section of an earlier run, perhaps of an older version: completed, without the keys that its method lost.

    It is returned unchanged if the method no longer exists.
    """
    try:
        known = options_type(section).model_fields
    except UnknownName:
        return section
    kept = section.without({key for key in section.given() if key not in known} | {*section.idle()})
    return with_options(type(section).recorded(kept.given()), path)


def make(section: Section, path: str) -> Any:
    """The method that a section names. Raises UnknownName, ConfigError, and what the method's constructor raises."""
    return resolve(section.kind, section.methods[0])(with_options(section, path))


_latest: dict[str, tuple[str, Any, Any]] = {}


def kept(section: Section, path: str) -> Any:
    """The method that a section names, as `make` constructs it. The latest one of its kind, with the model it has
    loaded, serves every stage of the process with these settings, as long as the model's files stay the same."""
    settings = section.model_dump_json()
    known, identity, method = _latest.get(path, ("", None, None))
    if known != settings or method.identity() != identity:
        method = make(section, path)
        _latest[path] = settings, method.identity(), method
    return method


def make_engine(name: str, options: BaseModel, path: str, **fixed: Any) -> Any:
    """The engine on which a method runs its model, with the method's options that the engine has too.

    `path`: of the section in the settings; `fixed`: options of the engine that the method itself determines. Raises
    UnknownName, ConfigError for a given option that this engine lacks, and the errors of its constructor.
    """
    engine = resolve("engine", name)
    taken = engine.Options.model_fields
    own = type(options).model_fields
    for setting in [*Batching.model_fields, *Server.model_fields]:
        if setting in own and setting not in taken and getattr(options, setting) != own[setting].default:
            raise ConfigError(f"{path}.{setting}: the engine {name!r} has no such setting")
    return engine(engine.Options(**options.model_dump(include=set(taken)), **fixed), path)


def completed(parameters: Model, path: str = "", read: Callable[[Section, str], Section] = with_options) -> Model:
    """Parameters with every section in them as the options of its method. Raises as `with_options` does."""
    updates: dict[str, Any] = {}
    for name in type(parameters).model_fields:
        value, place = getattr(parameters, name), f"{path}.{name}" if path else name
        if isinstance(value, Section):
            updates[name] = read(value, place)
        elif isinstance(value, BaseModel):
            updates[name] = completed(value, place, read)
    return parameters.model_copy(update=updates)


def where(section: Section, path: str, setting: str) -> str:
    """Where to find a setting that this method lacks: moved, or another method's; '' if no method has it."""
    key = ".".join(filter(None, (path, setting)))
    if setting in section.moved:
        return f"{key} has moved: {section.moved[setting]}"
    owners = [name for name in sorted(METHODS[section.kind]) if setting in own_settings(section, name)]
    return f"{key} is a setting of {section.kind} {', '.join(owners)}" if owners else ""


def own_settings(section: Section, name: str) -> dict[str, FieldInfo]:
    """The settings of one method that are not shared by all methods of its kind."""
    shared = section.shared().model_fields
    options = getattr(resolve(section.kind, name), "Options", section.shared())
    return {key: field for key, field in options.model_fields.items() if key not in shared}
