"""How much two objectives leave to choose: the size of Pareto fronts, and how far F1 and F2 say the same.

If a critic's judgements repeat each other, F1 and F2 rank a question's candidates alike, and every front has one.
"""

import numpy as np
from scipy.stats import rankdata

from vitalfew.tasks.selectors.base import Critiqued, Floats, front


def front_sizes(candidates: Critiqued) -> Floats:
    """Candidates on each question's front, (questions,); NaN where none is usable."""
    return np.where(candidates.usable.any(axis=1), front(candidates).sum(axis=1), np.nan)


def rank_correlations(candidates: Critiqued) -> Floats:
    """Spearman's rank correlation of F1 and F2 over each question's usable candidates, (questions,); NaN where there
    are fewer than two, or one objective is equal for all."""
    found = np.full(len(candidates.usable), np.nan)
    for line, usable in enumerate(candidates.usable):
        f1, f2 = (rankdata(objective[line, usable]) for objective in (candidates.f1, candidates.f2))
        if len(f1) > 1 and np.ptp(f1) and np.ptp(f2):
            found[line] = np.corrcoef(f1, f2)[0, 1]
    return found
