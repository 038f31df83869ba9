"""`make bench-when`: where sentences pay and where not, over all corpora at hand; the tables of docs/results/when.md.

Runs the experiment `paretorag/when` on an index of each corpus, titled and with the default context mode: SQuAD (the
articles that the reader was not trained on), HotpotQA's sample and NQ's gold passages (each among 2WikiMultihopQA's
passages), QMSum and the test half of the Python manual. Meetings are asked for summaries, which the bundled reader does
not write: there the share of the supporting facts that the prompt shows stands for accuracy, and they are in no group.

A regression says which conditions predict the difference to the baseline at equal tokens: its slope for one standard
deviation of a condition, alone and beside all others, over all corpora (across) and with a level for each of them
(within), with 95 % intervals (bootstrap over the questions of every corpus). Questions without a value of every
condition are left out: those whose gold passage is not found, or whose answer stands in no sentence of it.

    python -m benchmarks.when [--store DIR] [--questions N] [CORPUS ...]
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

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
SPANS: dict[str, Any] = {
    "spans": {
        "retrieve": {"retriever": "spans", "top_k": 200, "alpha": 0.8},
        "refine": {"refiner": "spans", "max_tokens": 300, "group": "passage"},
    }
}
RESAMPLES = 2000
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
    experiment, settings = find(NAME)
    settings = {**settings, "methods": {**settings["methods"], **SPANS}}
    outcome = evaluated(experiment, settings, store, index=corpus_index, questions=asked, primary=corpus.primary)
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
    shown = [f"{found.questions:,}", *(f"{value:.1f}" for value in like[:3] if value is not None)]
    shown += [*map(figure, like[3:5]), f"{like[5] or 0:.1f}", figure(like[6])]
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


class Sample(NamedTuple):
    """The questions of a corpus: `differences`, float64 (n,), of a method to the baseline; `conditions`, float64
    (n, conditions), of the baseline, as `COLUMNS` has them."""

    differences: np.ndarray
    conditions: np.ndarray


SLOPES = ("across, alone", "across, beside the others", "within, alone", "within, beside the others")


def sample_of(results: Results, method: str) -> Sample:
    """The questions with a difference and every condition."""
    own, baseline = results.scores[method], results.scores[BASELINE]
    metric = results.primary or ""
    differences = own.of(metric, own.ids) - baseline.of(metric, own.ids)
    conditions = np.stack([baseline.of(column.name, own.ids) for column in COLUMNS], axis=1)
    known = ~np.isnan(differences) & ~np.isnan(conditions).any(axis=1)
    return Sample(differences[known], conditions[known])


def centred(samples: Sequence[Sample], within: bool) -> Sample:
    """The samples together, less the means of each (`within`) or of all."""
    own = [
        Sample(each.differences - each.differences.mean(), each.conditions - each.conditions.mean(axis=0))
        for each in (samples if within else [_together(samples)])
    ]
    return _together(own)


def _together(samples: Sequence[Sample]) -> Sample:
    differences, conditions = zip(*samples, strict=True)
    return Sample(np.concatenate(differences), np.concatenate(conditions))


def slopes(samples: Sequence[Sample], scales: Mapping[bool, np.ndarray]) -> np.ndarray:
    """Return the slopes, float64 (conditions, 4), as `SLOPES` names them; `scales`: what a condition is divided by, of
    within and across; 0, where all questions are alike, gives NaN."""
    found = []
    for within in (False, True):
        centre = centred(samples, within)
        varies = scales[within] > 0
        scaled = centre.conditions[:, varies] / scales[within][varies]
        alone, beside = np.full((2, len(varies)), np.nan)
        squares = np.maximum((scaled**2).sum(axis=0), 1e-12)  # a resample may have questions that are all alike
        alone[varies] = scaled.T @ centre.differences / squares
        beside[varies] = np.linalg.lstsq(scaled, centre.differences, rcond=None)[0]
        found += [alone, beside]
    return np.stack(found, axis=1)


def regressed(samples: Sequence[Sample], resamples: int = RESAMPLES, seed: int = 100) -> np.ndarray:
    """Return slopes with the ends of their 95 % intervals, float64 (3, conditions, 4)."""
    scales = {within: centred(samples, within).conditions.std(axis=0) for within in (False, True)}
    chance = np.random.default_rng(seed)
    drawn = []
    for _ in range(resamples):
        places = [chance.integers(0, len(each.differences), len(each.differences)) for each in samples]
        resampled = [Sample(*(part[own] for part in each)) for each, own in zip(samples, places, strict=True)]
        drawn.append(slopes(resampled, scales))
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
    return np.stack([slopes(samples, scales), low, high])


def rows_of(samples: Sequence[Sample]) -> Iterator[Sequence[str]]:
    if not samples:
        return
    figures = regressed(samples)
    for place, column in enumerate(COLUMNS):
        yield column.heading, *map(_slope, figures[:, place].T)


def _slope(figures: np.ndarray) -> str:
    mean, low, high = map(float, figures)
    if np.isnan(mean):
        return "–"
    shown = f"{signed(mean)} ({signed(low)} to {signed(high)})"
    return f"**{shown}**" if low > 0 or high < 0 else shown


def main() -> None:
    known = corpora()
    parser = options(__doc__, Path("build/bench/when"))
    parser.add_argument("corpora", nargs="*", metavar="CORPUS", help=f"of {', '.join(known)}; default: all")
    parser.add_argument("--questions", type=int, default=500, help="of a corpus, at most")
    given = parser.parse_args()
    results = {name: run(given.store, name, known[name], given.questions) for name in given.corpora or known}
    methods = next(iter(results.values())).methods
    heads = ["corpus", "questions", "words", "sentences", "gold passages", "redundancy", "overlap", "rank", "margin"]
    heads += [f"{method.name} (tokens)" for method in methods] + [f"{OURS} minus {BASELINE}"]
    show(heads, (by_corpus(name, each) for name, each in results.items()))
    if answered := [each for each in results.values() if each.primary == "accuracy"]:
        print()
        show(["condition", "from, to", "questions", f"{OURS} minus {BASELINE}, accuracy"], by_condition(answered))
        for method in (OURS, *SPANS):
            samples = [sample for each in answered if len((sample := sample_of(each, method)).differences)]
            print(f"\n{method} minus {BASELINE}: {sum(len(each.differences) for each in samples):,} questions\n")
            show(["condition", *SLOPES], rows_of(samples))


if __name__ == "__main__":
    main()
