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
from typing import Literal

from pydantic import Field

from vitalfew.tasks.metrics.answers import JUDGED, Accuracy, ExactMatch, normalise
from vitalfew.tasks.metrics.base import ANSWER, Answer, Case, Column, Metric, PerQuestion, Values, judged
from vitalfew.tasks.metrics.choice import Choice

RIGHT: dict[str, type[Metric]] = {"accuracy": Accuracy, "exact_match": ExactMatch, "choice": Choice}
SET = (
    Column("set_any", "set any", needs=JUDGED),
    Column("set_drawn", "set drawn", needs=JUDGED),
    Column("random_set_any", "random set any", needs=JUDGED),
    Column("first_random_any", "first random any", needs=JUDGED),
    Column("oracle", "oracle", needs=JUDGED),
)
SIZES = (
    Column("set_size", "set size", "answers", "neither", (ANSWER,)),
    Column("set_distinct", "set distinct", "answers", "neither", (ANSWER,)),
    Column("set_right", "set right", "answers", "neither", JUDGED),
)


class RightOptions(Accuracy.Options):
    """What metrics of sets have in common; max_words is that of `accuracy`."""

    right_by: Literal["accuracy", "exact_match", "choice"] = Field(
        "accuracy", description="Metric that decides if an answer of the set is right."
    )


class AnswerSet(PerQuestion):
    """Chance of a right answer: in the set, drawn from it, in a random set of its size, among all candidates."""

    version = "2"  # since 2, with version 2 of what decides if an answer is right

    Options = RightOptions

    def columns(self) -> tuple[Column, ...]:
        return SET

    def score(self, cases: Sequence[Case]) -> Values:
        rows = [self._case(*judgement) for judgement in rights(self.options, cases)]
        return {column.name: [row[place] if row else None for row in rows] for place, column in enumerate(SET)}

    def _case(self, selected: list[bool], candidates: list[bool]) -> tuple[float, ...] | None:
        if not selected:
            return None
        size, every, right = len(selected), len(candidates), sum(candidates)
        by_chance = any_right(size, every, right)
        with_first = 1.0 if selected[0] else any_right(size - 1, every - 1, right)
        return float(any(selected)), sum(selected) / size, by_chance, with_first, float(right > 0)


class SetSize(PerQuestion):
    """Number of answers in the set, of different answers, and of right answers."""

    version = "2"  # since 2, with version 2 of what decides if an answer is right

    Options = RightOptions

    def columns(self) -> tuple[Column, ...]:
        return SIZES

    def score(self, cases: Sequence[Case]) -> Values:
        sizes: list[tuple[float | None, ...]] = []
        for case, (selected, _) in zip(cases, rights(self.options, cases), strict=True):
            answers = [normalise(answer.text) for answer in case.selected if not answer.error]
            right = float(sum(selected)) if selected else None
            sizes.append((float(len(answers)), float(len(set(answers))), right) if answers else (None, None, None))
        return {column.name: [row[place] for row in sizes] for place, column in enumerate(SIZES)}


def any_right(size: int, every: int, right: int) -> float:
    """The probability that a random set of `size` of `every` candidates holds one of the `right`."""
    return 1 - comb(every - right, size) / comb(every, size)


def rights(options: RightOptions, cases: Sequence[Case]) -> list[tuple[list[bool], list[bool]]]:
    """For every case, which selected answers and which candidates are right; those with an error have no place, and a
    case that cannot be judged has two empty lists."""
    metric: Metric = RIGHT[options.right_by](options)
    (column,) = metric.columns()
    sides = [(_good(case, case.selected), _good(case, case.candidates)) for case in cases]
    single = [
        replace(case, answer=answer)
        for case, both in zip(cases, sides, strict=True)
        for side in both
        for answer in side
    ]
    values = iter(metric.score(single)[column.name])
    return [([next(values) == 1 for _ in one], [next(values) == 1 for _ in other]) for one, other in sides]


def _good(case: Case, answers: Sequence[Answer]) -> list[Answer]:
    return [] if judged(case) is None else [answer for answer in answers if not answer.error]
