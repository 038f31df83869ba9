"""Rescored keywords against the encoder over everything; and an index that encodes later, at scale.

    python -m benchmarks.rescore --rivals DATASET [--questions N]

indexes a data set with --encode later, by bm25s alone, and by sentence-transformers with FAISS, and asks each of them.

    python -m benchmarks.rescore --answers CORPUS [--questions N] [--store DIR]

asks a corpus of benchmarks.spans: rankings with all vectors, and ParetoRAG and spans at 300 tokens with all vectors and
on an index that encodes later.

    python -m benchmarks.rescore [--passages N] [--questions N] [--store DIR]

indexes passages that are made of sentences of the benchmark corpus, drawn at random (`--passages`, by default 10⁶),
with --encode later. A known item is a passage that is searched for by words of two of its sentences in another order,
every third left out. Every question is asked twice: the first time its candidates are encoded, the second time their
vectors are remembered.
"""

import json
import os
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import numpy as np

from benchmarks.common import VITALFEW, evaluated, index, machine, one_core, options, show, texts

if TYPE_CHECKING:
    from vitalfew.tasks.retrieve import Searcher

BUILD = Path("build/bench/rescore")
SENTENCES, TOP = 4, 100
MEASURES = ("accuracy", "passage_recall@10", "mrr")
_BM25 = {"retriever": "bm25", "unit": "passage", "top_k": 10}
RANKINGS: dict[str, Any] = {
    "encoder": {"retrieve": {"retriever": "passage", "top_k": 10}},
    **{f"all, weight {weight}": {"retrieve": {**_BM25, "rescore": 10_000, "weight": weight}} for weight in (1, 2)},
    **{f"rescored {count}": {"retrieve": {**_BM25, "rescore": count}} for count in (50, 100, 200)},
}
METHODS: dict[str, Any] = {
    "ParetoRAG": {"retrieve": {"retriever": "core_context", "top_k": 40}},
    "spans": {"retrieve": {"retriever": "spans", "top_k": 200}, "refine": {"refiner": "spans"}},
}
EVALUATED: dict[str, Any] = {
    "refine": {"max_tokens": 300}, "generate": {"generator": "reader"}, "primary": "accuracy",
    "score": {"metrics": ["accuracy", "passage_recall", "mrr"], "k": [10]},
}  # fmt: skip


def corpus(path: Path, passages: int) -> None:
    """Write passages of sentences that stand in real passages, each of another choice."""
    from vitalfew.tasks.datasets.base import Passage

    draw = random.Random(0)
    real = [sentence for text in texts(Passage) for sentence in re.split(r"(?<=[.!?]) +", text) if len(sentence) > 30]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for number in range(passages):
            own = " ".join(draw.choices(real, k=SENTENCES))
            file.write(json.dumps({"title": f"Record {number}", "text": own}) + "\n")


def known_item(text: str, draw: random.Random) -> str:
    """A question for a passage: two thirds of the words of two of its sentences, in another order. One sentence would
    not do: among 10⁶ passages each stands in many."""
    sentences = sorted(re.split(r"(?<=[.!?]) +", text), key=len)[-2:]
    words = [word for sentence in sentences for word in sentence.split()]
    return " ".join(draw.sample(words, max(3, 2 * len(words) // 3)))


def main() -> None:
    parser = options(__doc__, BUILD / "store")
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--runner", default="auto", help="of `vitalfew index`")
    parser.add_argument("--rivals", metavar="DATASET", help="a data set with questions and their gold passages")
    parser.add_argument("--answers", metavar="CORPUS", help="of benchmarks.spans")
    given = parser.parse_args()
    if given.answers:
        show(
            ["", "questions", *MEASURES, "later minus all vectors"],
            answers(given.store, given.answers, given.questions),
        )
        return
    if given.rivals:
        print(f"{given.rivals}; {machine()}\n")
        show(["", "index, CPU s", "R@10", "MRR", "a question, CPU ms"], rivals(given.rivals, given.questions))
        return
    source = BUILD / f"{given.passages}.jsonl"
    if not source.exists():
        corpus(source, given.passages)
    name = f"later-{given.passages}"
    began = time.perf_counter()
    run = [*VITALFEW, "index", f"jsonl:{source}", "--name", name, "--encode", "later"]
    run += ["--store", str(given.store), "--runner", given.runner]
    subprocess.run(run, check=True, stdout=sys.stderr)
    wall, used = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    rows: list[tuple[str, ...]] = [
        ("index", f"{wall:,.0f}", f"{used.ru_utime + used.ru_stime:,.0f}", f"{used.ru_maxrss >> 10:,}", "")
    ]
    rows += searched(given.store, name, given.questions)
    print(f"{given.passages:,} passages; {machine()}\n")
    show(["step", "wall s", "CPU s", "peak MiB", "found"], rows)


def asked_of(searcher: "Searcher", count: int) -> list[dict[str, Any]]:
    """Return that many questions of a corpus that have gold passages, drawn at random."""
    passages = searcher.index.artifacts["passages"]
    rows = [
        row
        for record in passages.completed().shards
        for row in passages.read(record.shard, "questions", ["text", "gold_passages"]).to_pylist()
        if row["gold_passages"]
    ]
    random.Random(0).shuffle(rows)
    return rows[:count]


def figures(found: Sequence[Sequence[int]], rows: Sequence[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Return of every question the share of gold passages among the first ten, and the first one's reciprocal rank."""
    ranks = [
        [ids.index(gold) if gold in ids else TOP for gold in row["gold_passages"]]
        for ids, row in zip(map(list, found), rows, strict=True)
    ]
    recall = [float(np.mean([rank < 10 for rank in own])) for own in ranks]
    return recall, [1 / (1 + min(own)) if min(own) < TOP else 0.0 for own in ranks]


Ask = Callable[[list[str]], list[list[int]]]
"""Gives the best passages of every question."""


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU seconds that `work` takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def by_bm25s(texts: list[str], ids: "np.ndarray") -> tuple[float, Ask]:
    import bm25s

    keywords = bm25s.BM25()
    took = cpu(lambda: keywords.index(bm25s.tokenize(texts, show_progress=False), show_progress=False))

    def ask(asked: list[str]) -> Any:
        words = bm25s.tokenize(asked, show_progress=False)
        return ids[keywords.retrieve(words, k=TOP, show_progress=False)[0]].tolist()

    return took, ask


def by_sentence_transformers(texts: list[str], ids: "np.ndarray") -> tuple[float, Ask]:
    import faiss
    from sentence_transformers import SentenceTransformer

    from vitalfew.tasks.models.files import minilm_directory

    faiss.omp_set_num_threads(1)
    model = SentenceTransformer(str(minilm_directory()), device="cpu")
    vectors = faiss.IndexFlatIP(model.get_embedding_dimension())
    took = cpu(lambda: vectors.add(model.encode(texts, normalize_embeddings=True)))
    return took, lambda asked: ids[vectors.search(model.encode(asked, normalize_embeddings=True), TOP)[1]].tolist()


def ours(searcher: "Searcher", request: Any, asked: list[str]) -> Any:
    return searcher.search(asked, request).ids.tolist()


def rivals(dataset: str, questions: int) -> Iterator[tuple[str, ...]]:
    """Index and ask by the product, by bm25s, and by sentence-transformers with FAISS; on one core."""
    import torch

    from vitalfew.configs.schema import RetrieveConfig
    from vitalfew.tasks.retrieve import Searcher

    one_core()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        store, later = Path(folder, "store"), {"vectors": "later"}
        took = cpu(lambda: index(datasets=(dataset,), name="all", store=store, bm25={"enabled": True}, encode=later))
        searcher = Searcher.named(store, "all")
        rows, passages = asked_of(searcher, questions), searcher.index.artifacts["passages"]
        known = [row for record in passages.completed().shards for row in passages.read(record.shard).to_pylist()]
        ids = np.array([row["passage_id"] for row in known])

        def row(name: str, took: float, ask: Ask) -> tuple[str, ...]:
            began = time.process_time()
            recall, first = figures(ask([row["text"] for row in rows]), rows)
            each = 1000 * (time.process_time() - began) / len(rows)
            return name, f"{took:.1f}", f"{np.mean(recall):.3f}", f"{np.mean(first):.3f}", f"{each:.1f}"

        for name, rescore in (("keywords", None), ("rescored, cold", 100), ("rescored, warm", 100)):
            request = RetrieveConfig(retriever="bm25", unit="passage", top_k=TOP, rescore=rescore)
            yield row(name, took, partial(ours, searcher, request))
        for name, rival in (("bm25s", by_bm25s), ("sentence-transformers, FAISS", by_sentence_transformers)):
            yield row(name, *rival([f"{row['title']}: {row['text']}" for row in known], ids))


def answers(store: Path, name: str, questions: int) -> Iterator[tuple[str, ...]]:
    """Ask by rankings of passages and by two methods, and the methods again on an index that encodes later."""
    from benchmarks.spans import BUILD as CELERY
    from benchmarks.spans import corpora, documentation, indexed
    from vitalfew.tasks.reports.runs import EvaluatedMethod
    from vitalfew.tasks.reports.statistics.paired import paired_bootstrap

    corpus, all_scores = corpora(documentation(CELERY))[name], dict[str, list[np.ndarray]]()
    asked = {"dataset": corpus.questions, "where": corpus.where, "half": corpus.half, "sample": questions}
    for suffix, vectors, methods in (("", "all", {**RANKINGS, **METHODS}), ("-later", "later", METHODS)):
        where = indexed(store, name, corpus, suffix, bm25={"enabled": True}, encode={"vectors": vectors})
        own = {**EVALUATED, "methods": methods, "baseline": "spans"}
        run = evaluated(f"answers{suffix}", own, store, index=where, questions=asked).run
        for method in methods:
            scores = EvaluatedMethod.of(store, run, method, [method]).scores
            each = [np.array(scores.of(measure, scores.ids), float) for measure in MEASURES]
            minus = []
            for mine, other in zip(each, all_scores.get(method, ()), strict=False):
                [found] = paired_bootstrap(other, mine[np.newaxis])
                minus.append(f"{found.mean_difference:+.3f} ({found.low:+.3f} to {found.high:+.3f})")
            all_scores.setdefault(method, each)
            means = (f"{np.nanmean(values):.3f}" for values in each)
            yield method + suffix, str(len(scores.ids)), *means, "; ".join(minus)


def searched(store: Path, name: str, questions: int) -> list[tuple[str, ...]]:
    """Ask for known items, by keywords, and by keywords and the encoder, cold and warm."""
    from vitalfew.configs.schema import RetrieveConfig
    from vitalfew.tasks.retrieve import Searcher

    searcher, draw, rows = Searcher.named(store, name), random.Random(1), []
    shards = draw.choices(searcher.index.manifests["passages"].shards, k=questions)
    passages = [searcher.units.row("passage", one.shard, draw.randrange(one.rows("passages"))) for one in shards]
    asked = [(known_item(row["text"], draw), row["passage_id"]) for row in passages]
    searcher.search([asked[0][0]], RetrieveConfig(retriever="bm25", unit="passage"))  # opens the files
    searcher.encoder.encode_questions([asked[0][0]])
    for label, rescore in (("keywords", None), ("rescored, cold", 50), ("rescored, warm", 50)):
        request = RetrieveConfig(retriever="bm25", unit="passage", rescore=rescore)
        walls, found, cpu = [], 0, time.process_time()
        for question, gold in asked:
            began = time.perf_counter()
            top = searcher.search([question], request)
            walls.append(time.perf_counter() - began)
            found += gold in top.ids[0].tolist()
        each = (time.process_time() - cpu) / len(asked)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        rows.append((label, f"{np.median(walls):.3f}", f"{each:.3f}", f"{peak:,}", f"{found / len(asked):.2f}"))
    size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    return [*rows, ("store, MB", f"{size / 1e6:,.0f}", "", "", "")]


if __name__ == "__main__":
    main()
