"""Where methods are found: kind → name → "module:Class", imported only when it is used."""

import difflib
from importlib import import_module
from typing import Any

METHODS: dict[str, dict[str, str]] = {
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
        "passage": "tasks.retrievers.passage:Passage",
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
        "transformers": "tasks.generators.transformers:Transformers",
        "vllm": "tasks.generators.vllm:Vllm",
        "openai": "tasks.generators.openai:OpenAI",
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
