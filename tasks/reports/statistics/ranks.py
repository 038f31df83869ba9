"""Do methods differ over several datasets? Quade's test and Li's procedure, as in PFE-Self-RAG (tables 2 to 4).

Quade (Using Weighted Rankings in the Analysis of Complete Blocks with Additive Block Effects, JASA 74, 1979) ranks the
methods on every dataset and weights a dataset by the rank of its range (best minus worst): the datasets' figures must
therefore have one unit. Ties get average ranks. Formulas for the average rankings and z: García et al. (Advanced
Nonparametric Tests for Multiple Comparisons in the Design of Experiments, Information Sciences 180, 2010). The
procedure: Li (A Two-Step Rejection Procedure for Testing Multiple Hypotheses, J. Stat. Plan. Inference 138, 2008).

Deviation: for its table 2 the PFE-Self-RAG paper prints F = 12.40, and F is 10.68. KEEL's `Friedman.java`, by which we
take the paper's figure to have been made, gives 12.405 for two reasons, which touch neither rankings nor z. It centres
the ranks on (k + 1) / 2 in whole numbers, on 4 instead of 4.5 for 8 methods. And for the sum of squares it has the
closed formula of rankings without ties, where the table has some. Here both are computed, as in R's quade.test.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

_DIGITS = 12  # after these, relative to the largest of the table, two figures are the same, averaged in another order


@dataclass(frozen=True, slots=True)
class Quade:
    """Quade's test of k methods on n datasets. `f`: infinite where all datasets agree, so that nothing is left over.

    `rankings`: (k,), average ranks, weighted by dataset; 1 is best.
    """

    f: float
    degrees: tuple[int, int]
    p: float
    rankings: NDArray[np.float64]

    def z(self, control: int) -> NDArray[np.float64]:
        """(k,): how far the rankings lie behind the control's, in standard errors (normal under no difference)."""
        k = len(self.rankings)
        n = self.degrees[1] // self.degrees[0] + 1
        error = math.sqrt(k * (k + 1) * (2 * n + 1) * (k - 1) / (18 * n * (n + 1)))
        return (self.rankings - self.rankings[control]) / error


def quade(values: ArrayLike, higher_is_better: bool = True) -> Quade:
    """Quade's test on finite float64 (k, n), a method per row, a dataset per column; at least 2 of each."""
    table = np.asarray(values, dtype=np.float64)
    k, n = table.shape
    table = table / (np.abs(table).max() or 1)
    ranks = scipy.stats.rankdata(np.round(-table if higher_is_better else table, _DIGITS), axis=0)
    weights = scipy.stats.rankdata(np.round(np.ptp(table, axis=0), _DIGITS))
    weighted = weights * (ranks - (k + 1) / 2)
    # Multiples of 1/4, whose sums are exact: where the datasets agree, `left` is 0 and not nearly 0.
    between = float((weighted.sum(axis=1) ** 2).sum())
    left = n * float((weighted**2).sum()) - between
    degrees = (k - 1, (n - 1) * (k - 1))
    if left:
        f = (n - 1) * between / left
        p = float(scipy.stats.f.sf(f, *degrees))
    elif between:
        # All datasets rank alike: as likely as that many equal permutations (Conover, Practical Nonparametric
        # Statistics, 1999, section 5.8).
        f, p = math.inf, math.factorial(k) ** -(n - 1.0)
    else:  # no method differs from another on any dataset
        f, p = 0.0, 1.0
    return Quade(f, degrees, p, ranks @ weights / weights.sum())


def li(p_values: Sequence[float], alpha: float = 0.05) -> float:
    """Li's threshold for comparisons with a control: those are significant whose p does not exceed it.

    With the largest p at most `alpha` all are; else those up to (1 − p_last) / (1 − alpha) · alpha. It has little power
    where the largest p is near 1: one method that equals the control hides the others. Raises ValueError for an alpha
    that is not between 0 and 1.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}")
    last = max(p_values)
    return alpha if last <= alpha else (1 - last) / (1 - alpha) * alpha
