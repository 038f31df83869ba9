"""`make bench-evaluate`: does ParetoRAG answer as well from less? The embedded reader on questions it has not seen.

1,000 questions (seed 100) of the SQuAD articles that the reader was not trained on, against the whole benchmark corpus:
no retrieval, naive RAG's ten passages, ParetoRAG's ten and thirty sentences for every context mode, alpha 0.8. Then
what an alpha sweep of eleven points takes against one point, without a generator and with it, each in a store of its
own that has the index and nothing of an evaluation. One process, one core.

    python -m benchmarks.evaluation [--store DIR] [--questions N]
"""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

from rich.console import Console

from benchmarks.common import describe, evaluated, held_out, index, machine, options, specifications, sql_list
from vitalfew.flows.pipelines.evaluate import Evaluated
from vitalfew.storage.runs import index_names
from vitalfew.tasks.report import read_report, write_report
from vitalfew.tasks.reports.shown.markdown import markdown_report

BUILD = Path("build/bench-evaluate")
MODES = ("passage", "late", "exact")
QUESTIONS = 1000
SWEEP = [round(0.1 * step, 1) for step in range(11)]


def asked(sample: int) -> dict[str, Any]:
    """Return the questions of the reader's held-out articles, or all, if the corpus lacks those."""
    if "squad:" not in " ".join(specifications()):
        return {"sample": sample}
    return {"where": f"source LIKE 'squad:%' AND list_has_any(titles, {sql_list(held_out())})", "sample": sample}


def methods() -> dict[str, Any]:
    found: dict[str, Any] = {
        "no retrieval": {"retrieve": None},
        "naive, 10 passages": {"index": "passage", "retrieve": {"retriever": "passage", "top_k": 10}},
    }
    for mode in MODES:
        for top_k in (10, 30):
            found[f"ParetoRAG {mode}, {top_k} sentences"] = {"index": mode, "retrieve": {"top_k": top_k}}
    return found


def run(store: Path, name: str, settings: dict[str, Any], sample: int) -> tuple[Evaluated, float]:
    began = time.perf_counter()
    outcome = evaluated(name, settings, store, questions=asked(sample))
    return outcome, time.perf_counter() - began


def sweep_ratio(store: Path, generate: dict[str, Any] | None, sample: int) -> str:
    """Return the seconds of one alpha and of eleven, both on a fresh copy of the store's index."""
    seconds = []
    for number, alphas in enumerate(([0.8], SWEEP)):
        copy = BUILD / f"sweep-{number}"
        shutil.rmtree(copy, ignore_errors=True)
        subprocess.run(["cp", "-al", str(store), str(copy)], check=True)
        for table in ("asked", "question_vectors", "hits", "evidence", "candidates", "scores", "summaries"):
            shutil.rmtree(copy / table, ignore_errors=True)
        settings = {"index": "passage", "generate": generate, "methods": {"ParetoRAG": {"retrieve": {"alpha": alphas}}}}
        seconds.append(run(copy, "sweep", settings, sample)[1])
        shutil.rmtree(copy)
    return f"{seconds[0]:.1f} s for one alpha, {seconds[1]:.1f} s for eleven: {seconds[1] / seconds[0]:.2f} times"


def main() -> None:
    parser = options(__doc__, BUILD / "store")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help=f"questions of the corpus; {QUESTIONS:,}")
    given = parser.parse_args()
    store, sample = given.store, given.questions
    BUILD.mkdir(parents=True, exist_ok=True)
    for mode in MODES:
        if mode not in index_names(store):
            index(datasets=specifications(), name=mode, store=store, encode={"context": mode})
    metrics = ["accuracy", "exact_match", "f1", "passage_recall", "answer_recall", "tokens"]
    score = {"metrics": metrics, "k": [10, 30]}
    outcome, seconds = run(store, "held_out", {"methods": methods(), "score": score}, sample)
    report = read_report(store, outcome.run)
    columns = ["accuracy", "exact_match", "f1", "passage_recall@10", "answer_recall@30", "prompt_tokens", "contexts"]
    print(f"corpus: {describe()}; {machine()}; {seconds:.0f} s\n\n{markdown_report(report, columns)}\n")
    Console(stderr=True).print(f"page: {write_report(store, report).html}")
    print(f"alpha sweep, retrieval alone: {sweep_ratio(store, None, sample)}")
    print(f"alpha sweep, with the reader: {sweep_ratio(store, {}, sample)}")


if __name__ == "__main__":
    main()
