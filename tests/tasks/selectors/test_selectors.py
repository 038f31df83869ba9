"""The four selectors against choices made one candidate at a time, and how much a critic leaves to choose."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitalfew.configs.evaluation import SelectConfig
from vitalfew.tasks.registry import METHODS, make
from vitalfew.tasks.selectors.fronts import Critiqued, WeightedSum, front_sizes, rank_correlations
from vitalfew.tasks.selectors.fronts import critiqued as matrix_of

Candidate = tuple[float, float, float, int, bool]
"""isrel, issup, isuse, the answer's number, whether it is usable."""

# Quarters: ties, equal points and zeros are frequent.
SCORE = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
CANDIDATE = st.tuples(SCORE, SCORE, SCORE, st.integers(0, 2), st.booleans())
QUESTIONS = st.lists(st.lists(CANDIDATE, min_size=0, max_size=6), min_size=1, max_size=5)


def critiqued(questions: Sequence[Sequence[Candidate]], logprob: float = math.nan) -> Critiqued:
    width = max(map(len, questions))
    arrays = np.full((3, len(questions), width), np.nan)
    same, usable = np.full((len(questions), width), -1), np.zeros((len(questions), width), bool)
    for line, candidates in enumerate(questions):
        for place, (*scores, answer, good) in enumerate(candidates):
            arrays[:, line, place] = scores if good else np.nan
            same[line, place], usable[line, place] = answer, good
    return Critiqued(*arrays, np.full((len(questions), width), logprob), same, usable)


def chosen(name: str, questions: Sequence[Sequence[Candidate]], **config: object) -> list[list[int]]:
    """The places of the answers of each question, best first."""
    candidates = critiqued(questions)
    found = make(SelectConfig(selector=name, **config), "select").select(candidates)
    assert found.answers.shape == found.score.shape == candidates.usable.shape
    return [
        sorted(np.flatnonzero(answers).tolist(), key=lambda place: -score[place])
        for answers, score in zip(found.answers, found.score, strict=True)
    ]


def f1(candidate: Candidate) -> float:
    _, issup, isuse, _, _ = candidate
    return 2 * isuse * issup / (isuse + issup) if isuse + issup else 0.0


def on_front(candidates: Sequence[Candidate]) -> list[int]:
    points = {place: (f1(each), each[0]) for place, each in enumerate(candidates) if each[4]}
    return [
        place
        for place, (a, b) in points.items()
        if not any(c >= a and d >= b and (c, d) != (a, b) for c, d in points.values())
    ]


def distance(candidate: Candidate) -> float:
    return float(np.hypot(1 - f1(candidate), 1 - candidate[0]))


@settings(max_examples=40)
@given(QUESTIONS)
def test_the_front_and_the_nearest_to_the_ideal(questions: list[list[Candidate]]) -> None:
    fronts = [on_front(each) for each in questions]
    sets, nearest = chosen("pareto_set", questions), chosen("pareto_ideal", questions)
    for candidates, front, found, one in zip(questions, fronts, sets, nearest, strict=True):
        assert sorted(found) == front
        assert one == sorted(front, key=lambda place: (distance(candidates[place]), place))[:1] == found[:1]


@settings(max_examples=40)
@given(QUESTIONS)
def test_the_geometric_mean(questions: list[list[Candidate]]) -> None:
    for candidates, found in zip(questions, chosen("geometric_mean", questions), strict=True):
        products = {place: each[0] * each[1] * each[2] for place, each in enumerate(candidates) if each[4]}
        assert found == sorted(products, key=lambda place: (-products[place], place))[:1]


def test_the_weighted_sum_has_half_of_isuse_by_the_scale_of_its_paper() -> None:
    """1 + 0.5 * 1 = 1.5 to 1.5 - 0.5 * 0.5 = 1.25 on Self-RAG's scale of -1 to 1; 1.5 to 1.625 on that of 0 to 1."""
    candidates = [[(0.5, 0.5, 1.0, 0, True), (1.0, 0.5, 0.25, 1, True)]]
    assert chosen("weighted_sum", candidates, utility="self_rag") == [[0]]
    assert chosen("weighted_sum", candidates, utility="pfe") == [[1]]


def test_equal_answers_outvote_a_better_one_where_they_add_up() -> None:
    candidates = [[(1.0, 1.0, 1.0, 0, True), (0.75, 0.5, 0.5, 1, True), (1.0, 1.0, 0.5, 1, True)]]
    assert chosen("weighted_sum", candidates, add_equal=True) == [[2]]
    assert chosen("weighted_sum", candidates) == [[0]]
    assert chosen("weighted_sum", candidates, weight_isrel=0, weight_issup=0) == [[0]]


def test_the_letter_of_an_option_is_no_empty_answer() -> None:
    texts = ("A", "", "The cat", "cat", "a", "A")
    found = matrix_of([[{"text": text, "error": ""} for text in texts]])
    assert found.same.tolist() == [[0, 1, 2, 2, 3, 0]]


def test_the_probability_of_an_answer_can_count() -> None:
    given = critiqued([[(0.5, 0.5, 0.5, 0, True), (0.5, 0.5, 0.25, 1, True), (0.5, 0.5, 0.5, 2, True)]])
    given = replace(given, logprob=np.array([[math.nan, math.log(0.9), math.log(0.1)]]))
    for counts, place in ((False, 0), (True, 1)):
        selector = WeightedSum(WeightedSum.Options(sequence_probability=counts))
        assert selector.select(given).answers[0].nonzero()[0].tolist() == [place]


@pytest.mark.parametrize("name", sorted(METHODS["selector"]))
def test_nothing_to_choose_from(name: str) -> None:
    assert chosen(name, [[(1.0, 1.0, 1.0, 0, False)], []]) == [[], []]
    # what is not usable neither wins nor keeps another one from winning
    assert chosen(name, [[(1.0, 1.0, 1.0, 0, False), (0.0, 0.0, 0.0, 0, True)]]) == [[1]]
    assert chosen(name, [[(0.5, 0.5, 0.5, 0, True), (0.5, 0.5, 0.5, 1, True)]])[0][0] == 0


def test_objectives_that_agree_leave_one_and_opposite_ones_leave_all() -> None:
    """With ISUSE and ISSUP equal, F1 is their value; the last candidate is not usable."""
    for isrel, size, correlation in (((0.1, 0.2, 0.6), 1, 1), ((0.8, 0.5, 0.3), 3, -1)):
        scores = zip(isrel, (0.1, 0.2, 0.9), strict=True)
        given = critiqued([[*((own, f1, f1, 0, True) for own, f1 in scores), (0.9, 0.9, 0.9, 0, False)]])
        assert (front_sizes(given)[0], rank_correlations(given)[0]) == (size, pytest.approx(correlation))
    none = critiqued([[(0.5, 0.5, 0.5, 0, False)]])
    assert np.isnan([front_sizes(none)[0], rank_correlations(none)[0]]).all()
