"""`make bench-gates`: how often the gates' decision (tasks/reports/statistics/gates.py) errs, exactly and in simulated
switches.

Exact: of a metric of right or wrong, the numbers of questions that became worse and better decide, so that the chance
of a verdict is a sum over both. The true loss is the margin itself: there a decision errs most often in either way.
Printed is the most over shares of changed questions up to 80 %.

Simulated: a recall of 0.8, a true change of it, and the verdicts of many switches. `changed` is the share of questions
that change without changing the mean: in the demo 5 % between two alphas of ParetoRAG, 15 % between naive RAG and
ParetoRAG. With two metrics, accuracy is gated beside recall and does not change; it changes on the same questions for
one half of them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product

import numpy as np
import scipy
from numpy.typing import NDArray

from benchmarks.common import options, show
from vitalfew.tasks.reports.statistics.gates import IN_DOUBT, NO_WORSE, WORSE, GatedMetric, Verdict, decide

MARGIN = 0.02
CHANGES = (0.0, -0.01, -0.03, -0.10)
QUESTIONS = (100, 300, 1000)
CHANGED = (0.05, 0.15)
RECALL = 0.8
SHARES = (0.0, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8)
Counts = tuple[int, int]
"""The questions that became worse, and better."""


def metric(questions: int, counts: Counts, margin: float) -> GatedMetric:
    """A metric of right or wrong with so many changes."""
    worse, better = counts
    before, after = np.ones(questions), np.ones(questions)
    before[worse : worse + better] = 0
    after[:worse] = 0
    return GatedMetric(before, after, margin)


@cache
def verdict(questions: int, margin: float, *counts: Counts) -> Verdict:
    return decide({str(place): metric(questions, each, margin) for place, each in enumerate(counts)}).verdict


def edges(questions: int, margin: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For every number of worse questions, how many better ones make it no worse, at least; and up to how many it is
    worse (exclusive). Both rise with the number."""
    passing, failing = np.zeros((2, questions + 1), np.int64)
    enough = few = 0
    for worse in range(questions + 1):
        while enough <= questions - worse and verdict(questions, margin, (worse, enough)) != NO_WORSE:
            enough += 1
        while few <= questions - worse and verdict(questions, margin, (worse, few)) == WORSE:
            few += 1
        passing[worse], failing[worse] = enough, few
    return passing, failing


def error_rates(questions: int, margin: float) -> tuple[float, float]:
    """The largest chances that a loss as large as the margin is called no worse, and worse."""
    passing, failing = edges(questions, margin)
    worse = np.arange(questions + 1)
    rates = []
    for share in SHARES:
        lost, gained = margin + share / 2, share / 2
        if lost + gained <= 0.8:
            chances = scipy.stats.binom.pmf(worse, questions, lost)
            better = scipy.stats.binom(questions - worse, gained / (1 - lost))
            rates.append((float(chances @ better.sf(passing - 1)), float(chances @ better.cdf(failing - 1))))
    return max(passed for passed, _ in rates), max(failed for _, failed in rates)


def switch(generator: np.random.Generator, questions: int, change: float, changed: float, metrics: int) -> list[Counts]:
    """The counts of one switch, by metric."""
    own = generator.random(questions)
    lost = own < (changed / 2 - change) / RECALL  # of those that were right
    right = generator.random(questions) < RECALL
    gained = own < changed / 2 / (1 - RECALL)
    counts = [(int((right & lost).sum()), int((~right & gained).sum()))]
    if metrics > 1:
        again = np.where(generator.random(questions) < 0.5, own, generator.random(questions))
        counts.append((int((again < changed / 2).sum()), int((again > 1 - changed / 2).sum())))
    return counts


def simulated(switches: int) -> Iterator[Sequence[object]]:
    generator = np.random.default_rng(0)
    for metrics, changed, questions, change in product((1, 2), CHANGED, QUESTIONS, CHANGES):
        drawn = (switch(generator, questions, change, changed, metrics) for _ in range(switches))
        seen = Counter(verdict(questions, MARGIN, *counts) for counts in drawn)
        shares = (f"{100 * seen[each] / switches:.1f}" for each in (NO_WORSE, WORSE, IN_DOUBT))
        yield metrics, f"{changed:.0%}", f"{questions:,}", f"{change:+.2f}", *shares


def exact(most: int) -> Iterator[Sequence[object]]:
    for questions, margin in product((20, 50, 100, 300, 1000), (0.01, 0.02, 0.05)):
        if questions <= most:
            passed, failed = error_rates(questions, margin)
            yield f"{questions:,}", margin, f"{100 * passed:.2f}", f"{100 * failed:.2f}"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--switches", type=int, default=500, help="simulated switches of a kind; 500")
    parser.add_argument("--most", type=int, default=1000, help="questions of the exact table, at most; 1000")
    given = parser.parse_args()
    print("Exact: % of candidates with a loss of exactly the margin that are called …")
    show(("questions", "margin", NO_WORSE, WORSE), exact(given.most))
    print(f"\nSimulated: % of {given.switches:,} switches, margin {MARGIN}")
    show(("metrics", "changed", "questions", "true change", NO_WORSE, WORSE, IN_DOUBT), simulated(given.switches))


if __name__ == "__main__":
    main()
