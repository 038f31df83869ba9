"""Metrics of answers, labels, ratings and verdicts: figures worked out by hand, and what leaves a question out."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitalfew.configs.evaluation import ScoreConfig
from vitalfew.tasks.generators.base import Rating
from vitalfew.tasks.metrics.answers import AnswerSet, Choice, SetSize, chosen, options
from vitalfew.tasks.metrics.base import Answer, Case, Context
from vitalfew.tasks.metrics.contexts import AnswerShown, ContextRecall
from vitalfew.tasks.refiners.base import Hit
from vitalfew.tasks.registry import make

# Labels and ratings against gold passages


def labelled(labels: dict[int, float], gold: tuple[int, ...] = (1,)) -> Case:
    return Case("Who?", ("x",), gold, (), labels=tuple(labels.items()))


def test_labels_are_compared_with_gold_passages() -> None:
    metric = make(ScoreConfig(metrics=("agreement",)), "score")
    cases = [labelled({1: 1.0, 2: 0.0}), labelled({1: 0.0, 2: 1.0, 3: 0.2}), labelled({2: 1.0}, ()), labelled({})]
    found = metric.summary(cases)
    assert {name: summary.left_out for name, summary in found.items()} == dict.fromkeys(found, 2)
    figures = {name: summary.value for name, summary in found.items()}
    expected = {"accuracy": 0.6, "f1_1": 0.5, "f1_0": 2 / 3, "f1": 7 / 12, "relevant": 0.4}
    assert figures == pytest.approx({f"label_{name}": value for name, value in expected.items()})
    nothing = metric.summary([labelled({}), labelled({1: 1.0}, ())])
    assert all(summary == (None, 2) for summary in nothing.values())


@pytest.mark.parametrize(
    ("found", "contexts", "expected"),
    [
        (["A river.", "The mill of 1742."], ["built in 1742"], 1.0),
        (["A river.", "The mill of 1742."], ["A river."], 0.0),
        (["A river."], ["built in 1742"], None),
    ],
)
def test_an_answer_that_no_hit_holds_cannot_be_kept(
    found: list[str], contexts: list[str], expected: float | None
) -> None:
    shown = tuple(Context(text, 3) for text in contexts)
    case = Case("When?", ("1742",), (), (), hits=hits(*found), contexts=shown)
    assert make(ScoreConfig(metrics=("answer_kept",)), "score").score([case]) == {"answer_kept": [expected]}


def rated(gold: int, *ratings: tuple[float, bool]) -> Case:
    """A question with a context from each of the passages 1, 2, … and their ratings."""
    contexts = tuple(Context("", 0, ((passage, 0, 9),)) for passage in range(1, len(ratings) + 1))
    rated = tuple(Rating(rank, score, kept, 9) for rank, (score, kept) in enumerate(ratings, 1))
    return Case("Who?", (), (gold,), (), contexts=contexts, answer=Answer("Ada", 9, 1, 0.1, ratings=rated))


def test_ratings_against_gold_passages() -> None:
    cases = rated(1, (0.9, True), (0.6, True)), rated(2, (0.2, False), (0.6, False))
    without = replace(cases[0], gold_passages=()), replace(cases[0], answer=Answer("", 9, 0, 0.1, error="too long"))
    found = make(ScoreConfig(metrics=("assessment",)), "score").summary([*cases, *without])
    # relevant: .9 (kept), .6 (dropped); others: .6 (kept), .2 (dropped)
    due = {"rating_auc": (1 + 1 + 0.5 + 1) / 4, "rating_f1_1": 0.5, "rating_f1_0": 0.5, "rating_f1": 0.5}
    assert {name: found[name].value for name in due} == pytest.approx(due)
    assert found["rating_auc"].left_out == 2


# Sets of answers, and contexts


def answers(*texts: str) -> tuple[Answer, ...]:
    return tuple(Answer(text, 1, 1, 0.0, error="" if text else "failed") for text in texts)


def chosen_of(selected: Sequence[str], candidates: Sequence[str], *gold: str, question: str = "Who?") -> Case:
    chosen = answers(*selected)
    return Case(question, gold, (), (), answer=chosen[0], selected=chosen, candidates=answers(*candidates))


@given(st.lists(st.sampled_from(["Ada", "Bob", "Eve"]), min_size=1, max_size=6), st.data())
def test_a_set_and_all_sets_of_its_size(candidates: list[str], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(candidates)))
    selected = candidates[:size]
    values = AnswerSet(AnswerSet.Options()).score([chosen_of(selected, candidates, "Ada")])
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
    sizes = SetSize(SetSize.Options()).score([chosen_of(selected, candidates, "Ada")])
    assert {name: each[0] for name, each in sizes.items()} == {
        "set_size": size, "set_distinct": len(set(selected)), "set_right": selected.count("Ada"),
    }  # fmt: skip


def test_contexts_hold_an_answer_or_not_whatever_passage_they_come_from() -> None:
    """The second context is what was kept of the gold passage: it lacks the answer."""
    contexts = (Context("Mr. Bell came.", 4), Context("It was late.", 3, ((1, 0, 9),)))
    cases = [
        Case("Who?", answers, (1,), (), contexts=shown)
        for answers, shown in ((("Bell",), contexts), (("Bell",), contexts[1:]), (("Bell",), None), ((), contexts))
    ]
    assert AnswerShown(AnswerShown.Options()).score(cases) == {"answer_shown": [1, 0, None, None]}


def test_the_gold_passages_that_contexts_come_from() -> None:
    contexts = (Context("a", 1, sentences=((1, 0, 5), (1, 5, 9))), Context("b", 1, sentences=((3, 0, 2),)))
    known = Case("Who?", (), (1, 2), (), contexts=contexts)
    cases = [
        known,
        replace(known, gold_passages=(3, 1)),
        replace(known, contexts=()),
        replace(known, contexts=(Context("rewritten", 1), *contexts)),
    ]
    assert ContextRecall(ContextRecall.Options()).score(cases) == {"context_recall": [0.5, 1, 0, None]}


# Options


QUESTION = "What moves a sailing boat?\nA: wind\nB: water\nC: sea water\nD: a motor"


@pytest.mark.parametrize(
    ("output", "label"),
    [
        ("(b)", "B"),
        ("B is wrong", None),
        ("I think the answer is A. No, the answer is B.", None),
        ("A motor", "D"),
        ("It is sea water.", "C"),
    ],
)
def test_an_output_names_an_option(output: str, label: str | None) -> None:
    assert chosen(output, options(QUESTION)) == label


@pytest.mark.parametrize(
    ("question", "gold", "output", "score"),
    [
        (QUESTION, ("wind", "A: wind"), "The answer is A", 1),
        (QUESTION, ("A",), "wind", 1),
        (QUESTION, ("A",), "a motor", 0),
        ("Water is wet.", ("true",), "That is not true.", 0),  # without options the verdict counts
    ],
)
def test_the_right_option_is_named_by_its_text_or_by_its_label(
    question: str, gold: tuple[str, ...], output: str, score: float
) -> None:
    case = Case(question, gold, (), (), answer=Answer(output, 9, 2, 0.1))
    assert Choice(Choice.Options()).score([case]) == {"choice": [score]}


# Answers that say that they do not know, and conditions


@pytest.mark.parametrize(
    ("answer", "abstains"),
    [
        ("", 1),
        ("The passages do not mention who built the mill. They are about rivers.", 1),
        ("I don't know, but it may be Paris.", 0),
        ("Ada. The passages do not mention anybody else.", 0),
    ],
)
def test_an_answer_may_say_that_it_does_not_know(answer: str, abstains: float) -> None:
    case = Case("Who?", (), (), (), answer=Answer(answer, 9, 2, 0.1))
    assert make(ScoreConfig(metrics=("abstains",)), "score").score([case]) == {"abstains": [abstains]}


def conditions(case: Case) -> dict[str, float | None]:
    values = make(ScoreConfig(metrics=("conditions",)), "score").score([case])
    return {name: of_case[0] for name, of_case in values.items()}


def hits(*texts: str) -> tuple[Hit, ...]:
    return tuple(Hit("", text, rank, 0, 9, score=1 / rank) for rank, text in enumerate(texts, 1))


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
