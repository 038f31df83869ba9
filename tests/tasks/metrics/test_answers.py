"""Metrics of answers, labels, ratings and verdicts: figures worked out by hand, and what leaves a question out."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitalfew.configs.evaluation import ScoreConfig
from vitalfew.tasks.datasets.base import Span
from vitalfew.tasks.generators.base import Rating
from vitalfew.tasks.metrics.answers import AnswerSet, Choice, SetSize, chosen, options
from vitalfew.tasks.metrics.base import Answer, Case, Context, RankedUnit, Values
from vitalfew.tasks.metrics.contexts import ContextRecall
from vitalfew.tasks.metrics.tables import make_metrics
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
    ("hits", "contexts", "expected"),
    [
        (["A river.", "The mill of 1742."], ["built in 1742"], 1.0),
        (["A river.", "The mill of 1742."], ["A river."], 0.0),
        (["A river.", "The mill of 1742."], [], 0.0),
        (["A river."], ["built in 1742"], None),
        ([], [], None),
        (None, None, None),
    ],
)
def test_an_answer_that_no_hit_holds_cannot_be_kept(
    hits: list[str] | None, contexts: list[str] | None, expected: float | None
) -> None:
    units = None if hits is None else tuple(RankedUnit(n, n, (1, 0, 9), 0.5, hit) for n, hit in enumerate(hits, 1))
    shown = None if contexts is None else tuple(Context(text, 3) for text in contexts)
    case = Case("When?", ("1742",), (), (), hits=units, contexts=shown)
    assert make(ScoreConfig(metrics=("answer_kept",)), "score").score([case]) == {"answer_kept": [expected]}


def rated(gold: int, *ratings: tuple[float, bool]) -> Case:
    """A question with a context from each of the passages 1, 2, … and their ratings."""
    contexts = tuple(Context("", 0, passages=(passage,)) for passage in range(1, len(ratings) + 1))
    rated = tuple(Rating(rank, score, kept, 9) for rank, (score, kept) in enumerate(ratings, 1))
    return Case("Who?", (), (gold,), (), contexts=contexts, answer=Answer("Ada", 9, 1, 0.1, ratings=rated))


def figures(*cases: Case) -> dict[str, float | None]:
    metric = make(ScoreConfig(metrics=("assessment",)), "score")
    return {name: summary.value for name, summary in metric.summary(cases).items()}


def test_figures_of_two_questions() -> None:
    found = figures(rated(1, (0.9, True), (0.6, True)), rated(2, (0.2, False), (0.6, False)))
    # relevant: .9 (kept), .6 (dropped); others: .6 (kept), .2 (dropped)
    assert found["rating_auc"] == pytest.approx((1 + 1 + 0.5 + 1) / 4)
    assert (found["rating_f1_1"], found["rating_f1_0"], found["rating_f1"]) == (0.5, 0.5, 0.5)


def test_what_cannot_be_judged_is_left_out() -> None:
    whole = rated(1, (0.9, True), (0.1, False))
    without = (
        replace(whole, gold_passages=()),
        replace(whole, contexts=None),
        replace(whole, answer=Answer("", 9, 0, 0.1, error="too long")),
        replace(whole, answer=Answer("Ada", 9, 1, 0.1)),
    )
    metric = make(ScoreConfig(metrics=("assessment",)), "score")
    summary = metric.summary([whole, *without])["rating_auc"]
    assert (summary.value, summary.left_out) == (1.0, 4)
    assert figures(*without)["rating_auc"] is None


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


@pytest.mark.parametrize(
    ("output", "label", "right"),
    [
        ("True.", "true", 1),
        ("That is not true.", "true", 0),
        ("It isn't true", "false", 1),
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
        replace(known, contexts=(Context("rewritten", 1), *contexts)),
    ]
    assert ContextRecall(ContextRecall.Options()).score(cases) == {"context_recall": [0.5, 1, 0, None]}


# Options


QUESTION = "What moves a sailing boat?\nA: wind\nB: water\nC: sea water\nD: a motor"
NUMBERED = "How far is it?\n1: a mile\n2: two miles\n3: 3,000 km"


@pytest.mark.parametrize(
    ("output", "label"),
    [
        ("A", "A"),
        ("(b)", "B"),
        ("B: water", "B"),
        ("B is correct", "B"),
        ("B is wrong", None),
        ("The answer is A", "A"),
        ("The answer is not A.", None),
        ("I think the answer is A. No, the answer is B.", None),
        ("A motor", "D"),
        ("It is sea water.", "C"),
        ("wind or water", None),
        ("", None),
    ],
)
def test_an_output_names_an_option(output: str, label: str | None) -> None:
    assert chosen(output, options(QUESTION)) == label


@pytest.mark.parametrize(("output", "label"), [("1", "1"), ("2. Two", "2"), ("1.5 miles", None), ("3,000 km", "3")])
def test_a_number_is_no_label_where_digits_follow(output: str, label: str | None) -> None:
    assert chosen(output, options(NUMBERED)) == label


@pytest.mark.parametrize("gold", [("wind", "A: wind"), ("A",)])
def test_the_right_option_is_named_by_its_text_or_by_its_label(gold: tuple[str, ...]) -> None:
    def score(output: str) -> float | None:
        (value,) = Choice(Choice.Options()).score([asked(output, *gold)])["choice"]
        return value

    assert score("The answer is A") == score("wind") == 1
    assert score("The answer is B") == score("a motor") == score("") == 0


def asked(output: str, *gold: str, question: str = QUESTION) -> Case:
    return Case(question, gold, (), (), answer=Answer(output, 9, 2, 0.1))


# Verdicts, and answers that say that they do not know


NAMES = ("judged_correct", "supported", "abstains")


def verdicts(case: Case) -> Values:
    metrics = make_metrics(ScoreConfig(metrics=NAMES))
    return {name: column for metric in metrics.values() for name, column in metric.score([case]).items()}


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "N/A",
        "I don't know.",
        "I do not know who built it. The passages are about rivers.",
        "The passages do not mention who built the mill.",
    ],
)
def test_an_answer_that_says_that_it_does_not_know(answer: str) -> None:
    assert verdicts(Case("Who?", (), (), (), answer=Answer(answer, 9, 2, 0.1)))["abstains"] == [1]


@pytest.mark.parametrize(
    "answer",
    [
        "Ada",
        "I don't know, but it may be Paris.",
        "Although the passages do not mention it, Ada.",
        "Ada. The passages do not mention anybody else.",
    ],
)
def test_an_answer_that_answers(answer: str) -> None:
    assert verdicts(Case("Who?", (), (), (), answer=Answer(answer, 9, 2, 0.1)))["abstains"] == [0]


def test_a_verdict_that_is_missing_is_no_zero() -> None:
    case = Case("Who?", ("Ada",), (), (), contexts=(Context("Ada.", 2),), answer=Answer("Ada", 9, 2, 0.1))
    assert verdicts(case) == {"judged_correct": [None], "supported": [None], "abstains": [0]}
    half = replace(case, verdict=(None, 0.5, None))
    assert verdicts(half) == {"judged_correct": [None], "supported": [0.5], "abstains": [0]}
    failed = replace(half, answer=Answer("", 9, 2, 0.1, "HTTP 500"))
    assert verdicts(failed) == {name: [None] for name in NAMES}
