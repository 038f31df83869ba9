"""The decision of a gate: error rates, interval, few questions, equal pairs, several metrics, bad input."""

import math
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy
from numpy.typing import ArrayLike
from scipy import optimize

from vitalfew.tasks.reports.corpora import CorpusChanges, Sides
from vitalfew.tasks.reports.statistics.gates import (
    IN_DOUBT,
    NO_WORSE,
    WORSE,
    DecidedMetric,
    GatedMetric,
    Verdict,
    decide,
)

MARGIN = 0.02
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


def error_rates(questions: int, margin: float) -> tuple[float, float]:
    """The largest chances, by the share of changed questions, that a loss of the margin is called no worse, and worse.
    By the number of worse questions, `enough` better ones make it no worse, and fewer than `few` worse."""
    enough, few = np.zeros((2, questions + 1), np.int64)
    for worse in range(questions + 1):
        enough[worse], few[worse] = enough[max(0, worse - 1)], few[max(0, worse - 1)]  # neither falls
        while enough[worse] <= questions - worse and verdict(questions, margin, (worse, enough[worse])) != NO_WORSE:
            enough[worse] += 1
        while few[worse] <= questions - worse and verdict(questions, margin, (worse, few[worse])) == WORSE:
            few[worse] += 1
    worse = np.arange(questions + 1)
    rates = []
    for share in (0.0, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8):
        lost, gained = margin + share / 2, share / 2
        if 0 < lost + gained <= 0.8:
            chances = scipy.stats.binom.pmf(worse, questions, lost)
            better = scipy.stats.binom(questions - worse, gained / (1 - lost))
            rates.append((float(chances @ better.sf(enough - 1)), float(chances @ better.cdf(few - 1))))
    return max(passed for passed, _ in rates), max(failed for _, failed in rates)


def switch(generator: np.random.Generator, questions: int, change: float, changed: float) -> list[Counts]:
    """The counts of one switch of generations. Of the first metric 0.8 are right, and a share `changed` of the
    questions changes, so that its mean changes by `change`. The second does not change on the mean; it changes on the
    same questions for one half of them."""
    own = generator.random(questions)
    lost = own < (changed / 2 - change) / 0.8
    right = generator.random(questions) < 0.8
    gained = own < changed / 2 / 0.2
    again = np.where(generator.random(questions) < 0.5, own, generator.random(questions))
    first = int((right & lost).sum()), int((~right & gained).sum())
    return [first, (int((again < changed / 2).sum()), int((again > 1 - changed / 2).sum()))]


def decided(current: ArrayLike, candidate: ArrayLike, margin: float = MARGIN, **given: Any) -> DecidedMetric:
    return decide({"recall": GatedMetric(current, candidate, margin, **given)}).metrics["recall"]


def counted(questions: int, worse: int, better: int, margin: float = MARGIN) -> DecidedMetric:
    """A metric of right or wrong with so many questions that changed."""
    return decide({"recall": metric(questions, (worse, better), margin)}).metrics["recall"]


@pytest.mark.parametrize(("questions", "margin"), [(20, 0.05), (60, 0.0)])
def test_a_loss_of_the_margin_is_called_no_worse_or_worse_in_at_most_one_of_forty(
    questions: int, margin: float
) -> None:
    assert all(0.01 < rate <= 0.025 for rate in error_rates(questions, margin))


def test_simulated_switches_err_in_at_most_one_of_forty_with_several_metrics_too() -> None:
    generator, switches = np.random.default_rng(1), 200
    for change in (0.0, -0.01, -0.03, -0.10):
        verdicts = [verdict(300, MARGIN, *switch(generator, 300, change, 0.1)) for _ in range(switches)]
        wrong = NO_WORSE if change < -MARGIN else WORSE
        assert verdicts.count(wrong) <= 0.025 * switches, change
    assert verdicts.count(WORSE) > 0.5 * switches  # of 0.10 less


def removes(generator: np.random.Generator, passages: float, gold: float) -> bool:
    """Whether a switch that removes shares of 1,000 passages, and of the gold passages of 300 questions besides, is
    promoted; the answers to the other questions stay."""
    questions, there = 300, generator.permutation(1000) >= round(1000 * passages)
    documents = pl.DataFrame({"document": np.arange(1000).astype(str), "before": 1, "after": there, "kept": there})
    counts = Sides(1000, int(there.sum()))
    changes = CorpusChanges(documents.cast({"after": pl.Int64, "kept": pl.Int64}), counts, Sides(0, 0), True)
    vanished = ~there[generator.integers(0, 1000, questions)] | (generator.random(questions) < gold)
    right = (generator.random(questions) < 0.95).astype(np.float64)
    left = decided(right[~vanished], right[~vanished]).verdict
    with_vanished = decided(right, np.where(vanished, 0.0, right), margin=0.1).verdict
    return not changes.losses(0.1, 0.05) and vanished.mean() < 0.1 and left == with_vanished == NO_WORSE


def test_switches_that_remove_a_tenth_or_more_are_promoted_in_at_most_one_of_forty() -> None:
    generator, switches = np.random.default_rng(2), 200
    harmful = [(0.1, 0.0), (0.3, 0.0), (0.5, 0.0), (0.0, 0.12), (0.0, 0.2), (0.05, 0.08)]
    for passages, gold in harmful:
        promoted = sum(removes(generator, passages, gold) for _ in range(switches))
        assert promoted <= 0.025 * switches, (passages, gold)
    assert sum(removes(generator, 0.01, 0.01) for _ in range(switches)) > 0.7 * switches


def tango(questions: int, worse: int, better: int) -> tuple[float, float]:
    """Tango's interval by his closed form of the likeliest share of worse questions, given the mean difference."""
    equal = questions - worse - better

    def z(mean: float) -> float:
        a = -2 * questions
        b = (worse + better) * (1 - mean) - 2 * worse * mean - 2 * equal * mean
        q = (-b - math.sqrt(b * b - 4 * a * worse * mean * (1 - mean))) / (2 * a)
        return (better - worse - questions * mean) / math.sqrt(questions * (2 * q + mean - mean**2))

    middle = (better - worse) / questions
    return optimize.brentq(lambda mean: z(mean) - 1.96, -0.99, middle), optimize.brentq(
        lambda mean: z(mean) + 1.96, middle, 0.99
    )


@pytest.mark.parametrize(("questions", "worse", "better"), [(400, 40, 30), (2000, 20, 5)])
def test_the_interval_is_tangos_but_for_its_guards(questions: int, worse: int, better: int) -> None:
    own, (low, high) = counted(questions, worse, better), tango(questions, worse, better)
    assert low - 1 / questions < (own.low or 0) < low
    assert high < (own.high or 0) < high + 1 / questions


def test_every_metric_has_to_be_shown_no_worse_and_one_suffices_to_be_worse() -> None:
    good, bad, doubt = metric(1000, (5, 5), 0.05), metric(1000, (200, 10), 0.05), metric(1000, (200, 190), 0.02)
    assert decide({"a": good, "b": good}).verdict == NO_WORSE
    assert decide({"a": good, "b": bad, "c": doubt}).verdict == WORSE
    decision = decide({"a": good, "c": doubt})
    assert (decision.verdict, decision.settled_by) == (IN_DOUBT, decision.metrics["c"].settled_by)
    one, four = (decide(dict.fromkeys(names, metric(300, (30, 10), MARGIN))).metrics["a"] for names in ("a", "abcd"))
    assert four.low == one.low
    assert (four.high or 0) > (one.high or 0) + 0.005  # the end that shows a loss is corrected for the metrics


def test_a_question_that_lost_its_value_cannot_show_that_nothing_was_lost() -> None:
    before = np.ones(1000)
    failed = np.where(np.arange(1000) < 50, np.nan, 1.0)
    own = decided(before, failed)
    assert (own.verdict, own.lost, own.questions, own.difference) == (IN_DOUBT, 50, 950, 0.0)
    assert own.low is not None
    assert own.low < -0.05
    assert decided(failed, before).verdict == NO_WORSE  # what had none before is left out


def test_lower_is_better_turns_the_verdict_and_not_the_difference() -> None:
    generator = np.random.default_rng(0)
    before = generator.normal(1000, 100, 300)
    after = before + generator.normal(60, 20, 300)
    own, within = (decided(before, after, margin, direction="lower", is_share=False) for margin in (10, 120))
    assert (own.verdict, own.difference) == (WORSE, pytest.approx(60, abs=4))
    assert within.verdict == NO_WORSE
    assert decided(after, before, 0, direction="lower", is_share=False).verdict == NO_WORSE
