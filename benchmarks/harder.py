"""`make bench-harder`: what methods are worth where retrieval is hard, among all passages at hand and many look-alikes.

Questions of SQuAD (test half of those on articles that the reader was not trained on), NQ (test half) and HotpotQA's
sample are asked of three pools: *small*, the corpus of docs/spans.md; *real*, the passages of all corpora at hand, with
2WikiMultihopQA, QMSum, Python's manual and Celery's documentation; *crowded*, these and look-alikes of the gold
passages (lookalikes.py), which compete for wording and are right for no question.

The tables have recall@10 of every retriever in every pool (the share of the gold passages that a top-10 unit is of, and
whether the text of one has a gold answer), and the accuracy of the bundled reader by method and budget in the small and
in the crowded pool, with the paired differences to naive RAG, at equal tokens, in both; *change* is the latter
difference minus the former, question by question. Intervals are 95 %, bootstrap over the questions. Oreo has its own
length, and is compared at the smallest budget.

    python -m benchmarks.harder [--store DIR] [--lookalikes N] [--questions N] [--answered N] [--celery DIR]
        [--recall] [--without METHOD] [CORPUS ...]
"""

import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import numpy as np

from benchmarks.celery_docs import documentation, specification
from benchmarks.common import DATA, NQ, REAL, evaluated, held_out, index, options, show, sql_list
from benchmarks.lookalikes import Stock, lookalikes, read_originals
from benchmarks.when import WIKI
from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.loading import merged
from vitalfew.flows.pipelines.experiments import find
from vitalfew.storage.runs import Run
from vitalfew.tasks.reports.runs import Values, read_manifest, read_question_scores, read_rows
from vitalfew.tasks.reports.statistics.paired import Difference, paired_bootstrap

BUILD = Path("build/bench/harder")
EXPERIMENT, NAIVE, K, SEED = "spans/never_worse", "naive RAG", 10, 0
BUDGETS = [120, 300]
RECALLS = (f"passage_recall@{K}", f"answer_recall@{K}")
SMALL, ALL_REAL, CROWDED = POOLS = ("small", "real", "crowded")
RETRIEVERS: dict[str, dict[str, Any]] = {
    NAIVE: {"retriever": "passage"},
    "ParetoRAG": {"retriever": "core_context"},
    "hybrid sentences": {"retriever": "hybrid", "alpha": 0.8},
    "hybrid passages": {"retriever": "hybrid", "unit": "passage"},
    "spans": {"retriever": "spans"},
}
MMR: dict[str, Any] = {"MMR": {"refine": {"refiner": "mmr", "mmr_lambda": 0.9}}}
SETS = {"SQuAD": f"squad:{REAL['squad']}", "NQ": f"ctxs:{NQ}", "HotpotQA": f"hotpotqa:{REAL['hotpotqa']}"}
Way = tuple[str, int | None]
"""A method and its budget in tokens; None: its own length."""


@dataclass(frozen=True)
class Asked:
    """Which questions of a corpus are asked, and the data sets and the index of its small pool."""

    small: tuple[str, ...]
    where: str
    half: str | None = None


@dataclass(frozen=True)
class Scored:
    """Values of the same questions by metric and way, float64 (questions,)."""

    values: dict[str, dict[Way, Values]]

    def minus_naive(self, metric: str, way: Way) -> Values:
        values = self.values[metric]
        budgets = [budget for _, budget in values if budget]
        return values[way] - values[NAIVE, way[1] or (min(budgets) if budgets else None)]


def asked() -> dict[str, Asked]:
    unseen = f"len(list_intersect(titles, {sql_list(held_out())})) > 0"
    return {
        "SQuAD": Asked((SETS["SQuAD"],), f"source LIKE 'squad:%' AND {unseen}", "test"),
        "NQ": Asked((SETS["NQ"], WIKI), "source LIKE 'ctxs:%' AND len(answers) > 0", "test"),
        "HotpotQA": Asked((SETS["HotpotQA"], WIKI), "source LIKE 'hotpotqa:%'"),
    }


def real(celery: Path) -> tuple[str, ...]:
    """Return the data sets of all passages at hand; `celery`: the folder of Celery's documentation."""
    meetings = f"qmsum:{DATA / 'qmsum' / 'val.jsonl'}"
    return (*SETS.values(), WIKI, meetings, "python_manual:", specification(celery))


def write_lookalikes(gold: Collection[int], count: int) -> str:
    """Write look-alikes of the gold passages, and return their data set."""
    known = read_originals(SETS.values())
    originals = [known[key] for key in sorted(gold)]
    made = [*lookalikes(originals, Stock([*known.values()]), count, SEED)]
    file = BUILD / f"lookalikes-{count}.json"
    file.write_text(json.dumps([{"title": each.title, "text": each.text} for each in made]), encoding="utf-8")
    per = np.bincount([each.original for each in made], minlength=len(originals))
    words = np.mean([len(each.text.split()) for each in made])
    print(
        f"{len(made):,} look-alikes of {len(originals):,} passages: {np.median(per):.0f} of one in the median, "
        f"{per.max()} at most, none of {(per == 0).sum()}; {words:.0f} words",
        file=sys.stderr,
    )
    return f"titletext:{file}"


def indexed(store: Path, name: str, datasets: Sequence[str]) -> str:
    """Index a pool with keywords, and return the index's name."""
    began = time.process_time()
    load = index(datasets=tuple(datasets), name=name, store=store, bm25={"enabled": True}).manifests[0]
    seconds = time.process_time() - began
    print(f"{name}: {load.rows['passages']:,} passages, {seconds:,.0f} CPU seconds", file=sys.stderr, flush=True)
    return name


def recall(store: Path, pool: str, of: Asked, questions: int) -> Run:
    """Retrieve, and answer nothing."""
    settings: dict[str, Any] = {
        "questions": {"where": of.where, "half": of.half, "sample": questions},
        "retrieve": {"top_k": K},
        "methods": {name: {"retrieve": retriever} for name, retriever in RETRIEVERS.items()},
        "generate": None,
        "score": {"metrics": ["passage_recall", "answer_recall"], "k": [K]},
    }
    return evaluated("harder-recall", settings, store, index=pool).run


def answered(store: Path, pool: str, of: Asked, questions: int, without: Collection[str]) -> Run:
    name, own = find(EXPERIMENT)
    own["methods"] = {method: way for method, way in (own["methods"] | MMR).items() if method not in without}
    settings = {
        "questions": {"where": of.where, "half": of.half, "sample": questions},
        "refine": {"max_tokens": BUDGETS},
        "baseline": NAIVE,
        "optional": [],
        "score": {"metrics": ["accuracy", "f1", "answer_kept", "tokens"]},
    }
    return evaluated(f"harder-{name}", merged(own, settings), store, index=pool).run


def scored(store: Path, run: Run, metrics: Sequence[str]) -> Scored:
    budgets = {method.name: method.refine.max_tokens for method in Evaluate.model_validate(run.config).methods}
    values: dict[str, dict[Way, Values]] = {metric: {} for metric in metrics}
    for method, artifacts in run.methods.items():
        way = method.removesuffix(f" max_tokens={budgets[method]}"), budgets[method]
        of_asked, scores = (read_manifest(store, artifacts[table]) for table in ("asked", "scores"))
        found = read_question_scores(store, of_asked, [scores])
        for metric in metrics:
            values[metric][way] = found.of(metric, found.ids)
    return Scored(values)


def joined(of_corpora: Sequence[Scored]) -> Scored:
    """The questions of several corpora together."""
    first = of_corpora[0].values
    return Scored(
        {m: {way: np.concatenate([each.values[m][way] for each in of_corpora]) for way in first[m]} for m in first}
    )


def paired(gaps: Values) -> Difference:
    [found] = paired_bootstrap(np.zeros(len(gaps)), gaps[None])
    return found


def interval(gaps: Values) -> str:
    found = paired(gaps)
    if found.low is None or found.high is None:
        return f"{found.mean_difference or 0:+.3f}"
    return f"{found.mean_difference:+.3f} ({found.low:+.3f} to {found.high:+.3f})"


Figures = Mapping[str, Mapping[str, Scored]]
"""By corpus and by pool."""


def gaps(small: Scored, crowded: Scored, metric: str, way: Way) -> list[str]:
    """Return the differences to naive RAG in both pools, and what they differ by."""
    if way[0] == NAIVE:
        return ["", "", ""]
    before, after = (each.minus_naive(metric, way) for each in (small, crowded))
    return [interval(before), interval(after), interval(after - before)]


def recall_rows(figures: Figures, metric: str) -> Iterator[Sequence[str]]:
    for corpus, pools in figures.items():
        for number, way in enumerate(pools[CROWDED].values[metric]):
            means = [f"{np.nanmean(pools[pool].values[metric][way]):.3f}" for pool in POOLS]
            count = len(pools[CROWDED].values[metric][way])
            yield (
                *("" if number else f"{corpus}, {count:,}", way[0], *means),
                *gaps(pools[SMALL], pools[CROWDED], metric, way),
            )


def accuracy_rows(figures: Figures, metric: str = "accuracy") -> Iterator[Sequence[str]]:
    for corpus, pools in figures.items():
        values, tokens = pools[CROWDED].values[metric], pools[CROWDED].values["context_tokens"]
        for budget in BUDGETS:
            ways = [way for way in values if (way[1] or BUDGETS[0]) == budget]
            for number, way in enumerate(sorted(ways, key=lambda way: way[0] != NAIVE)):
                means = [f"{np.nanmean(pools[pool].values[metric][way]):.3f}" for pool in (SMALL, CROWDED)]
                yield (
                    *("" if number else f"{corpus}, {len(values[way]):,}, {budget} tokens", way[0]),
                    *(*means, *gaps(pools[SMALL], pools[CROWDED], metric, way), f"{np.nanmean(tokens[way]):.0f}"),
                )


def cells(figures: Figures) -> list[dict[str, Any]]:
    """Return all figures, for JSON."""
    return [
        {
            **{"corpus": corpus, "pool": pool, "metric": metric, "method": way[0], "budget": way[1]},
            **{"mean": float(np.nanmean(values)), "minus_naive": asdict(paired(of.minus_naive(metric, way)))},
        }
        for corpus, pools in figures.items()
        for pool, of in pools.items()
        for metric, by_way in of.values.items()
        for way, values in by_way.items()
    ]


def index_pools(store: Path, corpora: Mapping[str, Asked], celery: Path, questions: int, count: int) -> None:
    """Index the pools of all corpora; the crowded one has look-alikes of what the questions' gold passages are."""
    for name, of in corpora.items():
        indexed(store, name.lower(), of.small)
    indexed(store, ALL_REAL, real(celery))
    gold = {
        passage
        for of in corpora.values()
        for passages in read_rows(store, recall(store, ALL_REAL, of, questions), NAIVE, "asked")["gold_passages"]
        for passage in passages
    }
    indexed(store, CROWDED, (*real(celery), write_lookalikes(gold, count)))


def measured(
    store: Path, corpora: Mapping[str, Asked], pools: Sequence[str], metrics: Sequence[str], run: Callable[..., Run]
) -> Figures:
    """Return the scores of every corpus in every pool, and of all questions together; `run`: of an index and a corpus.

    The index of a small pool has the name of its corpus."""
    found = {
        name: {pool: scored(store, run(name.lower() if pool == SMALL else pool, of), metrics) for pool in pools}
        for name, of in corpora.items()
    }
    return found | {"all": {pool: joined([each[pool] for each in found.values()]) for pool in pools}}


DIFFERENCES = ("small, minus naive", "crowded, minus naive", "change")


def show_recalls(figures: Figures) -> None:
    for metric in RECALLS:
        print(f"\n{metric.replace('_', ' ')}\n")
        show(["questions", "retriever", *POOLS, *DIFFERENCES], recall_rows(figures, metric))


def show_accuracies(figures: Figures) -> None:
    print("\naccuracy\n")
    show(["questions", "method", SMALL, CROWDED, *DIFFERENCES, "tokens, crowded"], accuracy_rows(figures))


def main() -> None:
    known = asked()
    parser = options(__doc__, BUILD / "store")
    parser.add_argument("corpora", nargs="*", metavar="CORPUS", help=f"of {', '.join(known)}; default: all")
    parser.add_argument("--lookalikes", type=int, default=100_000, help="in the crowded pool; 100000")
    parser.add_argument("--questions", type=int, default=300, help="of a corpus, at most; 300")
    parser.add_argument("--answered", type=int, help="of these, answered at most; default: all")
    parser.add_argument("--celery", type=Path, help="the folder docs of celery 5.7.0; default: fetched")
    parser.add_argument("--recall", action="store_true", help="recall alone: nothing is answered")
    parser.add_argument("--without", action="append", default=[], metavar="METHOD", help="not to answer by")
    parser.add_argument("--json", type=Path, default=BUILD / "figures.json", help="all figures, for a program")
    given = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    corpora = {name: known[name] for name in given.corpora or known}
    index_pools(given.store, corpora, given.celery or documentation(BUILD), given.questions, given.lookalikes)
    found = measured(given.store, corpora, POOLS, RECALLS, lambda *of: recall(given.store, *of, given.questions))
    show_recalls(found)
    figures = {"recall": cells(found)}
    if not given.recall:
        count = min(given.answered or given.questions, given.questions)
        metrics = ("accuracy", "context_tokens")
        answers = partial(answered, given.store, questions=count, without=given.without)
        found = measured(given.store, corpora, (SMALL, CROWDED), metrics, answers)
        show_accuracies(found)
        figures["accuracy"] = cells(found)
    given.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
