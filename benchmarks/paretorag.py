"""`make bench-index`: the cost of ParetoRAG's index against naive RAG's, and the recall of each.

    python -m benchmarks.paretorag [MODE]... [--questions N]

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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import faiss
import numpy as np

from benchmarks.common import clock, describe, index, machine, one_core, options, read_questions, show, specifications
from vitalfew.configs.schema import RetrieveConfig
from vitalfew.storage.artifacts import Artifact, Manifest
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


def costs(manifests: dict[str, list[Manifest]]) -> Iterator[Sequence[str]]:
    """Yield a row for every index."""
    base = totals(manifests["naive"])
    for mode, stages in manifests.items():
        of_mode = totals(stages)
        shown = (f"{of_mode[0]:,}", *(f"{seconds:.1f}" for seconds in of_mode[1:]))
        ratios = (f"{each / of_naive:.2f}" for each, of_naive in zip(of_mode, base, strict=True))
        yield mode, *(cell for pair in zip(shown, ratios, strict=True) for cell in pair)


def totals(stages: list[Manifest]) -> tuple[int, float, float]:
    """Return the tokens encoded, the wall seconds and the CPU seconds of all stages of an index."""
    costs = [record.cost for stage in stages for record in [stage.preparation, *stage.shards] if record]
    seconds = (sum(getattr(cost, name) for cost in costs) for name in ("wall_seconds", "cpu_seconds"))
    return sum(cost.tokens for cost in costs), *seconds


def sample_questions(passages: Artifact, count: int) -> list[dict]:
    """Return a seeded sample of SQuAD's questions, or of all if there are none, in random order."""
    rows = read_questions(passages)
    squad = [row for row in rows if row["source"].startswith("squad:")] or rows
    return random.Random(SEED).sample(squad, min(count, len(squad)))


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


def first(matches: Iterable[bool]) -> float:
    return next((place for place, matched in enumerate(matches) if matched), float("inf"))


HEADER = [f"{kind}@{k}" for kind in ("passage", "answer") for k in KS]


def retrieval(mode: str, count: int, results: dict[str, dict[str, float]]) -> Iterator[Sequence[object]]:
    """Yield a row for every alpha, and enter its recalls in `results`; print the speed."""
    searcher = Searcher.named(BUILD / mode, mode)
    questions = sample_questions(searcher.index.artifacts["passages"], count)
    began = time.perf_counter()
    texts = [question["text"] for question in questions]
    vectors = searcher.encoder.encode_questions(texts).vectors
    encoding = time.perf_counter() - began
    naive = mode == "naive"
    retriever, unit = ("passage", "passage") if naive else ("core_context", "sentence")
    for alpha in [1.0] if naive else ALPHAS:
        request = RetrieveConfig(retriever=retriever, top_k=max(KS), **({} if naive else {"alpha": alpha}))
        found = results[f"{mode} {alpha}"] = recalls(searcher, questions, vectors, request)
        yield mode, "–" if naive else alpha, *(f"{found[name]:.3f}" for name in HEADER)
    request = RetrieveConfig(retriever=retriever, top_k=10)
    seconds = encoding + clock(lambda: searcher.texts(searcher.search(texts, request, vectors), unit))
    print(f"<!-- {mode}: {len(questions) / seconds:,.0f} questions/s on one core, encoding and texts included -->")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("modes", nargs="*", metavar="MODE", help=f"of {', '.join(SETTINGS)}; default: all")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help=f"questions that are asked; {QUESTIONS:,}")
    given = parser.parse_args()
    faiss.omp_set_num_threads(1)
    one_core()
    modes = given.modes or list(SETTINGS)
    print(f"corpus: {describe()}; {machine()}", flush=True)
    manifests: dict[str, list[Manifest]] = {}
    for mode in modes:
        manifests[mode] = build_index(mode)
        print(f"{mode}: built", file=sys.stderr, flush=True)
    if "naive" in manifests:
        show(["index", "tokens", "× naive", "wall s", "× naive", "CPU s", "× naive"], costs(manifests))
        print()
    results: dict[str, dict[str, float]] = {}
    show(["context", "alpha", *HEADER], (row for mode in modes for row in retrieval(mode, given.questions, results)))
    (BUILD / "paretorag.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
