"""The registry of methods: kind → name → "module:Class", imported at first use and constructed from settings."""

import ast
import difflib
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from pkgutil import get_data
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from vitalfew.configs.loading import ConfigError, Model, build, explained, few, unknown_setting
from vitalfew.configs.options import Batching, ServerOptions
from vitalfew.configs.schema import ContextMode
from vitalfew.configs.section import Config, Section, SectionT

METHODS: dict[str, dict[str, str]] = {
    "engine": {
        "transformers": "vitalfew.tasks.models.causal.engines.transformers:Transformers",
        "vllm": "vitalfew.tasks.models.causal.engines.vllm:Vllm",
        "openai": "vitalfew.tasks.models.causal.engines.openai:OpenAI",
    },
    "dataset": {
        "hotpotqa": "vitalfew.tasks.datasets.comprehension:HotpotQA",
        "titletext": "vitalfew.tasks.datasets.tables:TitleText",
        "squad": "vitalfew.tasks.datasets.comprehension:Squad",
        "jsonl": "vitalfew.tasks.datasets.tables:JsonLines",
        "csv": "vitalfew.tasks.datasets.tables:Csv",
        "parquet": "vitalfew.tasks.datasets.tables:Parquet",
        "huggingface": "vitalfew.tasks.datasets.huggingface:HuggingFaceDataset",
        "folder": "vitalfew.tasks.datasets.folder:Folder",
        "beir": "vitalfew.tasks.datasets.judged:Beir",
        "msmarco": "vitalfew.tasks.datasets.judged:MSMarco",
        "msmarco_qa": "vitalfew.tasks.datasets.comprehension:MSMarcoQA",
        "dpr_wiki": "vitalfew.tasks.datasets.tables:DprWiki",
        "nq_open": "vitalfew.tasks.datasets.questions:NQOpen",
        "popqa": "vitalfew.tasks.datasets.questions:PopQA",
        "triviaqa": "vitalfew.tasks.datasets.questions:TriviaQA",
        "arc": "vitalfew.tasks.datasets.questions:Arc",
        "pubhealth": "vitalfew.tasks.datasets.questions:PubHealth",
        "qmsum": "vitalfew.tasks.datasets.qmsum:QMSum",
        "ctxs": "vitalfew.tasks.datasets.comprehension:Ctxs",
        "requests": "vitalfew.tasks.datasets.requests:Requests",
        "written": "vitalfew.tasks.datasets.written:Written",
        "recorded": "vitalfew.tasks.datasets.recorded:Recorded",
        "synthetic": "vitalfew.tasks.datasets.synthetic:Synthetic",
        "python_manual": "vitalfew.tasks.datasets.python_manual:PythonManual",
    },
    "splitter": {
        "punkt": "vitalfew.tasks.splitters.punkt:Punkt",
        "sentencex": "vitalfew.tasks.splitters.sentencex:Sentencex",
        "propositions": "vitalfew.tasks.splitters.propositions:Propositions",
        "ready_propositions": "vitalfew.tasks.splitters.propositions:ReadyPropositions",
    },
    "encoder": {
        "minilm": "vitalfew.tasks.encoders.transformer:MiniLM",
        "contriever": "vitalfew.tasks.encoders.transformer:Contriever",
        "ance": "vitalfew.tasks.encoders.transformer:ANCE",
        "dpr": "vitalfew.tasks.encoders.transformer:DPR",
        "huggingface": "vitalfew.tasks.encoders.transformer:HuggingFace",
    },
    "index": {
        "flat": "vitalfew.storage.indexes.types:Flat",
        "sq8": "vitalfew.storage.indexes.types:SQ8",
        "sqfp16": "vitalfew.storage.indexes.types:SQFP16",
        "hnsw": "vitalfew.storage.indexes.types:HNSW",
        "ivf_flat": "vitalfew.storage.indexes.types:IVFFlat",
        "ivf_sq8": "vitalfew.storage.indexes.types:IVFSQ8",
        "ivf_pq": "vitalfew.storage.indexes.types:IVFPQ",
    },
    "retriever": {
        "core_context": "vitalfew.tasks.retrievers.dense:CoreContext",
        "passage": "vitalfew.tasks.retrievers.dense:PassageRetriever",
        "bm25": "vitalfew.tasks.retrievers.keywords:BM25",
        "hybrid": "vitalfew.tasks.retrievers.keywords:Hybrid",
        "spans": "vitalfew.tasks.retrievers.spans:SpanRetriever",
        "run_file": "vitalfew.tasks.retrievers.run_file:RunFile",
    },
    "refiner": {
        "cut": "vitalfew.tasks.refiners.whole_hits:Cut",
        "mmr": "vitalfew.tasks.refiners.whole_hits:Mmr",
        "spans": "vitalfew.tasks.refiners.spans:SpanRefiner",
        "rerank": "vitalfew.tasks.refiners.scored:Rerank",
        "dslr": "vitalfew.tasks.refiners.scored:Dslr",
        "provence": "vitalfew.tasks.refiners.provence:Provence",
        "cxmi": "vitalfew.tasks.refiners.cxmi:Cxmi",
        "oreo": "vitalfew.tasks.refiners.oreo:Oreo",
        "recomp": "vitalfew.tasks.refiners.rewriting:Recomp",
        "recomp_extractive": "vitalfew.tasks.refiners.recomp_extractive:RecompExtractive",
        "compact": "vitalfew.tasks.refiners.compact:Compact",
        "refiner_7b": "vitalfew.tasks.refiners.rewriting:Refiner7B",
        "relevance": "vitalfew.tasks.refiners.scored:Relevance",
        "crag": "vitalfew.tasks.refiners.scored:Crag",
        "exit": "vitalfew.tasks.refiners.exit:Exit",
        "llmlingua": "vitalfew.tasks.refiners.llmlingua:LLMLingua",
        "llmlingua2": "vitalfew.tasks.refiners.llmlingua2:LLMLingua2",
        "longllmlingua": "vitalfew.tasks.refiners.llmlingua:LongLLMLingua",
        "selective_context": "vitalfew.tasks.refiners.selective_context:SelectiveContext",
        "gold": "vitalfew.tasks.refiners.whole_hits:GoldHits",
    },
    "generator": {
        "reader": "vitalfew.tasks.generators.reader:Reader",
        "transformers": "vitalfew.tasks.generators.local:TransformersGenerator",
        "vllm": "vitalfew.tasks.generators.local:VllmGenerator",
        "openai": "vitalfew.tasks.generators.openai:OpenAIGenerator",
        "sparse_rag": "vitalfew.tasks.generators.sparse_rag:SparseRag",
        "rate_then_prompt": "vitalfew.tasks.generators.sparse_rag:RateThenPrompt",
        "recorded": "vitalfew.tasks.generators.recorded:Recorded",
        "http": "vitalfew.tasks.generators.http:HttpGenerator",
        "self_rag": "vitalfew.tasks.generators.self_rag:SelfRag",
        "xrag": "vitalfew.tasks.generators.xrag:XRag",
    },
    "critic": {
        "embedded": "vitalfew.tasks.raters.embedded:Embedded",
        "reflection": "vitalfew.tasks.raters.recorded:Reflection",
        "judge": "vitalfew.tasks.raters.asked:ProbabilityJudge",
    },
    "writer": {
        "cloze": "vitalfew.tasks.writers.cloze:Cloze",
        "llm": "vitalfew.tasks.writers.llm:LlmWriter",
    },
    "selector": {
        "weighted_sum": "vitalfew.tasks.selectors.fronts:WeightedSum",
        "pareto_set": "vitalfew.tasks.selectors.fronts:ParetoSet",
        "pareto_ideal": "vitalfew.tasks.selectors.fronts:ParetoIdeal",
        "geometric_mean": "vitalfew.tasks.selectors.fronts:GeometricMean",
    },
    "appraiser": {"judge": "vitalfew.tasks.raters.asked:GradeJudge"},
    "judge": {"verdicts": "vitalfew.tasks.raters.verdicts:AnswerJudge"},
    "labeller": {
        "gold": "vitalfew.tasks.raters.recorded:GoldPassage",
        "answer_text": "vitalfew.tasks.raters.recorded:AnswerText",
        "title": "vitalfew.tasks.raters.recorded:Title",
        "two_round": "vitalfew.tasks.raters.asked:TwoRound",
    },
    "collector": {
        "oracle": "vitalfew.tasks.trainers.oreo.oracle:Oracle",
        "llm": "vitalfew.tasks.trainers.oreo.llm:Llm",
    },
    # Further stages of an evaluation (tasks/stage.py, FurtherStage).
    "stage": {
        "label": "vitalfew.tasks.rate:Label",
        "perturb": "vitalfew.tasks.perturb:Perturb",
        "appraise": "vitalfew.tasks.rate:Appraise",
        "likelihood": "vitalfew.tasks.rate:Likelihood",
        "judge": "vitalfew.tasks.judge:Judge",
    },
    "trainer": {
        "reader": "vitalfew.tasks.trainers.reader:ReaderTrainer",
        "critic": "vitalfew.tasks.trainers.critic:CriticTrainer",
        "cxmi": "vitalfew.tasks.trainers.cxmi:CxmiTrainer",
        "sparse_rag": "vitalfew.tasks.trainers.sparse_rag:SparseRagTrainer",
        "oreo_sft": "vitalfew.tasks.trainers.oreo.training:OreoSft",
        "oreo_contrastive": "vitalfew.tasks.trainers.oreo.contrastive:OreoContrastive",
        "oreo_ppo": "vitalfew.tasks.trainers.oreo.ppo:OreoPpo",
    },
    "metric": {
        "accuracy": "vitalfew.tasks.metrics.answers:Accuracy",
        "exact_match": "vitalfew.tasks.metrics.answers:ExactMatch",
        "f1": "vitalfew.tasks.metrics.answers:F1",
        "answer_words": "vitalfew.tasks.metrics.answers:AnswerWords",
        "rouge": "vitalfew.tasks.metrics.answers:Rouge",
        "answer_likelihood": "vitalfew.tasks.metrics.answers:AnswerLikelihood",
        "judged_correct": "vitalfew.tasks.metrics.verdicts:JudgedCorrect",
        "supported": "vitalfew.tasks.metrics.verdicts:Supported",
        "preferred": "vitalfew.tasks.metrics.verdicts:Preferred",
        "abstains": "vitalfew.tasks.metrics.verdicts:Abstains",
        "mauve": "vitalfew.tasks.metrics.mauve:Mauve",
        "passage_recall": "vitalfew.tasks.metrics.ranking:PassageRecall",
        "answer_recall": "vitalfew.tasks.metrics.ranking:AnswerRecall",
        "mrr": "vitalfew.tasks.metrics.ranking:MRR",
        "ndcg": "vitalfew.tasks.metrics.ranking:NDCG",
        "answer_kept": "vitalfew.tasks.metrics.contexts:AnswerKept",
        "first_rank": "vitalfew.tasks.metrics.ranking:FirstRank",
        "supporting_facts": "vitalfew.tasks.metrics.contexts:SupportingFacts",
        "joint": "vitalfew.tasks.metrics.contexts:Joint",
        "useful_information": "vitalfew.tasks.metrics.contexts:UsefulInformation",
        "conditions": "vitalfew.tasks.metrics.conditions:Conditions",
        "answer_shown": "vitalfew.tasks.metrics.contexts:AnswerShown",
        "context_recall": "vitalfew.tasks.metrics.contexts:ContextRecall",
        "choice": "vitalfew.tasks.metrics.answers:Choice",
        "answer_set": "vitalfew.tasks.metrics.answers:AnswerSet",
        "set_size": "vitalfew.tasks.metrics.answers:SetSize",
        "tokens": "vitalfew.tasks.metrics.costs:Tokens",
        "latency": "vitalfew.tasks.metrics.costs:Latency",
        "compression": "vitalfew.tasks.metrics.costs:Compression",
        "grounding": "vitalfew.tasks.metrics.contexts:Grounding",
        "appraisal": "vitalfew.tasks.metrics.contexts:AppraisalMetric",
        "assessment": "vitalfew.tasks.metrics.labels:Assessment",
        "agreement": "vitalfew.tasks.metrics.labels:Agreement",
    },
}


CHAINED = "vitalfew.tasks.refiners.chained:Chained"
"""A refiner after the one that its settings name as `first`."""


_LISTED_BY = {"dataset": "datasets", "dataset format": "datasets", "experiment": "experiments",
              "table or macro": "tables"}  # fmt: skip
"""The commands that list all names of a kind; others are in `vitalfew methods`."""


class UnknownName(ValueError):
    """An unknown name; the message lists the known names, of many the nearest three and the command that lists all, and
    suggests the nearest. `besides`: what else it can be."""

    def __init__(self, what: str, name: str, known: list[str], besides: str = "") -> None:
        other = f"; {besides}" if besides else ""
        command = _LISTED_BY.get(what, "methods" if what in METHODS or what == "method" else "")
        listing = command and f"vitalfew {command}"
        super().__init__(f"unknown {what} {name!r}{nearest(name, known)}; known: {few(name, known, listing)}{other}")


def method_named(given: str, known: Collection[str]) -> str:
    """The name of an evaluated method that is meant: by itself, or by its label in a report, which has the context mode
    after the name, "ParetoRAG (late)". A name that is not known is returned as it is."""
    name, _, mode = given.rpartition(" (")
    is_label = name in known and mode.removesuffix(")") in get_args(ContextMode) and mode.endswith(")")
    return name if given not in known and is_label else given


def nearest(name: str, known: list[str]) -> str:
    """' (did you mean X?)' for the closest known name, or '' if none is close."""
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def resolve(kind: str, name: str) -> Any:
    """The class registered as `name`, or the user's class "module:Class". Raises UnknownName."""
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


def summary(kind: str, name: str) -> str:
    """The first line of a registered method's docstring, read from its source: importing all methods takes seconds."""
    module, _, attribute = METHODS[kind][name].partition(":")
    package, _, file = module.rpartition(".")
    tree = ast.parse(get_data(package, f"{file}.py") or b"")
    method = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == attribute)
    return (ast.get_docstring(method) or "").partition("\n")[0]


def options_types(section: SectionT) -> list[type[SectionT]]:
    """The `Options` of the methods that a section names. Raises UnknownName."""
    shared = section.shared()
    return [*dict.fromkeys(getattr(resolve(section.kind, name), "Options", shared) for name in section.methods)]


def settings_of(section: Section) -> dict[str, FieldInfo]:
    """All settings of the methods that a section names. Raises UnknownName."""
    return {key: field for options in options_types(section) for key, field in options.model_fields.items()}


def with_options(section: SectionT, path: str) -> SectionT:
    """A section as the `Options` of the method that it names, validated and with defaults filled in; of several methods
    (metrics) the section with the options of all.

    `path`: of the section in the settings, for messages; '' if the section is all of them. Raises UnknownName, and
    ConfigError, which names every key that the method lacks and the methods that have it.
    """
    types, given = options_types(section), section.given()
    if idle := [f"{path}.{key}: {advice}" for key, advice in section.idle().items() if given.get(key) is not None]:
        raise ConfigError("\n".join(idle))
    known = settings_of(section)
    faults, whole = [_unknown(section, path, key, [*known]) for key in given if key not in known], dict[str, Any]()
    for options in types:
        try:
            complete = options.model_validate({key: given[key] for key in options.model_fields if key in given})
        except ValidationError as error:
            faults += explained(error, options, path)
        else:
            whole |= dict(complete)
    if faults:
        raise ConfigError("\n".join(dict.fromkeys(faults)))
    return completed(complete if len(types) == 1 else section.shared().model_validate(whole), path)


def _unknown(section: Section, path: str, key: str, known: list[str]) -> str:
    """The lines of a setting that no method of a section has."""
    line = unknown_setting(".".join(filter(None, (path, key))), key, sorted(known))
    return "\n".join(filter(None, (line, where(section, path, key))))


def as_recorded(section: SectionT, path: str) -> SectionT:
    """A section of an earlier run: completed. It is returned unchanged if its method, a user's, is not there or has
    other settings now."""
    try:
        return with_options(section, path)
    except (UnknownName, ConfigError):
        return section


def make(section: Section, path: str) -> Any:
    """The method that a section names. Raises UnknownName, ConfigError, and what the method's constructor raises."""
    return construct(with_options(section, path))


def construct(options: Section) -> Any:
    """The method of complete options, after the one that they name as `first`. Raises what the constructors raise."""
    method, first = resolve(options.kind, options.methods[0])(options), getattr(options, "first", None)
    return resolve(options.kind, CHAINED)(construct(first), method) if first else method


def declared(options: Section, need: str) -> Any:
    """A need of a method (`dense`, `unit`, `needs_vectors`), declared by its class, or by its options if it depends on
    them; or of the one before it."""
    own = getattr(options if hasattr(options, need) else resolve(options.kind, options.methods[0]), need)
    first = getattr(options, "first", None)
    return own or declared(first, need) if first else own


_latest: dict[str, tuple[str, Any, Any]] = {}


def kept(options: Config, path: str, make: Callable[[Any], Any] = construct) -> Any:
    """The method of complete options, as `make` makes it. The latest one of its kind, with the model it has loaded,
    serves every stage of the process with these settings, as long as the model's files stay the same."""
    settings = options.model_dump_json()
    known, identity, method = _latest.get(path, ("", None, None))
    if known != settings or method.identity() != identity:
        method = make(options)
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
    for setting in [*Batching.model_fields, *ServerOptions.model_fields]:
        if setting in own and setting not in taken and getattr(options, setting) != own[setting].default:
            raise ConfigError(f"{path}.{setting}: the engine {name!r} has no such setting")
    return engine(engine.Options(**options.model_dump(include=set(taken)), **fixed), path)


def completed(parameters: Model, path: str = "", read: Callable[[Section, str], Section] = with_options) -> Model:
    """Parameters with every section in them, as `refine.first`, as the options of its method. Raises as `with_options`
    does."""
    updates: dict[str, Any] = {}
    for name in type(parameters).model_fields:
        value, place = getattr(parameters, name), f"{path}.{name}" if path else name
        if isinstance(value, Section):
            updates[name] = read(value, place)
        elif isinstance(value, BaseModel):
            updates[name] = completed(value, place, read)
    return parameters.model_copy(update=updates)


def stage_options(name: str, settings: Any) -> Any:
    """The complete options of a further stage. Raises UnknownName, ConfigError."""
    stage = resolve("stage", name)
    if not isinstance(settings, (Mapping, BaseModel)):
        raise ConfigError(f"{stage.section} must be a section of settings (KEY: VALUE) or null, got {settings!r}")
    options = settings if isinstance(settings, BaseModel) else build(stage.Options, settings, path=stage.section)
    return with_options(options, stage.section) if isinstance(options, Section) else options


def where(section: Section, path: str, setting: str) -> str:
    """The methods that have a setting which this one lacks; '' if no method has it."""
    key, shared = ".".join(filter(None, (path, setting))), section.shared()
    options = {name: getattr(resolve(section.kind, name), "Options", shared) for name in sorted(METHODS[section.kind])}
    owners = [name for name, own in options.items() if setting in own.model_fields.keys() - shared.model_fields.keys()]
    return f"{key} is a setting of {section.kind} {', '.join(owners)}" if owners else ""
