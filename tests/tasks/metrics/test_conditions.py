"""The metric `conditions`, and the groups of questions that a report sets differences beside."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitalfew.configs.evaluation import ScoreConfig
from vitalfew.tasks.datasets.base import Span
from vitalfew.tasks.metrics.base import Case, RankedUnit
from vitalfew.tasks.registry import make
from vitalfew.tasks.reports.differences import GROUPS, grouped


def conditions(case: Case) -> dict[str, float | None]:
    values = make(ScoreConfig(metrics=("conditions",)), "score").score([case])
    return {name: of_case[0] for name, of_case in values.items()}


def hits(*texts: str) -> tuple[RankedUnit, ...]:
    return tuple(RankedUnit(rank, rank, Span(rank, 0, 9), 1 / rank, text) for rank, text in enumerate(texts, 1))


def test_what_is_measured_of_a_question() -> None:
    case = Case("Who?", ("Ada",), (1, 2), (), hits("A mill.", "a MILL", "the river"), gold_sentences=((4, 6), (8,)))
    assert conditions(case) == {
        "gold_words": 9,
        "gold_sentences": 1.5,
        "gold_count": 2,
        "redundancy": pytest.approx(1 / 3),
        "question_overlap": None,
        "gold_rank": 1,
        "margin": 0.5,
    }


def test_what_question_and_answer_sentence_share() -> None:
    """Content words alone, of the sentence that holds an answer and has most of them."""
    gold = (("The river Ouse flows to York.", "Ada built a mill there."), ("In 1843 Ada wrote of the mill.",))
    asked = replace(Case("Who built the old mill of 1843?", ("Ada", "Ada L."), (1, 2), ()), gold_texts=gold)
    assert conditions(asked)["question_overlap"] == 2 / 4
    assert conditions(replace(asked, answers=("Charles",)))["question_overlap"] is None
    assert conditions(replace(asked, question="Who was it?"))["question_overlap"] is None


@given(st.lists(st.one_of(st.just(float("nan")), st.integers(0, 9).map(float)), max_size=40))
def test_every_known_value_is_in_one_group_and_groups_do_not_overlap(values: list[float]) -> None:
    table = np.array(values, dtype=float)
    groups = grouped(table)
    distinct = {value for value in values if value == value}
    if len(distinct) < 2:
        assert groups == []
        return
    assert len(groups) <= GROUPS
    assert (np.sum(groups, axis=0) == ~np.isnan(table)).all()
    ends = [(table[group].min(), table[group].max()) for group in groups]
    assert all(high < low for (_, high), (low, _) in pairwise(ends))
