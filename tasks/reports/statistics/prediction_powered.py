"""Prediction-powered inference: a judge's verdicts on all questions, corrected by people's labels on some of them.

A judge alone is biased by as much as it errs, and its interval shows nothing of that. Labels alone are right and few.
Both together (Angelopoulos, Duchi and Zrnic, PPI++: Efficient Prediction-Powered Inference, 2023) estimate, with N
questions of which n are labelled,

    λ · mean(judge over all N) + mean(human − λ · judge over the n labelled)

which is unbiased for any judge, and has for the best λ the variance λ² · var(judge) / N + var(human − λ · judge) / n.

**The labelled questions must be a random sample of all of them.** Labels of questions that were picked by what the
judge or the methods said, such as those on which it is least sure, bias labels alone and both alike.

Deviations:

- The paper has two samples, the labelled and the others. Here the labelled are among the N, so that their verdicts
  count in both means. The variance then has the covariance of the two as well, and the best λ is
  cov(human, judge) / var(judge) among the labelled, as in regression estimates with two phases of sampling (Cochran,
  Sampling Techniques, 1977, section 12.6). With that λ the covariance vanishes and the variance is the one above, which
  equals var(human) / n · (1 − ρ² (1 − n / N)) with the correlation ρ of human and judge: never more than that of the
  labels alone, and the same with all questions labelled.
- Few labels show few of a judge's errors: one that errs in 5 % errs on none of 30 in one sample of five, which would
  then count as perfect. All means and variances are therefore of the questions and of MADE_UP more, which are labelled
  and judged independently and at random, as Agresti and Coull (Approximate is Better than "Exact", The American
  Statistician 52(2), 1998) add 4 to a share. Fewer suffice because quantiles are Student's, with n − 1 degrees of
  freedom. The means that are reported are those of the questions alone.
- Ends beyond the range of the values are cut off. Where that leaves the interval of the labels the narrower one,
  because it lies nearer to the end of the range, λ is 0. It is 0 too where the judge says the same of all labelled.
- A question without a verdict counts with the mean of those that there are, so that no label is lost. That is unbiased
  too, because any fixed rule may fill a judge's gaps.

In simulations with judges that are right in 60, 80 and 95 % (errors on both sides or on one) and truths of 0.5 to 0.9,
95 % intervals of both hold the truth in 94 to 96.5 % with 100 to 300 labels, in 93 to 98 % with 50, and in 94 to 98 %
with 30. They are wider than they need be where labels hardly show an error: with 30 of them and a judge that is right
in 95 %, 98 to 99.7 % hold the truth. Without the made-up questions 71 to 97 % would. Differences: 94.5 to 99 %.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from vitalfew.tasks.reports.statistics.bootstrap import CONFIDENCE, MIN_QUESTIONS, Interval, matrix
from vitalfew.tasks.reports.statistics.paired import ROUNDING, rounded_up

MADE_UP = 2.5
"""Questions that are added: the least number, in steps of a half, with which no simulation is below 93 %."""
TIE = 0.5
"""The value of a question on which neither method is better; 1 where the first is, 0 where the second is."""
_SPREAD = 0.25
"""The variance of labels and verdicts on questions that are made up: as often right as wrong."""


@dataclass(frozen=True, slots=True)
class PoweredInterval:
    """A mean by the `judge` alone, by the `labels` alone and by `both`, which is of as many questions as there are.

    An interval of the judge alone says where its verdicts lie, not where the truth does.

    `weight`: λ, the part of the judge's verdicts that counts: 1 for a judge that says what people say, 0 for one that
    shows nothing about it. `halved_by`: about how many labels more would halve the interval of both; None without one,
    and where labels on all questions would not. `reason`: why labels and both have no interval; None where they do.
    """

    judge: Interval
    labels: Interval
    both: Interval
    weight: float
    halved_by: int | None
    reason: str | None


def powered_means(judge: ArrayLike, human: ArrayLike) -> list[PoweredInterval]:
    """The mean of every row by judge, by labels and by both.

    `judge`, `human`: float64 (m, N), a row per method, a question per column, 0 (wrong) to 1 (right); NaN: no verdict,
    no label. Raises ValueError for other shapes, shapes that differ, or values outside 0 to 1.
    """
    return [_powered(*row, 0.0) for row in zip(*_verdicts(judge, human), strict=True)]


def powered_difference(
    baseline_judge: ArrayLike, baseline_human: ArrayLike, judge: ArrayLike, human: ArrayLike
) -> PoweredInterval:
    """The mean difference of a method to the baseline on the same questions, by judge, by labels and by both.

    All float64 (N,), values as for `powered_means`. A question has a label, and a verdict, where both the method and
    the baseline have one. Raises as `powered_means`.
    """
    (before,), (before_human,) = _verdicts(np.atleast_2d(baseline_judge), np.atleast_2d(baseline_human))
    (after,), (after_human,) = _verdicts(np.atleast_2d(judge), np.atleast_2d(human))
    return _powered(after - before, after_human - before_human, -1.0)


class _Moments(NamedTuple):
    """The mean of values, and that of them and those made up (`centre`), with the variance of both. `away`: (n,), how
    far values lie from `centre`."""

    mean: float
    centre: float
    variance: float
    away: NDArray[np.float64]

    @classmethod
    def of(cls, values: NDArray[np.float64], middle: float) -> "_Moments":
        total, questions = float(values.sum()), len(values) + MADE_UP
        centre = (total + MADE_UP * middle) / questions
        away = values - centre
        squares = float((away**2).sum()) + MADE_UP * ((middle - centre) ** 2 + _SPREAD)
        return cls(total / len(values) if len(values) else middle, centre, squares / questions, away)


def _verdicts(judge: ArrayLike, human: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    verdicts, labels = matrix(judge), matrix(human)
    if verdicts.shape != labels.shape:
        raise ValueError(
            f"judge and labels need a value per question, got the shapes {verdicts.shape} and {labels.shape}: "
            "use NaN for a question without one"
        )
    for name, table in (("verdicts", verdicts), ("labels", labels)):
        known = table[~np.isnan(table)]
        if known.size and not -ROUNDING <= known.min() <= known.max() <= 1 + ROUNDING:
            raise ValueError(f"{name} must lie between 0 and 1, got {known.min():g} to {known.max():g}")
    return verdicts, labels


def _powered(judge: NDArray[np.float64], human: NDArray[np.float64], least: float) -> PoweredInterval:
    """Verdicts and labels, (N,) both; the values lie between `least` and 1."""
    middle = (least + 1.0) / 2
    judged, labelled = ~np.isnan(judge), ~np.isnan(human)
    n, questions = int(labelled.sum()), len(judge)
    enough = n >= MIN_QUESTIONS
    of_judge, of_labels = _Moments.of(judge[judged], middle), _Moments.of(human[labelled], middle)
    filled = np.where(judged, judge, of_judge.mean)
    everywhere, verdicts = _Moments.of(filled, middle), _Moments.of(filled[labelled], middle)
    made_up = MADE_UP * (middle - verdicts.centre) * (middle - of_labels.centre)
    covariance = (float(verdicts.away @ of_labels.away) + made_up) / (n + MADE_UP)
    spread = np.abs(filled[labelled] - verdicts.mean).max(initial=0.0)
    weight = covariance / verdicts.variance if spread > ROUNDING else 0.0
    explained = weight * covariance / of_labels.variance
    both = _Moments(
        mean=of_labels.mean - weight * (verdicts.mean - everywhere.mean),
        centre=of_labels.centre - weight * (verdicts.centre - everywhere.centre),
        variance=of_labels.variance * (1 - explained * (1 - (n + MADE_UP) / (questions + MADE_UP))),
        away=of_labels.away,
    )
    (low, high), (low_of_labels, high_of_labels) = (_ends(each, n, least) for each in (both, of_labels))
    if not weight or high - low > high_of_labels - low_of_labels:
        both, weight, explained = of_labels, 0.0, 0.0
    return PoweredInterval(
        judge=_interval(of_judge, int(judged.sum()), int(judged.sum()), least),
        labels=_interval(of_labels, n, n, least),
        both=_interval(both, n, questions, least),
        weight=weight,
        halved_by=_halved_by(n, questions, 1 - explained) if enough else None,
        reason=None if enough else f"too few labels for an interval: {n}, and it needs {MIN_QUESTIONS}",
    )


def _ends(moments: _Moments, n: int, least: float) -> tuple[float, float]:
    """The ends of an interval by n values; too few of them, whose ends nobody sees, count as two."""
    quantile = special.stdtrit(max(n, 2) - 1, (1 + CONFIDENCE) / 2)
    half = float(quantile * math.sqrt(moments.variance / (n + MADE_UP - 1)))
    return max(least, moments.centre - half), min(1.0, moments.centre + half)


def _interval(moments: _Moments, n: int, questions: int, least: float) -> Interval:
    """The interval of a mean over `questions`, by n values: without a mean where there is no value."""
    mean = min(1.0, max(least, moments.mean)) if n else None
    low, high = _ends(moments, n, least) if n >= MIN_QUESTIONS else (None, None)
    return Interval(mean, low, high, questions)


def _halved_by(labels: int, questions: int, unexplained: float) -> int | None:
    """Labels more, after which unexplained / n + (1 − unexplained) / N, which the variance follows, is a quarter."""
    n, most = labels + MADE_UP, questions + MADE_UP
    left = (unexplained / n - 3 * (1 - unexplained) / most) / 4
    needed = unexplained / left if left > 0 else math.inf
    return min(rounded_up(math.ceil(needed - n)), questions - labels) if needed <= most else None


def over_all(differing: Interval, alike: int) -> Interval:
    """The interval of the mean over all questions, 0 to 1, from that over the `differing` ones, and how many are
    `alike`: the answers of both methods are the same text.

    Such a question is a tie by definition, and the share of them is known without asking anybody. People see a random
    sample of the others. That is stratified sampling (Cochran, 1977, chapter 5) with a stratum that does not vary: with
    D of N questions in the other one, whose estimate has the mean m and the half width h, the mean over all is
    1/2 + D / N · (m − 1/2), and the half width is the root of (D / N · h)² + z² · D / N · (1 − D / N) · (m − 1/2)² / N.
    The second term is there because further questions would have another share of equal answers. In simulations of 100
    and 300 questions, of which 30 or 70 % differ, with 15 to 200 labels, 95 % intervals hold the truth in 93 to 99 %.
    """
    mean = differing.mean
    if mean is None:
        return differing
    questions = differing.questions + alike
    share = differing.questions / questions
    middle = TIE + share * (mean - TIE)
    if differing.low is None or differing.high is None:
        return Interval(middle, None, None, questions)
    between = special.ndtri((1 + CONFIDENCE) / 2) * abs(mean - TIE) * math.sqrt(share * (1 - share) / questions)
    # The ends of an interval need not lie equally far from its mean: it is cut off at 0 and 1.
    low, high = (math.hypot(share * (end - mean), between) for end in (differing.low, differing.high))
    return Interval(middle, max(0.0, middle - low), min(1.0, middle + high), questions)
