"""From log-odds to probabilities: logistic regression on one feature, a line for every judgement; and its error.

Platt (1999, "Probabilistic outputs for support vector machines", section 2) fits the line to the truth; without his
correction for few examples, as there are hundreds of either kind.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple, Self

import numpy as np

BINS = 10
"""Bins of equal width, from 0 to 1, in which probabilities are held against the truth."""


@dataclass(frozen=True, slots=True)
class LogisticLine:
    """The log-odds `slope` · x + `offset`."""

    slope: float = 1.0
    offset: float = 0.0

    def __call__(self, logit: float) -> float:
        """The probability, from 0 to 1."""
        return 0.5 * (1 + math.tanh((self.slope * logit + self.offset) / 2))

    @classmethod
    def fitted(cls, logits: Sequence[float], truth: Sequence[bool]) -> Self:
        """The line of the greatest likelihood, to four decimals; the identity if all have the same truth."""
        from sklearn.linear_model import LogisticRegression  # takes a second, which a report and a critique avoid

        if len(set(truth)) < 2:
            return cls()
        found = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(np.reshape(logits, (-1, 1)), truth)
        return cls(round(float(found.coef_[0, 0]), 4), round(float(found.intercept_[0]), 4))


@dataclass(frozen=True, slots=True)
class Calibration:
    """A line for every judgement."""

    isrel: LogisticLine = LogisticLine()
    issup: LogisticLine = LogisticLine()
    isuse: LogisticLine = LogisticLine()

    @classmethod
    def of(cls, settings: Mapping[str, Mapping[str, float]] | None) -> Self:
        """From what `settings` gave; None: the identity."""
        return cls(**{aspect: LogisticLine(**line) for aspect, line in (settings or {}).items()})

    def settings(self) -> dict[str, dict[str, float]]:
        """{"isrel": {"slope": 0.9, "offset": -1.2}, …}"""
        return asdict(self)


class Bin(NamedTuple):
    """The candidates whose probability is in one of the bins: `size`, their mean probability, and the share that is
    true."""

    size: int
    told: float
    true: float


def reliability(probabilities: np.ndarray, truth: np.ndarray) -> list[Bin]:
    """`BINS` bins; NaN for the means of an empty one. `probabilities`: floats (n,); `truth`: flags (n,)."""
    places = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    return [
        Bin(int(some.sum()), float(probabilities[some].mean()), float(truth[some].mean()))
        if (some := places == place).any()
        else Bin(0, math.nan, math.nan)
        for place in range(BINS)
    ]


def calibration_error(probabilities: np.ndarray, truth: np.ndarray) -> float:
    """The expected calibration error, from 0 to 1: the mean distance of a bin's probability from the share that is
    true, weighted by candidates (Guo et al., 2017, arXiv 1706.04599, section 2, equation 3); NaN without candidates."""
    bins = [each for each in reliability(probabilities, truth) if each.size]
    return sum(each.size * abs(each.told - each.true) for each in bins) / len(truth) if bins else math.nan
