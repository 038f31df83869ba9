"""`make bench-titles`: the effect of encoded titles on recall, and on the answers of the embedded reader.

The passages of HotpotQA's sample, of the SQuAD articles that the reader was not trained on, of NQ's gold passages and
of 2WikiMultihopQA (which has no questions) are indexed twice, encode.text=unit and titled. A question belongs to one of
two halves by its id; alpha is chosen on the one, by answer recall@10 of the titled sentences, and everything printed is
of the other: per source the recalls@10 of naive RAG, ParetoRAG and BM25, and accuracy where a reader answers, each with
the paired difference to the same method on bare units (95 %, bootstrap over the questions).

    python -m benchmarks.titles [--store DIR] [--passages N] [--questions N]
"""

import json
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import numpy as np

from benchmarks.common import REAL, difference, evaluated, held_out, index, nq_articles, options, show
from vitalfew.flows.pipelines.evaluate import Evaluated
from vitalfew.tasks.reports.runs import read_manifest, read_question_scores

BUILD = Path("build/bench/titles")
SEED, K = 100, 10
ALPHAS = (0.3, 0.5, 0.8)
METRICS = (f"passage_recall@{K}", f"answer_recall@{K}", "accuracy", "prompt_tokens")
METHODS: dict[str, dict[str, Any]] = {
    "naive RAG": {"retriever": "passage"},
    "ParetoRAG": {"retriever": "core_context"},
    "BM25, passages": {"retriever": "bm25", "unit": "passage"},
    "BM25, sentences": {"retriever": "bm25", "unit": "sentence"},
}


def sources(passages: int) -> tuple[str, ...]:
    """Return at most that many passages of NQ and of 2WikiMultihopQA."""
    BUILD.mkdir(parents=True, exist_ok=True)
    unseen = set(held_out())
    squad = json.loads(REAL["squad"].read_text(encoding="utf-8"))["data"]
    others = json.loads(REAL["titletext"].read_text(encoding="utf-8"))
    written = {
        "squad.json": {"data": [article for article in squad if article["title"].replace("_", " ") in unseen]},
        "nq.json": nq_articles(passages),
        "2wiki.json": random.Random(SEED).sample(others, min(passages, len(others))),
    }
    for name, content in written.items():
        (BUILD / name).write_text(json.dumps(content), encoding="utf-8")
    formats = (("squad", "squad.json"), ("squad", "nq.json"), ("titletext", "2wiki.json"))
    return (f"hotpotqa:{REAL['hotpotqa']}", *(f"{kind}:{BUILD / name}" for kind, name in formats))


SOURCES = {"HotpotQA": "hotpotqa:%", "SQuAD": "%squad.json", "NQ": "%nq.json"}


def run(store: Path, source: str, half: int, methods: dict[str, Any], questions: int, answered: bool) -> Evaluated:
    where = f"source LIKE '{SOURCES[source]}' AND question_id % 2 = {half}"
    metrics = ["passage_recall", "answer_recall", *(["accuracy", "tokens"] if answered else [])]
    settings = {
        "questions": {"where": where, "sample": questions, "seed": SEED},
        "retrieve": {"top_k": K},
        "methods": methods,
        "score": {"metrics": metrics, "k": [K]},
        **({} if answered else {"generate": None}),
    }
    return evaluated(f"titles-{source}", settings, store)


def scores(store: Path, outcome: Evaluated) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yield methods with their values by metric, float64 (questions,)."""
    for method, artifacts in outcome.run.methods.items():
        asked = read_manifest(store, artifacts["asked"])
        yield method, read_question_scores(store, asked, [read_manifest(store, artifacts["scores"])]).values


def chosen_alpha(store: Path, questions: int) -> float:
    """Choose for titled sentences, by answer recall over the development halves of all sources."""
    recalls: dict[float, list[np.ndarray]] = {alpha: [] for alpha in ALPHAS}
    methods = {str(alpha): {"index": "titled", "retrieve": {"alpha": alpha}} for alpha in ALPHAS}
    for source in SOURCES:
        for method, values in scores(store, run(store, source, 0, methods, questions, answered=False)):
            recalls[float(method)].append(values[f"answer_recall@{K}"])
    means = {alpha: float(np.concatenate(parts).mean()) for alpha, parts in recalls.items()}
    print(f"development halves, answer recall@{K} by alpha: {means}", flush=True)
    return max(means, key=lambda alpha: means[alpha])


def rows(store: Path, source: str, alpha: float, questions: int) -> Iterator[Sequence[str]]:
    alphas = {"ParetoRAG": {"alpha": alpha}}
    for answered in (False, True):
        names = [name for name in METHODS if answered == (name in ("naive RAG", "ParetoRAG"))]
        methods = {
            f"{name}, {text}": {"index": text, "retrieve": METHODS[name] | alphas.get(name, {})}
            for name in names
            for text in ("unit", "titled")
        }
        found = dict(scores(store, run(store, source, 1, methods, questions, answered)))
        for name in names:
            bare, titled = found[f"{name}, unit"], found[f"{name}, titled"]
            cells = [cell(bare[metric], titled[metric]) if metric in bare else "" for metric in METRICS]
            yield f"{source} ({len(bare[METRICS[0]])})", name, *cells


def cell(bare: np.ndarray, titled: np.ndarray) -> str:
    digits = 3 if bare.max() <= 1 else 0
    means = f"{bare.mean():,.{digits}f} → {titled.mean():,.{digits}f}"
    return f"{means}, {difference(bare, titled)}" if digits else means


def main() -> None:
    parser = options(__doc__, BUILD / "store")
    parser.add_argument("--passages", type=int, default=1300, help="of NQ and of 2WikiMultihopQA each, at most")
    parser.add_argument("--questions", type=int, default=300, help="of a source's half, at most")
    given = parser.parse_args()
    for text in ("unit", "titled"):
        settings = {"name": text, "store": given.store, "encode": {"text": text}, "bm25": {"enabled": True}}
        outcome = index(datasets=sources(given.passages), **settings)
        load, _, encode, *_ = outcome.manifests
        tokens = sum(record.cost.tokens for record in encode.shards)
        print(f"{text}: {load.rows['passages']:,} passages, {tokens:,} tokens encoded", flush=True)
    alpha = chosen_alpha(given.store, given.questions)
    print(f"ParetoRAG at alpha {alpha}; unit → titled\n")
    found = (row for source in SOURCES for row in rows(given.store, source, alpha, given.questions))
    show(["questions", "method", *METRICS], found)


if __name__ == "__main__":
    main()
