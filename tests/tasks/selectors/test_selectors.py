"""The four selectors against choices made one candidate at a time."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitalfew.configs.evaluation import SelectConfig
from vitalfew.tasks.registry import METHODS, make
from vitalfew.tasks.selectors.fronts import Critiqued, WeightedSum
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


@settings(deadline=None)
@given(QUESTIONS)
def test_the_front_and_the_nearest_to_the_ideal(questions: list[list[Candidate]]) -> None:
    fronts = [on_front(each) for each in questions]
    sets, nearest = chosen("pareto_set", questions), chosen("pareto_ideal", questions)
    for candidates, front, found, one in zip(questions, fronts, sets, nearest, strict=True):
        assert sorted(found) == front
        assert one == sorted(front, key=lambda place: (distance(candidates[place]), place))[:1] == found[:1]


@settings(deadline=None)
@given(QUESTIONS)
def test_the_geometric_mean(questions: list[list[Candidate]]) -> None:
    for candidates, found in zip(questions, chosen("geometric_mean", questions), strict=True):
        products = {place: each[0] * each[1] * each[2] for place, each in enumerate(candidates) if each[4]}
        assert found == sorted(products, key=lambda place: (-products[place], place))[:1]


@settings(deadline=None)
@given(QUESTIONS, st.sampled_from(["self_rag", "pfe"]), st.booleans())
def test_the_weighted_sum(questions: list[list[Candidate]], utility: str, add_equal: bool) -> None:
    found = chosen("weighted_sum", questions, utility=utility, add_equal=add_equal)
    for candidates, places in zip(questions, found, strict=True):
        usable = {place: each for place, each in enumerate(candidates) if each[4]}
        scores = {
            place: each[0] + each[1] + 0.5 * (each[2] if utility == "pfe" else 2 * each[2] - 1)
            for place, each in usable.items()
        }
        totals = {
            place: sum(scores[other] for other in usable if not add_equal or usable[other][3] == usable[place][3])
            if add_equal
            else scores[place]
            for place in usable
        }
        assert places == sorted(usable, key=lambda place: (-totals[place], -scores[place], place))[:1]


def test_equal_answers_outvote_a_better_one_where_they_add_up() -> None:
    candidates = [[(1.0, 1.0, 1.0, 0, True), (0.75, 0.5, 0.5, 1, True), (1.0, 1.0, 0.5, 1, True)]]
    assert chosen("weighted_sum", candidates, add_equal=True) == [[2]]
    assert chosen("weighted_sum", candidates) == [[0]]
    assert chosen("weighted_sum", candidates, weight_isrel=0, weight_issup=0) == [[0]]


WEIGHT = st.sampled_from([0.0, 0.5, 1.0, 2.0])


@settings(deadline=None)
@given(QUESTIONS, WEIGHT, WEIGHT, WEIGHT)
def test_support_if_relevant_is_the_sum_of_a_critic_whose_support_is_the_product(
    questions: list[list[Candidate]], isrel: float, issup: float, isuse: float
) -> None:
    weights = {"weight_isrel": isrel, "weight_issup": issup, "weight_isuse": isuse}
    products = [[(each[0], each[0] * each[1], *each[2:]) for each in candidates] for candidates in questions]
    assert chosen("weighted_sum", questions, **weights, support_if_relevant=True) == chosen(
        "weighted_sum", products, **weights
    )
    assert chosen("weighted_sum", questions, **weights, support_if_relevant=False) == chosen(
        "weighted_sum", questions, **weights
    )


@settings(deadline=None)
@given(QUESTIONS)
def test_weights_of_nought_leave_a_score_or_a_product_alone(questions: list[list[Candidate]]) -> None:
    isrel = chosen("weighted_sum", questions, weight_issup=0, weight_isuse=0)
    product = chosen("weighted_sum", questions, weight_isrel=0, support_if_relevant=True, weight_isuse=0)
    for candidates, by_isrel, by_product in zip(questions, isrel, product, strict=True):
        usable = {place: each for place, each in enumerate(candidates) if each[4]}
        assert by_isrel == sorted(usable, key=lambda place: (-usable[place][0], place))[:1]
        assert by_product == sorted(usable, key=lambda place: (-usable[place][0] * usable[place][1], place))[:1]


def test_the_support_of_an_irrelevant_context_speaks_for_it_in_a_plain_sum_alone() -> None:
    candidates = [[(0.75, 0.25, 0.5, 0, True), (0.25, 1.0, 0.5, 1, True)]]
    assert chosen("weighted_sum", candidates) == [[1]]
    assert chosen("weighted_sum", candidates, support_if_relevant=True) == [[0]]


def test_the_letter_of_an_option_is_no_empty_answer() -> None:
    texts = ("A", "", "The cat", "cat", "a", "A")
    found = matrix_of([[{"text": text, "error": ""} for text in texts]])
    assert found.same.tolist() == [[0, 1, 2, 2, 3, 0]]


def test_the_probability_of_an_answer_can_count() -> None:
    candidates = critiqued([[(0.5, 0.5, 0.5, 0, True), (0.5, 0.5, 0.25, 1, True), (0.5, 0.5, 0.5, 2, True)]])
    logprob = np.array([[math.nan, math.log(0.9), math.log(0.1)]])
    candidates = Critiqued(
        candidates.isrel, candidates.issup, candidates.isuse, logprob, candidates.same, candidates.usable
    )
    for counts, place in ((False, 0), (True, 1)):
        selector = WeightedSum(WeightedSum.Options(sequence_probability=counts))
        assert selector.select(candidates).answers[0].nonzero()[0].tolist() == [place]


@pytest.mark.parametrize("name", sorted(METHODS["selector"]))
def test_nothing_to_choose_from(name: str) -> None:
    assert chosen(name, [[(1.0, 1.0, 1.0, 0, False)], []]) == [[], []]
    assert chosen(name, [[], []]) == [[], []]
    # what is not usable neither wins nor keeps another one from winning
    assert chosen(name, [[(1.0, 1.0, 1.0, 0, False), (0.0, 0.0, 0.0, 0, True)]]) == [[1]]
    assert chosen(name, [[(0.5, 0.5, 0.5, 0, True), (0.5, 0.5, 0.5, 1, True)]])[0][0] == 0


def test_equal_points_are_on_the_front_together() -> None:
    questions = [[(0.5, 0.25, 1.0, 0, True), (0.5, 1.0, 0.25, 1, True), (0.25, 0.25, 0.25, 2, True)]]
    assert chosen("pareto_set", questions) == [[0, 1]]
    assert chosen("pareto_ideal", questions) == [[0]]
