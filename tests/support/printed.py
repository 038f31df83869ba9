"""figures.yaml, the papers' tables as facts of the shared folder, in the names of configs/papers: cell by cell."""

from collections.abc import Iterator
from itertools import product
from typing import Any

Cells = Iterator[tuple[str, float | None]]
"""A cell's name, "TABLE / ROW / COLUMN", and what it holds."""

RETRIEVERS = ("Contriever", "ANCE", "DPR")
MODELS = {
    "vicuna-7b": "Vicuna-7B",
    "vicuna-13b": "Vicuna-13B",
    "llama2-7b-chat": "Llama2-7B-chat",
    "llama2-13b-chat": "Llama2-13B-chat",
}
CONTEXTS = {"naive": "naive RAG", "recomp": "RECOMP", "dense_x": "Dense X", "paretorag": "ParetoRAG"}
TASKS = ("PopQA", "ARC", "PubHealth", "TriviaQA")
PFE = {
    "Alpaca": "Alpaca 7B",
    "LLaMA2": "LLaMA2 7B",
    "Alpaca+retrieval": "Alpaca 7B with retrieval",
    "LLaMA2+retrieval": "LLaMA2 7B with retrieval",
    "Self-RAG": "Self-RAG 7B",
    "closest": "closest to the ideal point",
    "closest_to_ideal": "closest to the ideal point",
    "geometric_mean": "geometric mean",
    "full_set": "full Pareto set",
}
SPARSE = {
    "off_the_shelf": "off the shelf",
    "llmlingua": "LLMLingua",
    "rag": "RAG",
    "pcw": "PCW-RAG",
    "crag": "CRAG",
    "sparse_rag": "Sparse RAG",
    "sparse_rag_full_attention": "Sparse RAG, full attention",
    "gold_labels": "gold labels",
}
LABELS = {"silver": "silver labels", "llm": "a language model's labels"}
OREO = {
    "none": "no retrieval",
    "no_retrieval": "no retrieval",
    "full": "full content",
    "passage": "passage",
    "cxmi": "CXMI",
    "selective_context": "Selective Context",
    "llmlingua": "LLMLingua",
    "llmlingua2": "LLMLingua-2",
    "xrag": "xRAG",
    "compact": "CompAct",
    "exit": "EXIT",
    "refiner": "Refiner",
    "oreo": "Oreo",
}
SETTINGS = {"eta": "eta", "alpha": "alpha", "epsilon": "epsilon", "gamma": "gamma, lambda", "lambda": "gamma, lambda"}


def row(table: str, name: str, columns: tuple[str, ...], cells: list[Any]) -> Cells:
    """A row's cells; those that the shared file leaves out at its end are empty in print."""
    for column, cell in zip(columns, [*cells, *[None] * (len(columns) - len(cells))], strict=True):
        yield f"{table} / {name} / {column}", cell


def paretorag(facts: dict[str, Any]) -> Cells:
    first = facts["table1"]
    for (method, shown), (model, called) in product(CONTEXTS.items(), MODELS.items()):
        for key, column in (("NQ", "NQ"), ("HotpotQA", "HotpotQA"), ("mauve", "MAUVE"), ("rouge", "ROUGE-L")):
            heads = tuple(f"{column} {retriever}" for retriever in RETRIEVERS)
            yield from row("table 1", f"{shown}, {called}", heads, first[method][model][key])
    for model, cells in first["no_rag"].items():
        yield from row("table 1, without RAG", MODELS[model], ("NQ", "HotpotQA", "MAUVE", "ROUGE-L"), cells)
    corpora = ("NQ", "HotpotQA", "MS MARCO")
    for method, counts in first["tokens"].items():
        yield from row("table 1, tokens", CONTEXTS[method], corpora, list(counts.values()))
    for retriever in RETRIEVERS:
        yield from row("table 2", retriever, ("naive RAG", "ParetoRAG"), facts["table2"][retriever])
    for unit, counts in facts["table3"].items():
        yield from row("table 3", unit, corpora, list(counts.values()))
    for method, cells in facts["table4"].items():
        yield from row("table 4", CONTEXTS[method], ("batch", "peak memory", "total", "cost"), cells)


def pfe_self_rag(facts: dict[str, Any]) -> Cells:
    for method, cells in facts["table2"].items():
        yield from row("table 2", PFE[method.replace("-7B", "")], TASKS, cells)
    quade = facts["quade"]
    heads = ("F", "degrees of freedom", "degrees of freedom of the error", "p")
    yield from row("Quade", "table 2", heads, [quade["F"], *quade["df"], float(quade["p"])])
    for method, ranking in facts["table3"].items():
        yield from row("table 3", PFE[method], ("ranking",), [ranking])
    for method, cells in facts["table4"].items():
        yield from row("table 4", PFE[method], ("z", "p"), cells)
    for (method, both), mmr in product(facts["table5"].items(), ("with", "without")):
        yield from row("table 5", f"{PFE[method]}, {mmr} MMR", TASKS, both[mmr])


def sparse_rag(facts: dict[str, Any]) -> Cells:
    for raters, cells in facts["table2"].items():
        yield from row("table 2", raters, ("average F1", "F1 of 0", "F1 of 1"), cells)
    for task, methods in facts["table3"].items():
        for method, cells in methods.items():
            yield from row(f"table 3, {task}", SPARSE[method], tuple(cells), list(cells.values()))
    fourth = ("PopQA EM", "PopQA F1", "PopQA K", "PopQA DS", "QMSum F1", "QMSum RougeLsum", "QMSum K", "QMSum DS")
    for threshold, cells in facts["table4"].items():
        yield from row("table 4", f"{threshold:.2f}", fourth, cells)
    for method, cells in facts["table5"].items():
        name, _, documents = method.partition("@")
        yield from row("table 5", f"{SPARSE[name]} of {documents}", ("EM", "F1", "K", "ES", "DS"), cells)
    sixth = ("K", "external classifier", "init", "encoding", "copy", "decoding", "total")
    for method, cells in facts["table6"].items():
        yield from row("table 6", SPARSE[method], sixth, cells)
    for size, methods in facts["table7"].items():
        for method, cells in methods.items():
            yield from row("table 7", f"{SPARSE[method]}, {size}", ("EM", "F1", "K"), cells)
    for method, cells in facts["table8"].items():
        yield from row("table 8", SPARSE[method], ("EM", "F1"), cells)
    for method, cells in facts["table9"].items():
        name, _, labels = method.rpartition("_")
        yield from row("table 9", f"{SPARSE[name]}, {LABELS[labels]}", ("EM", "F1", "K", "DS"), cells)
    for method, cells in facts["table10"].items():
        yield from row("table 10", SPARSE[method], ("F1", "RougeLsum", "K", "DS"), cells)
    for labels, (documents, relevant, best) in facts["table13"].items():
        yield from row("table 13, filters", labels, ("documents", "relevant"), [documents, relevant])
        yield from row("table 13", "Gemini-Ultra then PALM2-XL", (labels,), [best])


def oreo(facts: dict[str, Any]) -> Cells:
    for model, methods in facts["table2"].items():
        shown = {"flan-t5": "Flan-T5", "opt-iml": "OPT-IML"}[model]
        for method, cells in methods.items():
            yield from row("table 2", f"{shown}, {OREO[method]}", ("single-hop", "multi-hop"), cells)
    for method, tasks in facts["table3"].items():
        for task, cells in tasks.items():
            yield from row("table 3", OREO[method], (task, f"{task} tokens"), cells)
    for task, cells in facts["table4"].items():
        yield from row("table 4", task, ("in order", "shuffled"), cells)
    for task, (training, test, _, precision) in facts["table5"].items():
        yield from row("table 5", task, ("training", "test", "precision@5"), [training, test, precision])
    for setting, cell in facts["table6"].items():
        yield from row("table 1", SETTINGS.get(setting, setting.replace("_", " ")), ("value",), [cell])
    for trained, cell in facts["table9"].items():
        yield from row("table 9", trained, ("score",), [cell])


PAPERS = {"paretorag": paretorag, "pfe_self_rag": pfe_self_rag, "sparse_rag": sparse_rag, "oreo": oreo}
