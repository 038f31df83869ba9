"""Sets of answers, scored honestly: what a set gets right, what one member would, and what any set of its size would.

PFE-Self-RAG (J. Mahani Math. Res. 15(2), 2026) counts a set as right if any member is. That is `set_any`; a larger set
can only gain by it, so it is not the accuracy of an answer. Beside it stand, for the same question:

- `set_drawn`: the share of the set's members that are right, which is the accuracy to expect of one drawn from it;
- `random_set_any`: what `set_any` is to be expected of a random set of the same size, of the same candidates: without
  a right member are C(n − r, m) of the C(n, m) sets, n candidates of which r are right, m the set's size;
- `first_random_any`: the same of the set's first answer and random others, as many as the set has: a plain random set
  knows nothing of the critic, this one takes its best answer from it and leaves out what it says of the others;
- `oracle`: whether any candidate is right, the most that a choice can reach.

Candidates with an error are no part of the n: no selector takes them. Right is what the metric `score.right_by` gives
1. A question without gold answers, or whose answer is an error, is left out. One answer is a set of one.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import comb
from typing import ClassVar

from configs.evaluation import ScoreConfig
from tasks.metrics.answers import Accuracy, ExactMatch, normalise
from tasks.metrics.base import Answer, Case, Metric, PerQuestion, Values, judged
from tasks.metrics.choice import Choice

RIGHT: dict[str, type[Metric]] = {"accuracy": Accuracy, "exact_match": ExactMatch, "choice": Choice}


class AnswerSet(PerQuestion):
    """A set of answers: any right, one drawn right, any right in a random set of its size, any candidate right."""

    columns: ClassVar[tuple[str, ...]] = ("set_any", "set_drawn", "random_set_any", "first_random_any", "oracle")

    def score(self, cases: Sequence[Case]) -> Values:
        found = [self._case(*each) for each in rights(self.config, cases)]
        return {column: [each[place] if each else None for each in found] for place, column in enumerate(self.columns)}

    def _case(self, selected: list[bool], candidates: list[bool]) -> tuple[float, ...] | None:
        if not selected:
            return None
        size, every, right = len(selected), len(candidates), sum(candidates)
        by_chance = any_right(size, every, right)
        with_first = 1.0 if selected[0] else any_right(size - 1, every - 1, right)
        return float(any(selected)), sum(selected) / size, by_chance, with_first, float(right > 0)


class SetSize(PerQuestion):
    """Answers in the set, different ones among them, and right ones."""

    columns: ClassVar[tuple[str, ...]] = ("set_size", "set_distinct", "set_right")
    higher_is_better: ClassVar[bool | None] = None

    def score(self, cases: Sequence[Case]) -> Values:
        sizes: list[tuple[float | None, ...]] = []
        for case, (selected, _) in zip(cases, rights(self.config, cases), strict=True):
            answers = [normalise(each.text) for each in case.selected if not each.error]
            right = float(sum(selected)) if selected else None
            sizes.append((float(len(answers)), float(len(set(answers))), right) if answers else (None, None, None))
        return {column: [each[place] for each in sizes] for place, column in enumerate(self.columns)}


def any_right(size: int, every: int, right: int) -> float:
    """The probability that a random set of `size` of `every` candidates holds one of the `right`."""
    return 1 - comb(every - right, size) / comb(every, size)


def rights(config: ScoreConfig, cases: Sequence[Case]) -> list[tuple[list[bool], list[bool]]]:
    """For each case, which selected answers and which candidates are right; those with an error have no place, and a
    case that cannot be judged has two empty lists."""
    metric: Metric = RIGHT[config.right_by](config)
    (column,) = metric.score([])
    sides = [(_good(case, case.selected), _good(case, case.candidates)) for case in cases]
    each_alone = [
        replace(case, answer=each) for case, both in zip(cases, sides, strict=True) for side in both for each in side
    ]
    values = iter(metric.score(each_alone)[column])
    return [([next(values) == 1 for _ in one], [next(values) == 1 for _ in other]) for one, other in sides]


def _good(case: Case, answers: Sequence[Answer]) -> list[Answer]:
    return [] if judged(case) is None else [each for each in answers if not each.error]
