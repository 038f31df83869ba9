"""The contract of a selector: the critiqued candidates of a batch of questions in, which of them are answers out.

Everything is an array of a line per question and a place per candidate, so that a selector is a few lines of NumPy and
ten thousand questions take a moment. What has no place in the choice is not `usable`: places that only fill a line up,
candidates with an error, and those whose critique failed or is NaN. A question without a usable candidate gets none.

F1 and F2 are the two objectives of PFE-Self-RAG (J. Mahani Math. Res. 15(2), 2026): the harmonic mean of ISUSE and
ISSUP, and ISREL.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Critiqued:
    """Arrays (questions, candidates). `isrel`, `issup`, `isuse`: from 0 to 1, any number where not `usable`;
    `logprob`: natural logarithm of the answer's probability per token, NaN where unknown; `same`: int64, equal for
    equal answers to a question."""

    isrel: Floats
    issup: Floats
    isuse: Floats
    logprob: Floats
    same: NDArray[np.int64]
    usable: Flags

    @property
    def f1(self) -> Floats:
        return harmonic_mean(self.isuse, self.issup)

    @property
    def f2(self) -> Floats:
        return self.isrel


@dataclass(frozen=True)
class Chosen:
    """Arrays (questions, candidates): which are answers, and the `score` that puts the better ones first."""

    answers: Flags
    score: Floats


class Selector(Protocol):
    """A class that has `Options`, a SelectConfig with what can be set of it besides, and is made of an instance of
    them."""

    version: ClassVar[str]

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`."""
        ...

    def select(self, candidates: Critiqued) -> Chosen:
        """At least one answer for every question that has a usable candidate."""
        ...


def harmonic_mean(one: Floats, other: Floats) -> Floats:
    """2ab / (a + b), and 0 where both are 0."""
    total = one + other
    return np.divide(2 * one * other, total, out=np.zeros_like(total), where=total > 0)


def geometric_mean(isrel: Floats, issup: Floats, isuse: Floats) -> Floats:
    """The cube root of the product."""
    return np.cbrt(isrel * issup * isuse)


def front(candidates: Critiqued) -> Flags:
    """Which usable candidates no other one dominates: is at least as good in F1 and F2, and better in one of them.

    Of equal points all are on the front, or none.
    """
    # An unusable one dominates nothing, wherever it is.
    f1 = np.where(candidates.usable, candidates.f1, -np.inf)
    f2 = np.where(candidates.usable, candidates.f2, -np.inf)
    as_good = (f1[:, None, :] >= f1[:, :, None]) & (f2[:, None, :] >= f2[:, :, None])  # (q, this one, by that one)
    better = (f1[:, None, :] > f1[:, :, None]) | (f2[:, None, :] > f2[:, :, None])
    return candidates.usable & ~(as_good & better).any(axis=2)


def nearness(candidates: Critiqued) -> Floats:
    """Minus the distance to the ideal point, F1 = F2 = 1."""
    return -np.hypot(1 - candidates.f1, 1 - candidates.f2)


def best(score: Floats, among: Flags) -> Chosen:
    """The candidate of the greatest score; of equal ones the first."""
    answers = np.zeros_like(among)
    if among.size:
        place = np.where(among, score, -np.inf).argmax(axis=1)
        lines = np.arange(len(among))
        answers[lines, place] = among[lines, place]
    return Chosen(answers, score)
