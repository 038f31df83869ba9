"""Differences of methods to a baseline on the same questions: interval, test, correction, effect size and power.

- Interval: paired bootstrap over questions (Koehn, Statistical Significance Tests for Machine Translation Evaluation,
  EMNLP 2004), on the differences; see bootstrap.py.
- p: paired sign-flip test, two-sided (Fisher's randomisation test; Noreen, Computer-Intensive Methods for Testing
  Hypotheses, 1989). If method and baseline were interchangeable, any difference could as well have the other sign: p is
  the share of all signs whose sum lies as far from 0 as the observed one. It keeps its level with any number of
  questions and for right-or-wrong metrics, where the test from a shifted bootstrap rejects too often when questions are
  few (7 % at the 5 % level with 10 questions, where this one, having few values to take, rejects 1 %, and 3 % with 40).
  Where all differences have one size, as of right-or-wrong metrics, it is exact by the binomial distribution (McNemar's
  exact test); below ENUMERATED differences, by all signs. Else signs are drawn, the observed ones being one of the
  draws, so that p is never 0 (Phipson and Smyth, Permutation P-values Should Never Be Zero, 2010). Draws cannot show a
  p below 1 / (resamples + 1), which a correction for hundreds of differences would make large: below it, p is
  Hoeffding's bound on that share, 2 exp(−(Σd)² / 2Σd²) (Probability Inequalities for Sums of Bounded Random Variables,
  1963, theorem 2). The exact p is never above that. Of many questions with more than NORMAL differences, p is that of
  the normal distribution, which the sum over draws of signs then has.
- Correction: Holm (A Simple Sequentially Rejective Multiple Test Procedure, 1979).

Interval and p come from different distributions: near the edge one may exclude 0 where the other does not.

Power: how many questions show a difference of a given size (Cohen, Statistical Power Analysis, 1988, chapter 2). For a
two-sided paired test of a mean difference, by the normal approximation: n = ((z_confidence + z_power) · sd / d)².
With fewer than about 30 questions Student's t asks for two or three more. The standard deviation is that of the
paired differences, as measured in a run (`Difference.sd`), not that of one method's values.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from vitalfew.tasks.reports.statistics.bootstrap import (
    CONFIDENCE,
    MANY,
    MIN_QUESTIONS,
    RESAMPLES,
    SEED,
    Interval,
    blocks,
    drawn_once,
    matrix,
    resampled_interval,
)

POWER = 0.8
ENUMERATED = 20
"""Differences from which on signs are drawn: of fewer, all 2^19 at most are counted."""
NORMAL = 2_000
"""From so many differing questions on, p of the sum over draws of signs lies as near that of the normal distribution as
10,000 draws come to it."""
ROUNDING = 1e-12
"""Two numbers that differ by less than this share of themselves are equal: the same figures, added in another order."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A method minus the baseline, over the `questions` that both have a value for.

    `mean_difference`: None without a question. `low`, `high`, `p`: None below MIN_QUESTIONS, and p for a cost;
    `p_holm`: None until `corrected`. `sd`: of the differences, None below two questions (for power.py). `effect`:
    Cohen's d_z, the mean in units of `sd`: 0 where nothing differs, None where every question differs by the same.
    `better`, `worse`, `equal`: questions with a higher, a lower and the same value as the baseline.
    """

    mean_difference: float | None
    low: float | None
    high: float | None
    p: float | None
    sd: float | None
    effect: float | None
    questions: int
    better: int
    worse: int
    equal: int
    p_holm: float | None = None


def paired_bootstrap(baseline: ArrayLike, methods: ArrayLike, *, resamples: int = RESAMPLES) -> list[Difference]:
    """The differences of methods to the baseline, all from the same resamples of questions.

    `baseline`: float64 (n,), or (m, n) with a row per method (another metric); `methods`: float64 (m, n), a question
    per column; NaN: no value. A difference leaves out questions for which the method or the baseline lacks a value.
    Average several seeds per question before: questions are what is drawn. The result is the same only for the same
    order of questions: sort them by id first. Raises ValueError for shapes that do not fit, and an infinite value.
    """
    reference, table = matrix(np.atleast_2d(baseline)), matrix(methods)
    if reference.shape not in ((1, table.shape[1]), table.shape):
        raise ValueError(f"the baseline's shape {np.shape(baseline)} does not fit that of the methods, {table.shape}")
    # Questions without a real difference count as equal, whatever the last bit of their averages says.
    differences = np.where(np.isclose(table, reference, rtol=ROUNDING, atol=0.0), 0.0, table - reference)
    intervals = resampled_interval(differences, resamples)
    p_values = _p_values(np.nan_to_num(differences), resamples)
    return [_difference(*row) for row in zip(differences, intervals, p_values.tolist(), strict=True)]


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p: the i-th smallest of m times m − i + 1, never below a smaller one's, at most 1. None stays as
    it is and does not count as a test."""
    tested = [(p, place) for place, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(sorted(tested)):
        largest = max(largest, min(1.0, p * (len(tested) - rank)))
        adjusted[place] = largest
    return adjusted


def corrected(
    differences: Sequence[Mapping[str, Difference]], primary: str | None = None, costs: Collection[str] = ()
) -> list[dict[str, Difference]]:
    """The same differences, by metric for every method, with their `p_holm`: those in `primary` as one family, which is
    what the experiment asks; any other as one of all differences that there are. `costs`: metrics that are no
    hypotheses unless one is `primary`, so that they have intervals, but no p."""
    untested = {*costs} - {primary}
    differences = [
        {metric: replace(each, p=None) if metric in untested else each for metric, each in of_method.items()}
        for of_method in differences
    ]
    places = [(place, metric) for place, of_method in enumerate(differences) for metric in of_method]
    first = [(place, metric) for place, metric in places if metric == primary]
    adjusted: dict[tuple[int, str], float | None] = {}
    for family in (places, first):
        p_values = holm([differences[place][metric].p for place, metric in family])
        adjusted |= dict(zip(family, p_values, strict=True))
    return [
        {metric: replace(each, p_holm=adjusted[place, metric]) for metric, each in of_method.items()}
        for place, of_method in enumerate(differences)
    ]


def _difference(differences: NDArray[np.float64], interval: Interval, p: float) -> Difference:
    known = differences[~np.isnan(differences)]
    mean, sd, effect = interval.mean, None, None
    if len(known) > 1:
        spread = float(known.std(ddof=1))
        sd = spread if spread > ROUNDING * float(np.abs(known).max()) else 0.0
        effect = 0.0 if not mean else mean / sd if sd else None
    return Difference(
        mean,
        interval.low,
        interval.high,
        p if interval.questions >= MIN_QUESTIONS else None,
        sd,
        effect,
        interval.questions,
        better=int((known > 0).sum()),
        worse=int((known < 0).sum()),
        equal=int((known == 0).sum()),
    )


def _p_values(differences: NDArray[np.float64], resamples: int) -> NDArray[np.float64]:
    """(m,): the probability that draws of signs put the sum at least as far from 0."""
    p_values = np.array([_exact(row[row != 0]) for row in differences])
    there = differences != 0
    many = (there.sum(axis=1) > NORMAL) & (differences.shape[1] > MANY)
    by_normal, by_draws = np.isnan(p_values) & many, np.isnan(p_values) & ~many
    sums, squares = differences[by_normal].sum(axis=1), (differences[by_normal] ** 2).sum(axis=1)
    p_values[by_normal] = 2 * special.ndtr(-np.abs(sums) / np.sqrt(squares))
    columns = there[by_draws].any(axis=0) if by_normal.any() else slice(None)
    p_values[by_draws] = _drawn(differences[by_draws][:, columns], resamples)
    return p_values


def _exact(differences: NDArray[np.float64]) -> float:
    """The exact p of differences of which none is 0; NaN where they are too many that are unlike each other."""
    sizes, n = np.abs(differences), len(differences)
    if not n or np.ptp(sizes) <= ROUNDING * sizes.max():
        better = int((differences > 0).sum())
        return min(1.0, 2 * float(special.bdtr(min(better, n - better), n, 0.5)))
    if n >= ENUMERATED:
        return math.nan
    sums = differences[:1]  # the other sign of the first gives the same sums with the other sign
    for difference in differences[1:]:
        sums = np.concatenate([sums + difference, sums - difference])
    return float((np.abs(sums) >= abs(differences.sum()) - ROUNDING * sizes.sum()).mean())


def _drawn(differences: NDArray[np.float64], resamples: int) -> NDArray[np.float64]:
    """(m,): p by draws of signs, or Hoeffding's bound on it where such draws are too rare to have been seen. No value
    is a 0."""
    if not len(differences):
        return np.zeros(0)
    observed = np.abs(differences.sum(axis=1)) - ROUNDING * np.abs(differences).sum(axis=1)
    extreme = np.zeros(len(differences), dtype=np.int64)
    for signs in drawn_once(_signs, resamples, differences.shape[1]):
        extreme += (np.abs(signs @ differences.T) >= observed).sum(axis=0)
    drawn = (extreme + 1) / (resamples + 1)
    squares = (differences**2).sum(axis=1)
    far = np.divide(differences.sum(axis=1) ** 2, 2 * squares, out=np.zeros(len(differences)), where=squares > 0)
    bound = np.minimum(1.0, 2 * np.exp(-far))
    return np.where(bound < 1 / (resamples + 1), bound, drawn)


def _signs(resamples: int, questions: int) -> Iterator[NDArray[np.float64]]:
    """Draw −1 or 1 for all questions, (rows, questions), block by block."""
    generator = np.random.default_rng(SEED)
    for rows in blocks(resamples, questions):
        heads = generator.integers(0, 2, (rows, questions), dtype=np.int8)
        yield 1.0 - 2.0 * heads.astype(np.float64)


def questions_needed(
    sd_of_differences: float, difference: float, power: float = POWER, confidence: float = CONFIDENCE
) -> int | None:
    """Questions that show a true mean difference so large with this probability; None where the difference is 0."""
    if not difference:
        return None
    return max(1, math.ceil((_factor(power, confidence) * sd_of_differences / difference) ** 2))


def rounded_up(number: int) -> int:
    """To two digits, never down: an estimate of a number of questions is no more exact."""
    unit = 10 ** max(0, len(str(number)) - 2)
    return math.ceil(number / unit) * unit


def visible_difference(sd_of_differences: float, questions: int) -> float | None:
    """The smallest true mean difference that so many questions show four times in five; None without questions."""
    return _factor(POWER, CONFIDENCE) * sd_of_differences / math.sqrt(questions) if questions > 0 else None


def _factor(power: float, confidence: float) -> float:
    return float(special.ndtri((1 + confidence) / 2) + special.ndtri(power))
