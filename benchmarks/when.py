"""`make bench-when`: where sentences pay and where not, over all corpora at hand; the tables of docs/results/when.md.

Runs the experiment `paretorag/when` on an index of each corpus, titled and with the default context mode: SQuAD (the
articles that the reader was not trained on), HotpotQA's sample and NQ's gold passages (each among 2WikiMultihopQA's
passages), QMSum and the test half of the Python manual. Meetings are asked for summaries, which the bundled reader does
not write: there the share of the supporting facts that the prompt shows stands for accuracy, and they are in no group.

    python -m benchmarks.when [--store DIR] [--questions N] [CORPUS ...]
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import numpy as np

from benchmarks.common import DATA, NQ, REAL, evaluated, held_out, index, options, show, sql_list
from vitalfew.configs.evaluation import Evaluate
from vitalfew.flows.pipelines.experiments import find
from vitalfew.tasks.metrics.conditions import COLUMNS
from vitalfew.tasks.reports.contents import Among, MethodResult
from vitalfew.tasks.reports.differences import among
from vitalfew.tasks.reports.methods import Results, method_results
from vitalfew.tasks.reports.runs import QuestionScores
from vitalfew.tasks.reports.shown.columns import figure, signed

NAME, OURS, BASELINE = "paretorag/when", "ParetoRAG", "naive RAG, equal tokens"
FACTS = "sp_recall"
WIKI = f"titletext:{REAL['titletext']}"


@dataclass(frozen=True)
class Corpus:
    """A corpus of its `datasets`; `where` and `half` choose questions, `primary` is the metric of right and wrong.
    `questions`: the data set of its questions, where that is none of them."""

    datasets: tuple[str, ...]
    where: str = "len(answers) > 0"
    half: str | None = None
    primary: str = "accuracy"
    questions: str | None = None


def corpora() -> dict[str, Corpus]:
    return {
        "SQuAD": Corpus((f"squad:{REAL['squad']}",), f"len(list_intersect(titles, {sql_list(held_out())})) > 0"),
        "HotpotQA": Corpus((f"hotpotqa:{REAL['hotpotqa']}", WIKI)),
        "NQ": Corpus((f"ctxs:{NQ}", WIKI)),
        "Python manual": Corpus(("python_manual:",), half="test"),
        "QMSum": Corpus((f"qmsum:{DATA / 'qmsum' / 'val.jsonl'}",), "len(supporting_facts) > 0", primary=FACTS),
    }


def run(store: Path, name: str, corpus: Corpus, questions: int) -> Results:
    corpus_index = name.lower().replace(" ", "-")
    index(datasets=corpus.datasets, name=corpus_index, store=store)
    asked = {"where": corpus.where, "half": corpus.half, "sample": questions}
    outcome = evaluated(*find(NAME), store, index=corpus_index, questions=asked, primary=corpus.primary)
    return method_results(store, outcome.run, Evaluate.model_validate(outcome.run.config))


def by_corpus(name: str, results: Results) -> list[str]:
    """Return a row: questions, their conditions, figures and tokens by method, and the difference at equal tokens."""
    metric = results.primary or ""
    methods = {method.name: method for method in results.methods}
    like = [_mean(methods[BASELINE], column.name) for column in COLUMNS]
    cells = [
        f"{figure(_mean(method, metric))} ({_mean(method, 'prompt_tokens') or 0:,.0f})" for method in results.methods
    ]
    found = methods[OURS].differences[metric]
    difference = f"{signed(found.mean_difference)} ({signed(found.low)} to {signed(found.high)})"
    shown = [f"{found.questions:,}", *(f"{value:.1f}" for value in like[:3] if value is not None), figure(like[3])]
    return [f"{name}, {metric}", *shown, *cells, difference]


def _mean(method: MethodResult, metric: str) -> float | None:
    return method.summaries[metric].value if metric in method.summaries else None


def pooled(of_corpora: Sequence[Results]) -> tuple[Among, ...]:
    """Compare the questions of all corpora together, in thirds of every condition."""
    first = of_corpora[0]
    scores = {method.name: _joined([each.scores[method.name] for each in of_corpora]) for method in first.methods}
    ours = [method for method in first.methods if method.name in (OURS, BASELINE)]
    place = next(number for number, method in enumerate(ours) if method.name == BASELINE)
    ours = [replace(method, against=place if method.name == OURS else None) for method in ours]
    return among(ours, scores, first.primary)


def _joined(scores: Sequence[QuestionScores]) -> QuestionScores:
    names = set.intersection(*(set(each.values) for each in scores))
    values = {name: np.concatenate([each.values[name] for each in scores]) for name in names}
    return QuestionScores(np.arange(sum(len(each.ids) for each in scores)), values)


def by_condition(of_corpora: Sequence[Results]) -> Iterator[Sequence[str]]:
    headings = {column.name: column.heading for column in COLUMNS}
    for each in pooled(of_corpora):
        found = each.difference
        ends = f"{figure(each.low)} to {figure(each.high)}"
        difference = f"{signed(found.mean_difference)} ({signed(found.low)} to {signed(found.high)})"
        yield headings[each.condition], ends, f"{found.questions:,}", difference


def main() -> None:
    known = corpora()
    parser = options(__doc__, Path("build/bench/when"))
    parser.add_argument("corpora", nargs="*", metavar="CORPUS", help=f"of {', '.join(known)}; default: all")
    parser.add_argument("--questions", type=int, default=500, help="of a corpus, at most")
    given = parser.parse_args()
    results = {name: run(given.store, name, known[name], given.questions) for name in given.corpora or known}
    methods = next(iter(results.values())).methods
    heads = ["corpus", "questions", "words", "sentences", "gold passages", "redundancy"]
    heads += [f"{method.name} (tokens)" for method in methods] + [f"{OURS} minus {BASELINE}"]
    show(heads, (by_corpus(name, each) for name, each in results.items()))
    if answered := [each for each in results.values() if each.primary == "accuracy"]:
        print()
        show(["condition", "from, to", "questions", f"{OURS} minus {BASELINE}, accuracy"], by_condition(answered))


if __name__ == "__main__":
    main()
