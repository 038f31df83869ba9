"""Metrics against numbers worked out by hand, and what has to hold for any case."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.evaluation import ScoreConfig
from tasks.datasets.base import Span
from tasks.metrics.answers import Accuracy
from tasks.metrics.base import (
    ANSWER,
    CONTEXTS,
    GOLD_ANSWERS,
    GOLD_PASSAGES,
    HITS,
    SCALE,
    SUPPORTING_FACTS,
    Answer,
    Case,
    Context,
    Metric,
    RankedUnit,
)
from tasks.registry import METHODS, make, resolve

K = (1, 2, 3, 4, 10)
PER_QUESTION = sorted(set(METHODS["metric"]) - {"mauve"})


def metric_at(name: str) -> Metric:
    """The metric, at the ranks K where it has ranks."""
    ranked = {"k": K} if "k" in resolve("metric", name).Options.model_fields else {}
    metric: Metric = make(ScoreConfig(metrics=(name,), **ranked), "score")
    return metric


def hit(rank: int, passage: int = 1, text: str = "Some text.") -> RankedUnit:
    return RankedUnit(rank, 100 * passage + rank, Span(passage, 0, len(text)), 1 / rank, text)


def found(*passages: int) -> tuple[RankedUnit, ...]:
    return tuple(hit(rank, passage) for rank, passage in enumerate(passages, 1))


def answered(output: str, *gold: str, error: str = "") -> Case:
    return Case("Who?", gold, (), (), answer=Answer(output, 90, 7, 0.5, error, 0.25))


def values(metric: str, *cases: Case) -> dict[str, list[float | None]]:
    made = metric_at(metric)
    return {column: list(column_values) for column, column_values in made.score(cases).items()}


def one(metric: str, case: Case) -> float | None:
    ((value,),) = values(metric, case).values()
    return value


@pytest.mark.parametrize(
    ("output", "gold", "exact", "f1"),
    [
        ("The Denver Broncos!", "Denver Broncos", 1, 1),
        ("Denver", "Denver Broncos", 0, 2 / 3),
        ("Broncos of Denver", "the Denver Broncos", 0, 0.8),
        ("yes yes", "yes", 0, 2 / 3),
        ("U.S.", "US", 1, 1),
        ("in 1,000 years", "1000 years", 0, 0.8),
        ("7", "seven", 0, 0),
        ("twenty-one", "twenty one", 0, 0),  # punctuation goes, and leaves no blank
        (" a  Café\n", "café", 1, 1),
        ("cafe", "café", 0, 0),
        ("O’Hara", "O'Hara", 0, 0),  # only ASCII punctuation is dropped
        ("Anthem", "an them", 0, 0),  # articles are whole words
        ("", "Ada", 0, 0),
        ("...", "Ada", 0, 0),
        ("", "The", 1, 1),  # as SQuAD has it: nothing is left of either
    ],
)
def test_squad_normalisation(output: str, gold: str, exact: float, f1: float) -> None:
    case = answered(output, gold)
    assert one("exact_match", case) == exact
    assert one("f1", case) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("output", "gold", "accurate"),
    [
        ("It was the Denver Broncos, of course.", "Denver Broncos", 1),
        ("I do not know", "no", 0),
        ("The Mayor", "May", 0),
        ("In May.", "may", 1),
        ("Broncos Denver", "Denver Broncos", 0),
        ("Ada " + "w " * 14, "Ada", 1),
        ("Ada " + "w " * 15, "Ada", 0),  # sixteen words
        ("", "Ada", 0),
        ("Ada", "the", 0),
        ("東京 です", "東京", 1),
    ],
)
def test_accuracy(output: str, gold: str, accurate: float) -> None:
    assert one("accuracy", answered(output, gold)) == accurate


def test_accuracy_at_another_limit() -> None:
    metric = Accuracy(Accuracy.Options(max_words=2))
    assert metric.score([answered("Ada it was", "Ada"), answered("Ada was", "Ada")]) == {"accuracy": [0, 1]}
    unlimited = make(ScoreConfig(metrics=("accuracy",), max_words=None), "score")
    assert unlimited.score([answered("Ada " + "w " * 500, "Ada")]) == {"accuracy": [1]}


def test_the_best_gold_answer_counts() -> None:
    case = answered("Denver Broncos", "Carolina", "Denver", "the Denver Broncos")
    assert [one(name, case) for name in ("accuracy", "exact_match", "f1")] == [1, 1, 1]


def test_rouge() -> None:
    # Longest common subsequence: the quick brown … jumps … the; of 8 words and of 9.
    case = answered("The quick brown dog jumps on the log.", "The quick brown fox jumps over the lazy dog")
    assert values("rouge", case) == {"rouge_l": [pytest.approx(10 / 17)], "rouge_lsum": [pytest.approx(10 / 17)]}
    swapped = answered("Dr. Bob slept. Ada lit it.", "Ada lit it. Dr. Bob slept.")
    assert values("rouge", swapped) == {"rouge_l": [pytest.approx(3 / 6)], "rouge_lsum": [pytest.approx(1)]}


def test_rouge_knows_latin_letters_alone() -> None:
    assert values("rouge", answered("東京", "東京"), answered("Tokyo", "東京", "Tokyo"))["rouge_l"] == [None, 1]
    assert values("rouge", answered("", "Ada"))["rouge_lsum"] == [0]


@pytest.mark.parametrize("name", PER_QUESTION)
def test_every_column_says_what_it_is(name: str) -> None:
    metric = metric_at(name)
    columns = metric.columns()
    assert [column.name for column in columns] == [*dict.fromkeys(column.name for column in columns)]
    assert {column.name for column in columns} == metric.score([]).keys()
    for column in columns:
        assert column.heading, column
        assert column.unit in {SCALE, "% of units", "tokens", "contexts", "answers", "s", "USD"}, column
        assert column.direction in {"higher", "lower", "neither"}, column
        assert {*column.needs} <= {ANSWER, CONTEXTS, GOLD_ANSWERS, GOLD_PASSAGES, HITS, SUPPORTING_FACTS}, column
        assert column.needs, column


@pytest.mark.parametrize("name", PER_QUESTION)
def test_a_question_without_what_a_column_needs_is_left_out(name: str) -> None:
    span = Span(1, 0, 10)
    whole = Case(
        "Who?", ("Some",), (1,), (span,), hits=found(1), contexts=(Context("Some text.", 3, (span,)),),
        answer=Answer("Some", 9, 1, 0.1), units=9, selected=(Answer("Some", 9, 1, 0.1),),
        candidates=(Answer("Some", 9, 1, 0.1),),
    )  # fmt: skip
    if name == "choice":
        whole = replace(whole, question="Who?\nA: Some\nB: None")
    without = {
        ANSWER: {"answer": None, "selected": (), "candidates": ()}, CONTEXTS: {"contexts": None},
        GOLD_ANSWERS: {"answers": ()}, GOLD_PASSAGES: {"gold_passages": ()}, HITS: {"hits": None},
        SUPPORTING_FACTS: {"supporting_facts": ()},
    }  # fmt: skip
    for column in metric_at(name).columns():
        assert values(name, whole)[column.name] != [None], column
        for need, changes in without.items():
            given = values(name, replace(whole, **changes))[column.name] != [None]
            assert given == (need not in column.needs), (column, need)


def test_no_ground_no_value() -> None:
    cases = [answered("Ada"), Case("Who?", ("Ada",), (1,), ()), answered("", "Ada", error="HTTP 500")]
    for name in ("accuracy", "exact_match", "f1", "rouge"):
        assert all(column == [None] * 3 for column in values(name, *cases).values())
    no_retrieval = Case("Who?", ("Ada",), (1,), (Span(1, 0, 9),), units=9)
    no_gold = Case("Who?", (), (), (), hits=found(1), contexts=(Context("A.", 2, (Span(1, 0, 2),)),), units=9)
    for name in ("passage_recall", "mrr", "ndcg", "answer_recall", "first_rank", "useful_information"):
        assert all(column == [None, None] for column in values(name, no_retrieval, no_gold).values())


def test_gold_passages_among_sentences() -> None:
    """Gold passages 1 and 2; the third unit is another sentence of passage 1: a place, and no gain."""
    case = Case("Who?", (), (1, 2), (), hits=found(3, 1, 1, 2))
    nothing = Case("Who?", (), (1, 2), (), hits=())
    second, fourth = 1 / math.log2(3), 1 / math.log2(5)
    ideal = 1 + second
    assert one("mrr", case) == 0.5
    recalls = [recall for recall, _ in values("passage_recall", case, nothing).values()]
    assert recalls == [0, 0.5, 0.5, 1, 1]
    gains = [gain for gain, _ in values("ndcg", case, nothing).values()]
    assert gains == pytest.approx(
        [0, second / ideal, second / ideal, (second + fourth) / ideal, (second + fourth) / ideal]
    )
    for name in ("mrr", "passage_recall", "ndcg"):
        assert all(column[1] == 0 for column in values(name, case, nothing).values())


def test_correct_units() -> None:
    texts = ["The mayor spoke.", "From 1990–95, O'Hara stayed in Cafe\u0301 Nord.", "Café"]
    hits = tuple(hit(rank, text=text) for rank, text in enumerate(texts, 1))

    def ranks(*gold: str, hits: tuple[RankedUnit, ...] = hits, units: int = 50) -> list[float | None]:
        case = Case("Who?", gold, (), (), hits=hits, units=units)
        return [*values("first_rank", case)["first_rank"], *values("answer_recall", case)["answer_recall@2"]]

    assert ranks("may") == [-1, 0]
    assert ranks("Mayor") == [2, 1]  # the first of 50 units
    assert ranks("o'hara") == ranks("1990") == ranks("café nord") == [4, 1]
    assert ranks("nobody", "café") == [4, 1]
    assert ranks("Café", hits=hits[2:]) == [2, 1]
    assert ranks("the cafe\u0301") == [-1, 0]
    assert ranks("Ada", hits=()) == [-1, 0]
    assert ranks("") == ranks(" ") == [-1, 0]
    assert ranks("Mayor", units=0) == [None, 1]


def test_missed_ranks_are_told_apart() -> None:
    cases = [Case("Who?", (gold,), (), (), hits=found(1), units=10) for gold in ("Some", "Ada")]
    assert values("first_rank", *cases) == {"first_rank": [10, -1], "first_rank_missing": [0, 1]}


def test_useful_information() -> None:
    facts = (Span(7, 0, 9), Span(7, 12, 40))
    whole, longer, other = Span(7, 0, 10), Span(7, 10, 30), Span(8, 0, 9)

    def found(*contexts: Context) -> tuple[float | None, float | None]:
        columns = values("useful_information", Case("Who?", (), (7,), facts, contexts=contexts))
        return columns["useful_information"][0], columns["useful_information_bound"][0]

    def share(*spans: Span) -> float | None:
        return found(*(Context("Text.", 2, (span,)) for span in spans))[0]

    assert share(whole, longer, other) == pytest.approx(2 / 3)
    assert share(whole, whole, other) == 0.5  # a repetition adds nothing
    assert share(Span(7, 4, 9)) == share(Span(7, 0, 100)) == 1  # a part of a fact; more than a fact
    assert share(Span(7, 36, 44)) == 0  # half of it is beyond the fact
    assert share(Span(7, 35, 43)) == 1
    assert share(Span(7, 9, 12)) == 0  # between two facts
    assert share() is None
    rewritten = (Context("New.", 2), Context("Old.", 2, (whole,)))
    assert found(*rewritten) == (None, None)
    # two facts in three sentences at most; of one sentence all; two halves of a fact both count
    assert found(*(Context("Text.", 2, (span,)) for span in (other, Span(9, 0, 9), Span(9, 9, 20)))) == (0, 2 / 3)
    assert found(Context("Text.", 2, (other,))) == (0, 1)
    halves = [Span(7, 12, 26), Span(7, 26, 40), Span(7, 0, 9)]
    assert found(*(Context("Text.", 2, (span,)) for span in halves)) == (1, 1)


def test_tokens() -> None:
    asked = answered("Ada", error="HTTP 500")
    retrieved = Case("Who?", (), (), (), contexts=(Context("A.", 2), Context("B.", 2)))
    assert values("tokens", asked, retrieved) == {
        "prompt_tokens": [90, None],
        "completion_tokens": [7, None],
        "seconds": [0.5, None],
        "usd": [0.25, None],
        "contexts": [None, 2],
        "context_tokens": [None, 4],
    }


words = st.sampled_from(["Ada", "a", "the", "Denver", "Broncos,", "1990–95", "é", "東京", "no", "U.S.", "lit it.", ""])
texts = st.lists(words, max_size=20).map(" ".join) | st.text(max_size=30)
spans = st.builds(
    lambda passage, start, size: Span(passage, start, start + size), *[st.integers(0, 4)] * 2, st.integers(1, 9)
)
hit_lists = st.lists(st.tuples(st.integers(0, 4), texts), max_size=12).map(
    lambda rows: tuple(hit(rank, passage, text) for rank, (passage, text) in enumerate(rows, 1))
)
context_lists = st.lists(st.builds(Context, texts, st.just(3), st.lists(spans, max_size=3).map(tuple)), max_size=4).map(
    tuple
)
cases_of_any_kind = st.builds(
    Case,
    st.just("Who?"),
    st.lists(texts, max_size=3).map(tuple),
    st.lists(st.integers(0, 6), max_size=3).map(tuple),
    st.lists(spans, max_size=3).map(tuple),
    st.none() | hit_lists,
    st.none() | context_lists,
    st.none() | texts.map(lambda text: Answer(text, 9, 2, 0.1)),
    st.integers(0, 50).map(lambda more: more and more + 12),
)


@settings(max_examples=150, deadline=None)
@given(cases_of_any_kind)
def test_what_always_holds(case: Case) -> None:
    got = {column: value for name in PER_QUESTION for column, (value,) in values(name, case).items()}
    shares = {name: value for name, value in got.items() if value is not None and name.partition("@")[0] in SHARES}
    assert all(0 <= value <= 1 for value in shares.values()), shares
    if got["f1"] is not None and case.answer:
        assert got["f1"] >= got["exact_match"]
        assert got["accuracy"] >= got["exact_match"] * (len(case.answer.text.split()) <= 15)
    for name in ("passage_recall", "answer_recall"):
        over_k = [got[f"{name}@{k}"] for k in K]
        assert over_k[0] is None or over_k == sorted(over_k)
    if got["first_rank"] is not None:
        assert got["first_rank"] == -1 or 0 < got["first_rank"] <= 100
        assert (got["first_rank"] == -1) == bool(got["first_rank_missing"])
    if got["mrr"] is not None:
        ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(10, len(set(case.gold_passages))) + 1))
        places = {passage: rank for rank, passage in reversed(list(enumerate(passages_of(case)[:10], 1)))}
        gain = sum(1 / math.log2(places[gold] + 1) for gold in set(case.gold_passages) & places.keys())
        assert got["ndcg@10"] == pytest.approx(gain / ideal)


SHARES = {
    "accuracy", "exact_match", "f1", "rouge_l", "rouge_lsum", "passage_recall", "answer_recall", "mrr", "ndcg",
    "useful_information", "first_rank_missing",
}  # fmt: skip


def passages_of(case: Case) -> list[int]:
    return [each.span.passage_id for each in case.hits or ()]


@settings(max_examples=50, deadline=None)
@given(st.lists(cases_of_any_kind, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_a_case_is_judged_by_itself(cases: list[Case], chance: random.Random) -> None:
    order = list(range(len(cases)))
    chance.shuffle(order)
    for name in PER_QUESTION:
        alone = [values(name, case) for case in cases]
        shuffled = values(name, *[cases[place] for place in order])
        assert shuffled == {column: [alone[place][column][0] for place in order] for column in shuffled}


@given(texts, st.lists(texts, min_size=1, max_size=3), texts)
@settings(deadline=None)
def test_another_gold_answer_never_lowers(output: str, gold: list[str], more: str) -> None:
    for name in ("accuracy", "exact_match", "f1", "rouge"):
        few, many = values(name, answered(output, *gold)), values(name, answered(output, *gold, more))
        assert all(few[column][0] is None or few[column][0] <= many[column][0] for column in few)
