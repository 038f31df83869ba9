"""Selectors: the critiqued candidates of a batch of questions in, which of them are answers out.

All is arrays with a line per question and a place per candidate, so a selector is a few lines of NumPy, and ten
thousand questions take a moment. Places are not `usable` that only fill a line up, and candidates with an error or
whose critique failed or is NaN. A question without a usable candidate gets no answer.

F1 and F2 are the two objectives of PFE-Self-RAG (J. Mahani Math. Res. 15(2), 2026): the harmonic mean of ISUSE and
ISSUP, and ISREL. The ideal point is F1 = F2 = 1. Of candidates that are equally good the first is taken.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from vitalfew.configs.evaluation import SelectConfig
from vitalfew.tasks.metrics.answers import normalise

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


def critiqued(questions: Sequence[Sequence[Mapping[str, Any]]]) -> Critiqued:
    """The candidates of every question as a matrix: a line per question, padded with unusable entries.

    A candidate has a `text`, an `error` (empty if it can be used), the three scores, and perhaps a `logprob`."""
    shape = (len(questions), max(map(len, questions), default=0))
    scores = {name: np.full(shape, np.nan) for name in ("isrel", "issup", "isuse", "logprob")}
    same, usable = np.full(shape, -1, np.int64), np.zeros(shape, bool)
    for line, candidates in enumerate(questions):
        numbers: dict[str, int] = {}
        for place, candidate in enumerate(candidates):
            answer = normalise(candidate["text"]) or candidate["text"].strip()  # the option A is not an empty answer
            same[line, place] = numbers.setdefault(answer, len(numbers))
            if candidate["error"]:
                continue
            usable[line, place] = True
            for name, values in scores.items():
                if candidate.get(name) is not None:
                    values[line, place] = candidate[name]
    return Critiqued(**scores, same=same, usable=usable)


@dataclass(frozen=True)
class Selected:
    """Arrays (questions, candidates): which are answers, and the `score` that puts the better ones first."""

    answers: Flags
    score: Floats


class Selector(ABC):
    """The base of selectors. `Options`: a SelectConfig with what can be set of it besides."""

    class Options(SelectConfig, extra="forbid"):
        pass

    version: ClassVar[str] = "1"

    def __init__(self, options: Any) -> None:
        """`options`: an instance of its `Options`."""
        self.options = options

    @abstractmethod
    def select(self, candidates: Critiqued) -> Selected:
        """Choose at least one answer to every question that has a usable candidate."""


class ParetoIdeal(Selector):
    """PFE-Self-RAG: the answer on the Pareto front nearest to the ideal point."""

    def select(self, candidates: Critiqued) -> Selected:
        return best(nearness(candidates), front(candidates))


class ParetoSet(Selector):
    """PFE-Self-RAG: every answer that no other one beats in both F1 and F2.

    Equal points are on the front together, so a question has one answer or several: see the metric `answer_set`.
    """

    def select(self, candidates: Critiqued) -> Selected:
        return Selected(front(candidates), nearness(candidates))


class GeometricMean(Selector):
    """PFE-Self-RAG: the answer with the greatest geometric mean of the three scores."""

    def select(self, candidates: Critiqued) -> Selected:
        return best(geometric_mean(candidates.isrel, candidates.issup, candidates.isuse), candidates.usable)


class WeightedSum(Selector):
    """Self-RAG: the answer with the greatest weighted sum of the three scores; in closed tasks equal answers add up.

    Asai et al. (2023), arXiv 2310.11511, section 3.3: w_rel · ISREL + w_sup · ISSUP + w_use · ISUSE, with ISUSE on
    Self-RAG's scale from −1 to 1 (2 · ISUSE − 1) or on PFE's from 0 to 1. With `sequence_probability` the geometric
    mean of the answer's token probabilities is added, if it is known: equation 4 complete, as its program computes it.
    The bundled reader's tokens share the probability of the span. With `add_equal` the scores of answers that are equal
    for exact match add up, and the one that scores best alone stands for them.

    A sum takes ISSUP for the probability that the context is relevant and supports the answer. The critic `embedded`
    takes relevance for given, so that by itself its ISSUP speaks for irrelevant contexts; with `support_if_relevant`
    ISREL · ISSUP takes its place. A weight of 0 leaves a score out: ISREL alone is a sum too.
    """

    class Options(Selector.Options):
        weight_isrel: float = Field(1.0, ge=0, description="Weight of ISREL.")
        weight_issup: float = Field(1.0, ge=0, description="Weight of ISSUP.")
        weight_isuse: float = Field(0.5, ge=0, description="Weight of ISUSE.")
        utility: Literal["self_rag", "pfe"] = Field(
            "self_rag", description="Scale of ISUSE. self_rag: -1 to 1; pfe: 0 to 1."
        )
        add_equal: bool = Field(
            False, description="Add up the scores of equal answers, as Self-RAG does for multiple choice and claims."
        )
        sequence_probability: bool = Field(False, description="Add the answer's probability per token to its score.")
        support_if_relevant: bool = Field(
            False,
            description="Weigh ISREL · ISSUP in place of ISSUP: for a critic, such as `embedded`, whose ISSUP assumes "
            "relevance.",
        )

    def select(self, candidates: Critiqued) -> Selected:
        options, usable = self.options, candidates.usable
        utility = candidates.isuse if options.utility == "pfe" else 2 * candidates.isuse - 1
        support = candidates.isrel * candidates.issup if options.support_if_relevant else candidates.issup
        score = options.weight_isrel * candidates.isrel + options.weight_issup * support
        score = score + options.weight_isuse * utility
        if options.sequence_probability:
            score = score + np.nan_to_num(np.exp(candidates.logprob))
        if not options.add_equal:
            return best(score, usable)
        own = np.where(usable, score, 0.0)
        equal = candidates.same[:, :, None] == candidates.same[:, None, :]
        together = (equal * own[:, None, :]).sum(axis=2)
        top = np.where(usable, together, -np.inf)
        leaders = usable & (top == top.max(axis=1, initial=-np.inf, keepdims=True))
        return Selected(best(score, leaders).answers, together)


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


def best(score: Floats, among: Flags) -> Selected:
    """The candidate of the greatest score; of equal ones the first."""
    answers = np.zeros_like(among)
    if among.size:
        place = np.where(among, score, -np.inf).argmax(axis=1)
        lines = np.arange(len(among))
        answers[lines, place] = among[lines, place]
    return Selected(answers, score)


def front_sizes(candidates: Critiqued) -> Floats:
    """Candidates on every question's front, (questions,); NaN where none is usable."""
    return np.where(candidates.usable.any(axis=1), front(candidates).sum(axis=1), np.nan)


def rank_correlations(candidates: Critiqued) -> Floats:
    """Spearman's rank correlation of F1 and F2 over every question's usable candidates, (questions,); NaN where there
    are fewer than two, or one objective is equal for all."""
    found = np.full(len(candidates.usable), np.nan)
    for line, usable in enumerate(candidates.usable):
        f1, f2 = (_ranks(objective[line, usable]) for objective in (candidates.f1, candidates.f2))
        if len(f1) > 1 and np.ptp(f1) and np.ptp(f2):
            found[line] = np.corrcoef(f1, f2)[0, 1]
    return found


def _ranks(values: Floats) -> Floats:
    """Ranks from 1; equal values have the mean of theirs. As `scipy.stats.rankdata`, which takes a second to import."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks
