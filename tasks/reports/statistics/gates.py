"""The decision of a gate: is a candidate no worse than what there is now, on the same questions, metric by metric?

For every gated metric a margin is set beforehand: the loss that is accepted. By the interval of the paired difference
(candidate minus current, turned so that more is better) a metric is

- `no worse`: the lower end is above −margin;
- `worse`: the upper end is below −margin;
- `in doubt` otherwise, with the number of questions that would settle it.

All of them together are worse if any is, no worse if all are, in doubt otherwise. Of candidates whose true loss in any
metric is beyond its margin, at most 2.5 % are called no worse; of those whose losses are all within, at most 2.5 % are
called worse. So the ends differ in their correction for several metrics. A candidate passes if *all* metrics show it,
which a harmful one does no more often than its harmful metric alone: the lower ends are of one-sided 97.5 %
(intersection-union test; Berger, Multiparameter Hypothesis Testing and Acceptance Sampling, Technometrics 24(4), 1982).
It fails if *any* does: the upper ends are of 1 − 2.5 %/m for m metrics, as in the first step of Holm's procedure. With
one metric it is an ordinary 95 % interval.

The interval is a score interval: it holds the mean differences that a test does not reject, and the test takes the
variance that the data have if that mean is true. For metrics of right or wrong this is Tango's (Equivalence Test and
Confidence Interval for the Difference in Proportions for the Paired-Sample Design, Statistics in Medicine 17, 1998). It
does not vanish where all pairs are equal, as a bootstrap's does: without a single change among 100 questions, 4.6 % may
change. For other values the variance is that of the empirical likelihood under that mean (Owen, Empirical Likelihood,
2001), which for right or wrong is the same; a difference may be as large as the metric's range even if none was seen.
Two guards keep the level where few questions change, because then the distribution is discrete and skewed: a
continuity correction (half the step between values), and the skewness (the first term of Cornish and Fisher's
expansion, as in Gart and Nam, Approximate Interval Estimation of the Difference in Binomial Parameters, Biometrics 46,
1990) where it widens the interval. The error rates, computed exactly (tests/tasks/reports/test_gates.py), are 1.7 to
2.4 % from 20 questions on, where Tango's interval alone reaches 5 %.

Deviation: for a metric of another unit than 0 to 1 nobody knows how far a difference can reach. Its values are taken to
lie between 0 and the largest one seen, which is conservative where all questions change a little, and has to be: with
the largest difference seen in its place, 24 % of rare and large losses pass that 100 questions show 5 times.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy import special

from vitalfew.tasks.reports.statistics.bootstrap import MIN_QUESTIONS
from vitalfew.tasks.reports.statistics.paired import ROUNDING, questions_needed, rounded_up

Verdict = Literal["no worse", "worse", "in doubt"]
NO_WORSE, WORSE, IN_DOUBT = get_args(Verdict)
ERROR = 0.025
"""How often a harmful candidate is called no worse, and how often a harmless one is called worse, at most."""
_FINE = 100
"""A mean nearer to −margin than such a part of its interval is on it: no number of questions would settle it."""
_EDGE = 1 - 1e-9


@dataclass(frozen=True)
class GatedMetric:
    """A metric on the same questions, before and after. `current`, `candidate`: float64 (n,), a question per place;
    NaN: no value. Average several seeds per question before.

    `margin`: the loss that is accepted, in the metric's unit, 0 or more; `direction`: which values are better;
    `is_share`: all values lie between 0 and 1.
    """

    current: ArrayLike
    candidate: ArrayLike
    margin: float
    direction: Literal["higher", "lower"] = "higher"
    is_share: bool = True


@dataclass(frozen=True, slots=True)
class DecidedMetric:
    """`questions`: that have a value on both sides, of which are the means `current` and `candidate` and their
    `difference` (candidate minus current, in the metric's unit; all None without a question).

    `low`, `high`: the ends of the difference's interval, None with fewer than MIN_QUESTIONS questions.
    `lost`: questions with a value before and none after. They count as the worst value for the end that shows that it
    is no worse, because whoever fails where it was weak must not pass by that; that end is None where no worst value is
    known. `gained`: with a value after and none before; they are left out.
    `settled_by`: how many questions would settle a doubt four times in five, if they are like these; None without
    a doubt, and where no number would.
    """

    verdict: Verdict
    margin: float
    direction: Literal["higher", "lower"]
    questions: int
    current: float | None
    candidate: float | None
    difference: float | None
    low: float | None
    high: float | None
    lost: int
    gained: int
    settled_by: int | None


@dataclass(frozen=True, slots=True)
class GateDecision:
    """The verdict over all metrics, and their decisions by name. `settled_by`: as of a metric, the most of those in
    doubt; None where one of these has no such number."""

    verdict: Verdict
    metrics: Mapping[str, DecidedMetric]
    settled_by: int | None


def least_margin(questions: int) -> float:
    """The smallest margin that a metric of right or wrong can pass on so many questions: none of them changes."""
    if questions < MIN_QUESTIONS:
        return 1.0
    unchanged = _Pairs(np.zeros(1), np.array([float(questions)]), reach=1.0, step=1.0)
    return -(unchanged.lower(ERROR) or -1.0)


def likely_margin(questions: int, changed: float = 0.02) -> float:
    """The margin that a candidate of the same quality passes four times in five, where a share `changed` of the
    questions becomes worse or better, as often one as the other."""
    quantiles = float(special.ndtri(1 - ERROR) + special.ndtri(0.8))
    return max(least_margin(questions), quantiles * math.sqrt(changed / max(1, questions)))


def questions_for(margin: float) -> int:
    """About how many questions have a `likely_margin` of at most this one, which is above 0."""
    questions = MIN_QUESTIONS
    while likely_margin(questions) > margin:
        questions = rounded_up(round(questions * 1.1) + 1)
    return questions


def decide(metrics: Mapping[str, GatedMetric]) -> GateDecision:
    """Decide by all metrics that are gated, one at least. Raises ValueError for a margin below 0 or without a value, an
    infinite value, or a share outside 0 to 1."""
    decided = {name: _decided(name, metric, len(metrics)) for name, metric in metrics.items()}
    verdicts = {each.verdict for each in decided.values()}
    verdict = next((each for each in (WORSE, IN_DOUBT) if each in verdicts), NO_WORSE)
    needed = [each.settled_by for each in decided.values() if each.verdict == IN_DOUBT]
    known = [each for each in needed if each is not None]
    settled_by = max(known) if verdict == IN_DOUBT and len(known) == len(needed) else None
    return GateDecision(verdict, decided, settled_by)


def _decided(name: str, metric: GatedMetric, metrics: int) -> DecidedMetric:
    before, after = _values(name, metric)
    sign = 1.0 if metric.direction == "higher" else -1.0
    both, lost = ~np.isnan(before) & ~np.isnan(after), ~np.isnan(before) & np.isnan(after)
    pairs = _Pairs.of(before[both], after[both], sign, metric.is_share)
    with_lost: _Pairs | None = pairs
    if lost.any():
        worst = np.full(int(lost.sum()), 0.0 if sign > 0 else 1.0)
        every = np.concatenate([before[both], before[lost]]), np.concatenate([after[both], worst])
        with_lost = _Pairs.of(*every, sign, True) if metric.is_share else None
    low = with_lost.lower(ERROR) if with_lost else None
    high = pairs.upper(ERROR / metrics)
    verdict: Verdict = IN_DOUBT
    if low is not None and low > -metric.margin:
        verdict = NO_WORSE
    elif high is not None and high < -metric.margin:
        verdict = WORSE
    shown = (low, high) if sign > 0 else (_turned(high), _turned(low))
    known = pairs.questions > 0
    return DecidedMetric(
        verdict=verdict,
        margin=metric.margin,
        direction=metric.direction,
        questions=pairs.questions,
        current=float(before[both].mean()) if known else None,
        candidate=float(after[both].mean()) if known else None,
        difference=sign * pairs.mean + 0.0 if known else None,
        low=shown[0],
        high=shown[1],
        lost=int(lost.sum()),
        gained=int((np.isnan(before) & ~np.isnan(after)).sum()),
        settled_by=pairs.settled_by(metric.margin, metrics) if verdict == IN_DOUBT else None,
    )


def _values(name: str, metric: GatedMetric) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    before, after = (np.asarray(side, dtype=np.float64) for side in (metric.current, metric.candidate))
    if not 0 <= metric.margin < math.inf:
        raise ValueError(f"{name}: a margin is the loss that is accepted, 0 or more, got {metric.margin:g}")
    known = np.concatenate([before, after])
    known = known[~np.isnan(known)]
    if np.isinf(known).any():
        raise ValueError(f"{name}: an infinite value has no mean: use NaN for a question without a value")
    if metric.is_share and known.size and not -ROUNDING <= known.min() <= known.max() <= 1 + ROUNDING:
        raise ValueError(f"{name}: values lie outside 0 to 1, from {known.min():g} to {known.max():g}")
    return before, after


def _turned(end: float | None) -> float | None:
    return None if end is None else -end


def _gap(values: NDArray[np.float64]) -> float:
    """The least distance between two different values; infinite where there is one value."""
    return float(np.diff(np.unique(np.round(values, 9))).min(initial=math.inf))


class _Test(NamedTuple):
    """A test of a mean difference. `z`: the distance of the observed mean in standard errors; `skewness`: what the
    first term of the expansion adds to a quantile q, times q² − 1; `sd`: of the differences, if that mean is true."""

    z: float
    skewness: float
    sd: float


@dataclass(frozen=True)
class _Pairs:
    """Paired differences, more is better: their `values`, ascending, and the `counts` of questions. `reach`: the
    largest difference that there can be; `step`: the least between two values of the metric."""

    values: NDArray[np.float64]
    counts: NDArray[np.float64]
    reach: float
    step: float

    @classmethod
    def of(cls, before: NDArray[np.float64], after: NDArray[np.float64], sign: float, is_share: bool) -> "_Pairs":
        equal = np.isclose(after, before, rtol=ROUNDING, atol=0.0)
        differences = np.where(equal, 0.0, sign * (after - before))
        largest = max(float(np.abs(each).max(initial=0.0)) for each in (differences, before, after))
        reach = 1.0 if is_share else largest
        values, counts = np.unique(np.round(differences, 12), return_counts=True)
        # Where every question changes between right and wrong, differences lie two apart.
        steps = (min(_gap(np.concatenate([before, after])), reach), _gap(values) if len(values) > 1 else 0.0)
        return cls(np.clip(values, -reach, reach), counts.astype(np.float64), reach, max(steps))

    @property
    def questions(self) -> int:
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        return float(self.values @ self.counts) / self.questions

    def lower(self, error: float) -> float | None:
        """The end above which the true mean lies, but for a probability of `error`; None with too few questions, and
        where nothing says how large a difference can be."""
        if self.questions < MIN_QUESTIONS or not self.reach:
            return None
        quantile = float(special.ndtri(1 - error))

        def beyond(mean: float) -> float:
            test = self.tested(mean)
            return test.z - quantile - max(0.0, test.skewness) * (quantile**2 - 1)

        least, most = -self.reach * _EDGE, self.mean
        if least >= most or beyond(least) <= 0:
            return -self.reach
        return float(scipy.optimize.brentq(beyond, least, most, xtol=1e-9 * self.reach))

    def upper(self, error: float) -> float | None:
        return _turned(self._turned().lower(error))

    def _turned(self) -> "_Pairs":
        return _Pairs(-self.values[::-1], self.counts[::-1], self.reach, self.step)

    def tested(self, mean: float) -> _Test:
        """Test a mean that is below the observed one, or the observed one itself.

        The likeliest distribution with that mean has the weights 1 / (n (1 + λ u)) on the observed differences, which
        lie u from it; where these cannot have that mean, the rest of the weight is at the far end of the range.
        """
        away, shares = self.values - mean, self.counts / self.questions
        far = -(self.reach + mean)
        end = -1 / far * (1.0 if away[0] > far else _EDGE)

        def pull(factor: float) -> float:
            return float(shares @ (away / (1 + factor * away)))

        factor = end
        if pull(end) < 0:
            factor = float(scipy.optimize.brentq(pull, 0.0, end)) if pull(0.0) > 0 else 0.0
        weights = shares / (1 + factor * away)
        rest = max(0.0, 1 - float(weights.sum()))
        squares = float(weights @ away**2) + rest * far**2
        cubes = float(weights @ away**3) + rest * far**3
        distance = max(0.0, self.mean - mean - self.step / (2 * self.questions))
        z = distance / math.sqrt(squares / self.questions) if squares else 0.0
        skewness = cubes / squares**1.5 / (6 * math.sqrt(self.questions)) if squares else 0.0
        return _Test(z, skewness, math.sqrt(squares))

    def settled_by(self, margin: float, metrics: int) -> int | None:
        """Questions that settle a doubt; None without a question, or where the mean is as good as on −margin."""
        if not self.questions or not self.reach:
            return None
        if margin >= self.reach:  # any loss is accepted
            return MIN_QUESTIONS
        gap = self.mean + margin
        side, error = (self, ERROR) if gap > 0 else (self._turned(), ERROR / metrics)
        sd = side.tested(-margin if gap > 0 else margin).sd
        width = 2 * float(special.ndtri(1 - error)) * sd / math.sqrt(self.questions)
        needed = questions_needed(sd, gap, confidence=1 - 2 * error) if abs(gap) * _FINE > width else None
        return rounded_up(max(needed, self.questions + 1, MIN_QUESTIONS)) if needed else None
