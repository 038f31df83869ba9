"""Metrics of sets of answers against counting sets by hand; options and verdicts."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitalfew.tasks.datasets.base import Span
from vitalfew.tasks.metrics.answers import AnswerSet, Choice, SetSize
from vitalfew.tasks.metrics.base import Answer, Case, Context
from vitalfew.tasks.metrics.contexts import ContextRecall

STEM = "What moves a sail?\nA: water\nB: wind\nC: sea water\nD: the wind and the tide"


def answers(*texts: str) -> tuple[Answer, ...]:
    return tuple(Answer(text, 1, 1, 0.0, error="" if text else "failed") for text in texts)


def case(selected: Sequence[str], candidates: Sequence[str], *gold: str, question: str = "Who?") -> Case:
    chosen = answers(*selected)
    return Case(question, gold, (), (), answer=chosen[0], selected=chosen, candidates=answers(*candidates))


@given(st.lists(st.sampled_from(["Ada", "Bob", "Eve"]), min_size=1, max_size=6), st.data())
def test_a_set_and_all_sets_of_its_size(candidates: list[str], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(candidates)))
    selected = candidates[:size]
    values = AnswerSet(AnswerSet.Options()).score([case(selected, candidates, "Ada")])
    sets, others = [*combinations(candidates, size)], [*combinations(candidates[1:], size - 1)]
    assert {name: each[0] for name, each in values.items()} == pytest.approx(
        {
            "set_any": float("Ada" in selected),
            "set_drawn": selected.count("Ada") / size,
            "random_set_any": sum("Ada" in each for each in sets) / len(sets),
            "first_random_any": sum("Ada" in (selected[0], *each) for each in others) / len(others),
            "oracle": float("Ada" in candidates),
        }
    )
    sizes = SetSize(SetSize.Options()).score([case(selected, candidates, "Ada")])
    assert {name: each[0] for name, each in sizes.items()} == {
        "set_size": size, "set_distinct": len(set(selected)), "set_right": selected.count("Ada"),
    }  # fmt: skip


def test_what_gives_no_ground_is_left_out() -> None:
    cases = [case(["Ada"], ["Ada"]), case([""], ["", ""], "Ada"), Case("Who?", ("Ada",), (), ())]
    sets, sizes = AnswerSet(AnswerSet.Options()).score(cases), SetSize(SetSize.Options()).score(cases[1:])
    for values in (*sets.values(), *sizes.values()):
        assert set(values) == {None}
    assert SetSize(SetSize.Options()).score(cases[:1]) == {"set_size": [1], "set_distinct": [1], "set_right": [None]}


@pytest.mark.parametrize(("metric", "right"), [("accuracy", 1), ("exact_match", 0), ("choice", 1)])
def test_what_right_means_can_be_chosen(metric: str, right: int) -> None:
    found = AnswerSet(AnswerSet.Options(right_by=metric)).score(
        [case(["It is the wind"], ["It is the wind"], "wind", question=STEM)]
    )
    assert found["set_any"] == [right]


@pytest.mark.parametrize(
    ("output", "label", "right"),
    [
        ("True.", "true", 1),
        ("The claim is false", "false", 1),
        ("That is not true.", "true", 0),
        ("It isn't true", "false", 1),
        ("true or false", "true", 0),
        ("unproven", "unproven", 1),
        ("perhaps", "mixture", 0),
    ],
)
def test_the_verdict_that_is_given(output: str, label: str, right: int) -> None:
    claim = Case("Water is wet.", (label,), (), (), answer=Answer(output, 1, 1, 0.0))
    assert Choice(Choice.Options()).score([claim]) == {"choice": [right]}


def test_the_gold_passages_that_contexts_come_from() -> None:
    contexts = (Context("a", 1, (Span(1, 0, 5), Span(1, 5, 9))), Context("b", 1, (Span(3, 0, 2),)))
    known = Case("Who?", (), (1, 2), (), contexts=contexts)
    cases = [
        known,
        replace(known, gold_passages=(3, 1)),
        replace(known, contexts=()),
        replace(known, gold_passages=()),
        replace(known, contexts=None),
        replace(known, contexts=(Context("rewritten", 1), *contexts)),
    ]
    assert ContextRecall(ContextRecall.Options()).score(cases) == {"context_recall": [0.5, 1, 0, None, None, None]}
