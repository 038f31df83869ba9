"""Metrics against numbers worked out by hand, and what has to hold for any case."""

import math
from dataclasses import replace
from typing import Any

import pytest

from vitalfew.configs.evaluation import ScoreConfig
from vitalfew.tasks.datasets.base import Span
from vitalfew.tasks.metrics.base import (
    ANSWER,
    APPRAISALS,
    CONTEXTS,
    GOLD_ANSWERS,
    GOLD_PASSAGES,
    GOLD_SENTENCES,
    GOLD_TEXTS,
    HITS,
    LIKELIHOODS,
    PREFERENCES,
    REFINEMENTS,
    STEPS,
    SUPPORTING_FACTS,
    VERDICTS,
    Answer,
    Case,
    Context,
    Metric,
    Refinement,
)
from vitalfew.tasks.refiners.base import Hit
from vitalfew.tasks.registry import METHODS, make, resolve

K = (1, 2, 3, 4, 10)
PER_QUESTION = sorted(name for name in METHODS["metric"] if not resolve("metric", name).corpus)


def metric_at(name: str) -> Metric:
    """The metric, at the ranks K where it has ranks."""
    ranked = {"k": K} if "k" in resolve("metric", name).Options.model_fields else {}
    metric: Metric = make(ScoreConfig(metrics=(name,), **ranked), "score")
    return metric


def hit(rank: int, passage: int = 1, text: str = "Some text.") -> Hit:
    return Hit("", text, passage, 0, len(text), score=1 / rank)


def found(*passages: int) -> tuple[Hit, ...]:
    return tuple(hit(rank, passage) for rank, passage in enumerate(passages, 1))


def answered(output: str, *gold: str, error: str = "") -> Case:
    return Case("Who?", gold, (), (), answer=Answer(output, 90, 7, 0.5, error=error, usd=0.25))


def values(metric: str, *cases: Case) -> dict[str, list[float | None]]:
    made = metric_at(metric)
    return {column: list(column_values) for column, column_values in made.score(cases).items()}


def one(metric: str, case: Case) -> float | None:
    ((value,),) = values(metric, case).values()
    return value


@pytest.mark.parametrize(
    ("output", "gold", "exact", "f1", "accurate"),
    [
        (" The  Denver Broncos!\n", "Denver Broncos", 1, 1, 1),
        ("Broncos of Denver", "the Denver Broncos", 0, 0.8, 0),
        ("It was in 1,000 years.", "1000 years", 0, 2 * 2 / 7, 1),
        ("twenty-one", "twenty one", 0, 0, 0),  # punctuation goes, and leaves no blank
        ("Hara。", "Hara", 0, 0, 0),  # only ASCII punctuation is dropped
        ("The Mayor", "May", 0, 0, 0),
        ("the Cafe\u0301 O’Hara", "Café O'Hara", 1, 1, 1),  # the comparable form comes first
        ("借书证在二楼办理", "二楼", 0, 0.4, 1),
        ("", "Ada", 0, 0, 0),
    ],
)
def test_answers_are_compared_as_squad_does(output: str, gold: str, exact: float, f1: float, accurate: float) -> None:
    """The best gold answer counts."""
    case = answered(output, "Carolina", gold)
    assert [one(name, case) for name in ("exact_match", "f1", "accuracy")] == pytest.approx([exact, f1, accurate])


def test_a_limit_of_words_is_counted_by_itself() -> None:
    limited = make(ScoreConfig(metrics=("accuracy",), max_words=15), "score")
    cases = [answered("Ada " + "w " * more, gold) for more, gold in ((14, "Ada"), (15, "Ada"), (15, "Bo"))]
    assert limited.score(cases) == {"accuracy": [1, 0, 0], "accuracy_cut": [0, 1, 0]}


def test_rouge() -> None:
    # Longest common subsequence: the quick brown … jumps … the; of 8 words and of 9.
    case = answered("The quick brown dog jumps on the log.", "The quick brown fox jumps over the lazy dog")
    assert values("rouge", case) == {"rouge_l": [pytest.approx(10 / 17)], "rouge_lsum": [pytest.approx(10 / 17)]}
    swapped = answered("Dr. Bob slept. Ada lit it.", "Ada lit it. Dr. Bob slept.")
    assert values("rouge", swapped) == {"rouge_l": [pytest.approx(3 / 6)], "rouge_lsum": [pytest.approx(1)]}


WITHOUT: dict[str, dict[str, Any]] = {
    ANSWER: {"answer": None, "selected": (), "candidates": ()}, CONTEXTS: {"contexts": None},
    GOLD_ANSWERS: {"answers": ()}, GOLD_PASSAGES: {"gold_passages": (), "gold_sentences": (), "gold_texts": ()},
    GOLD_TEXTS: {"gold_texts": ()},
    GOLD_SENTENCES: {"gold_sentences": ()}, HITS: {"hits": None}, SUPPORTING_FACTS: {"supporting_facts": ()},
    STEPS: {"answer": Answer("Some", 9, 2, 0.1, kept=1)}, REFINEMENTS: {"refinement": None},
    APPRAISALS: {"appraisal": None}, LIKELIHOODS: {"likelihood": None},
    VERDICTS: {"verdict": None}, PREFERENCES: {"verdict": (1.0, 0.5, None)},
}  # fmt: skip
"""By what a column may need: a case's fields without it."""


@pytest.mark.parametrize("name", PER_QUESTION)
def test_a_question_without_what_a_column_needs_is_left_out(name: str) -> None:
    span = Span(1, 0, 10)
    whole = Case(
        "Who?", ("Some",), (1,), (span,), hits=found(1, 2), gold_sentences=((5, 3),),
        contexts=(Context("Some text of 1990.", 5, sentences=((1, 0, 10),)),),
        answer=Answer("Some", 9, 2, 0.1, kept=1, kv_tokens=8, init_seconds=0.1, prefill_seconds=0.1, copy_seconds=0.1,
            decode_seconds=0.1),
        selected=(Answer("Some", 9, 1, 0.1),),
        candidates=(Answer("Some", 9, 1, 0.1),),
        refinement=Refinement(30, 3, 0.2, 0.3),
        appraisal=(8.0, 9.5),
        likelihood=(-4.5, 3),
        verdict=(1.0, 0.5, 0.5),
        gold_texts=(("Some man came.",),),
    )  # fmt: skip
    if name == "choice":
        whole = replace(whole, question="Who?\nA: Some\nB: None")
    if name == "conditions":
        whole = replace(whole, question="Who came?")
    for column in metric_at(name).columns():
        assert column.heading, column
        assert column.direction in {"higher", "lower", "neither"}, column
        assert values(name, whole)[column.name] != [None], column
        for need, changes in WITHOUT.items():
            given = values(name, replace(whole, **changes))[column.name] != [None]
            assert given == (need not in column.needs), (column, need)


def test_gold_passages_among_sentences() -> None:
    """Gold passages 1 and 2; the third unit is another sentence of passage 1: a place, and no gain."""
    case = Case("Who?", (), (1, 2), (), hits=found(3, 1, 1, 2))
    nothing = Case("Who?", (), (1, 2), (), hits=())
    second, fourth = 1 / math.log2(3), 1 / math.log2(5)
    ideal = 1 + second
    assert one("mrr", case) == 0.5
    recalls = [recall for recall, _ in values("passage_recall", case, nothing).values()]
    assert recalls == [0, 0.5, 0.5, 1, 1]
    gains = [gain * ideal for gain, _ in values("ndcg", case, nothing).values()]
    assert gains == pytest.approx([0, second, second, second + fourth, second + fourth])
    for name in ("mrr", "passage_recall", "ndcg"):
        assert all(column[1] == 0 for column in values(name, case, nothing).values())


def test_ndcg_takes_grades_and_of_a_group_the_highest() -> None:
    """Ranked: 1 of 4, then 2 and 3, of which one is as good as both, of 1 and 2."""
    case = Case("Who?", (), (1, 2, 3), (), hits=found(2, 1), gold_groups=(0, 1, 1), gold_grades=(4, 1, 2))
    half = 1 / math.log2(3)
    assert values("ndcg", case)["ndcg@2"] == [pytest.approx((2 + 4 * half) / (4 + 2 * half))]


def test_correct_units() -> None:
    texts = ["The mayor spoke.", "From 1990–95, O'Hara stayed in Cafe\u0301 Nord.", "Café"]
    contexts = tuple(Context(text, 3) for text in texts)
    hits = tuple(hit(rank, text=text) for rank, text in enumerate(texts, 1))
    for gold, rank in (("may", None), ("Mayor", 1), ("o'hara", 2), ("1990", 2), ("café nord", 2), ("", None)):
        case = Case("Who?", ("nobody", gold), (), (), hits=hits, contexts=contexts)
        percent = rank and pytest.approx(100 * rank / 3)
        assert values("first_rank", case)["first_rank"] == [percent]
        assert values("first_rank", case)["first_rank_missing"] == [rank is None]
        assert values("answer_recall", case)["answer_recall@2"] == [rank is not None]


FACTS = (Span(7, 0, 9), Span(7, 12, 40))
WHOLE, LONGER, OTHER = Span(7, 0, 10), Span(7, 10, 30), Span(8, 0, 9)


def evidence(*shown: Span) -> Case:
    places = [(span.passage_id, span.start, span.end) for span in shown]
    contexts = tuple(Context("Text.", 2, sentences=(place,)) for place in places)
    return Case("Who?", ("Ada",), (7,), FACTS, contexts=contexts)


@pytest.mark.parametrize(
    ("shown", "useful", "bound", "precision", "recall"),
    [
        ([WHOLE, WHOLE, LONGER, OTHER], 2 / 3, 2 / 3, 2 / 3, 1),  # a repetition adds nothing
        ([Span(7, 4, 9)], 1, 1, 1, 0.5),  # more than half of a fact
        ([Span(7, 5, 9)], 0, 1, 0, 0),  # less: a sentence that a budget has cut
        ([Span(7, 12, 22), Span(7, 22, 32), Span(7, 32, 40)], 1, 1, 1, 0.5),  # a fact in three sentences
        ([], None, None, 0, 0),
    ],
)
def test_supporting_facts(
    shown: list[Span], useful: float | None, bound: float | None, precision: float, recall: float
) -> None:
    case = evidence(*shown)
    information, facts = values("useful_information", case), values("supporting_facts", case)
    assert [*information.values()] == [[useful and pytest.approx(useful)], [bound and pytest.approx(bound)]]
    assert [facts["sp_precision"], facts["sp_recall"]] == [[pytest.approx(precision)], [recall]]
    both = precision + recall
    assert facts["sp_f1"] == [pytest.approx(2 * precision * recall / both if both else 0)]
    assert facts["sp_em"] == [precision == recall == 1]


@pytest.mark.parametrize(
    ("shown", "output", "gold", "exact", "f1"),
    [
        ([*FACTS], "the Ada", ["Ada"], 1, 1),
        ([*FACTS, OTHER], "Ada Byron", ["Eve", "Ada"], 0, 0.5),  # precision 2/3 of 1/2, recall 1
        ([*FACTS], "yes it is", ["yes"], 0, 0),  # a yes is all of an answer
    ],
)
def test_joint(shown: list[Span], output: str, gold: list[str], exact: float, f1: float) -> None:
    case = replace(evidence(*shown), answers=tuple(gold), answer=Answer(output, 9, 1, 0.1))
    assert values("joint", case) == {"joint_em": [exact], "joint_f1": [pytest.approx(f1)]}


def test_tokens_and_compression() -> None:
    asked = replace(answered("Ada", error="HTTP 500"), refinement=Refinement(20, 5, 0.25, 0.5))
    retrieved = Case("Who?", (), (), (), contexts=(Context("A.", 2), Context("B.", 2)))
    made = {name: column[0] for name, column in (values("tokens", asked) | values("compression", asked)).items()}
    assert made == {
        "prompt_tokens": 90, "completion_tokens": 7, "seconds": 0.5, "usd": 0.25, "cached_tokens": 0, "contexts": None,
        "context_tokens": None, "context_share": 0.25, "refine_seconds": 0.25, "refine_cpu_seconds": 0.5,
        "total_seconds": 0.75,
    }  # fmt: skip
    assert values("tokens", retrieved)["context_tokens"] == [4]


@pytest.mark.parametrize(
    ("context", "words", "names"),
    [
        ("The river Ouse ran", 1, 1),
        ("It was in 1990. The Ouse, 1991.", 4 / 7, 2 / 3),  # "It" and "The" begin sentences
        ("…", None, None),
        ("Mill: Ada", 1, None),  # a title stands before it
    ],
)
def test_grounding(context: str, words: float | None, names: float | None) -> None:
    given = replace(hit(1, text="the river Ouse ran, in 1990"), title="Mill: Ada")
    case = Case("Who?", (), (), (), hits=(given,), contexts=(Context(context, 3),))
    assert values("grounding", case) == {"grounding": [words], "grounded_names": [names]}


def test_a_case_is_judged_by_itself() -> None:
    """Shards and their order change no value."""
    cases = [answered("Ada", "Ada"), evidence(WHOLE, OTHER), answered("", "Ada", error="HTTP 500")]
    for name in PER_QUESTION:
        alone = [values(name, case) for case in cases]
        turned = values(name, *cases[::-1])
        assert turned == {column: [each[column][0] for each in alone[::-1]] for column in turned}
