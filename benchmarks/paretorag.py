"""`make bench-index`: what ParetoRAG's index costs against naive RAG's, and what each retrieves.

Every index is built in a store of its own by one process on one core (`--runner serial`), so that nothing is reused.
Retrieval: passage recall@k (a top-k unit is of a gold passage) and answer recall@k (a top-k unit's own text contains a
gold answer, letter case apart), for every context mode and alpha, each mode from one dual index.
"""

import json
import os
import random
import shutil
import sys
import time
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import faiss
import numpy as np
import pyarrow.parquet as pq

from benchmarks.common import describe, index, one_core, specifications, table_head, table_row
from vitalfew.configs.schema import RetrieveConfig
from vitalfew.storage.artifacts import Manifest
from vitalfew.tasks.retrieve import Searcher

ALPHAS = [round(0.1 * step, 1) for step in range(11)]
KS = (1, 5, 10, 30)
SEED = 100
QUESTIONS = 1500
BUILD = Path("build/bench")
SETTINGS: dict[str, dict[str, object]] = {
    "naive": {"units": ["passage"]},
    "late": {"context": "late"},
    "pooled": {"context": "pooled", "units": ["sentence"]},
    "passage": {"context": "passage"},
    "exact": {"context": "exact", "units": ["sentence"]},
}


def build_index(mode: str) -> list[Manifest]:
    store = BUILD / mode
    shutil.rmtree(store, ignore_errors=True)
    return index(datasets=specifications(), name=mode, store=store, encode=SETTINGS[mode]).manifests


def cost_table(manifests: dict[str, list[Manifest]]) -> str:
    lines = [table_head(["index", "tokens", "× naive", "wall s", "× naive", "CPU s", "× naive"])]
    base = totals(manifests["naive"])
    for mode, stages in manifests.items():
        ratios = [each / of_naive for each, of_naive in zip(totals(stages), base, strict=True)]
        tokens, wall, cpu = totals(stages)
        cells = [f"{tokens:,}", f"{ratios[0]:.2f}", f"{wall:.1f}", f"{ratios[1]:.2f}", f"{cpu:.1f}", f"{ratios[2]:.2f}"]
        lines.append(table_row([mode, *cells]))
    return "\n".join(lines)


def totals(stages: list[Manifest]) -> tuple[int, float, float]:
    """Tokens encoded, wall seconds and CPU seconds of all stages of an index."""
    costs = [record.cost for stage in stages for record in [stage.preparation, *stage.shards] if record]
    seconds = (sum(getattr(cost, name) for cost in costs) for name in ("wall_seconds", "cpu_seconds"))
    return sum(cost.tokens for cost in costs), *seconds


def sample_questions(store: Path, passages: str) -> list[dict]:
    """SQuAD's questions where there are any (else all), a seeded sample, in an order of their own."""
    rows = pq.read_table(store / "questions" / passages.split("/")[1]).to_pylist()
    squad = [row for row in rows if row["source"].startswith("squad:")] or rows
    squad.sort(key=lambda row: row["question_id"])
    return random.Random(SEED).sample(squad, min(QUESTIONS, len(squad)))


def recalls(
    searcher: Searcher, questions: list[dict], vectors: np.ndarray, request: RetrieveConfig
) -> dict[str, float]:
    top = searcher.search([question["text"] for question in questions], request, vectors)
    units = searcher.texts(top, "passage" if request.retriever == "passage" else "sentence")
    ranks: dict[str, list[float]] = {"passage": [], "answer": []}
    for question, rows in zip(questions, units, strict=True):
        gold, answers = set(question["gold_passages"]), [answer.lower() for answer in question["answers"]]
        ranks["passage"].append(first(row["passage_id"] in gold for row in rows))
        ranks["answer"].append(first(any(answer in row["text"].lower() for answer in answers) for row in rows))
    return {f"{kind}@{k}": float(np.mean(np.array(each) < k)) for kind, each in ranks.items() for k in KS}


def first(matches) -> float:
    return next((place for place, matched in enumerate(matches) if matched), float("inf"))


def main() -> None:
    faiss.omp_set_num_threads(1)
    one_core()
    modes = sys.argv[1:] or list(SETTINGS)
    print(f"corpus: {describe()}", flush=True)
    manifests: dict[str, list[Manifest]] = {}
    for mode in modes:
        manifests[mode] = build_index(mode)
        print(f"{mode}: built", file=sys.stderr, flush=True)
    if "naive" in manifests:
        print(cost_table(manifests), "\n")
    header = [f"{kind}@{k}" for kind in ("passage", "answer") for k in KS]
    print(table_head(["context", "alpha", *header]))
    results = {}
    for mode in modes:
        searcher = Searcher.named(BUILD / mode, mode)
        questions = sample_questions(BUILD / mode, searcher.index.artifacts["passages"])
        began = time.perf_counter()
        texts = [question["text"] for question in questions]
        vectors = searcher.encoder.encode_questions(texts).vectors
        encoding = time.perf_counter() - began
        retriever = "passage" if mode == "naive" else "core_context"
        for alpha in ALPHAS if mode != "naive" else [1.0]:
            request = RetrieveConfig(retriever=retriever, alpha=alpha, top_k=max(KS))
            found = results[f"{mode} {alpha}"] = recalls(searcher, questions, vectors, request)
            print(table_row([mode, alpha if mode != "naive" else "–", *(f"{found[name]:.3f}" for name in header)]))
        began = time.perf_counter()
        searcher.texts(
            searcher.search(texts, RetrieveConfig(retriever=retriever, top_k=10), vectors),
            "sentence" if mode != "naive" else "passage",
        )
        seconds = encoding + time.perf_counter() - began
        print(
            f"<!-- {mode}: {len(questions) / seconds:,.0f} questions/s on one core, encoding and texts included -->",
            flush=True,
        )
    (BUILD / "paretorag.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
