"""The refiner `crag`: the three actions, strips, thresholds, budgets and order; and a run with a tiny T5 evaluator."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.support import tiny_models
from vitalfew.tasks.refiners.base import Hit, Refined
from vitalfew.tasks.refiners.scored import Crag
from vitalfew.tasks.splitters.tokens import count_tokens, count_words

SENTENCES = ["Sea one. ", "Mill two. ", "Hill three. ", "Town four. "]
WORDS = st.sampled_from(["Mill two. ", "Sea one. ", "A river rises there. ", "Town. "])
PASSAGES = st.lists(st.lists(WORDS, min_size=1, max_size=5), max_size=4)
CHOICES: list[dict[str, Any]] = [
    {},
    {"strips": 1, "strip_sentences": 1},
    {"strips": 2, "at_least": 1, "upper": 1.0, "lower": 1.0},
    {"max_tokens": 7},
    {"max_words": 5, "strip_sentences": 2, "text": "titled"},
    {"top_k": 1, "at_least": 3},
]
Relate = Callable[[dict[str, float]], list[str]]


def hit(passage: int, sentences: list[str], title: str = "Ouse") -> Hit:
    ends = [10 + sum(map(len, sentences[: number + 1])) for number in range(len(sentences))]
    spans = tuple(zip([10, *ends], ends, strict=False))
    return Hit(title, "".join(sentences), passage, 10, ends[-1], spans)


def refiner(**chosen: Any) -> Crag:
    return Crag(Crag.Options(refiner="crag", **chosen))


def refined(one: Crag, hits: list[list[Hit]]) -> Refined:
    ticks: list[tuple[int, int]] = []
    questions = [f"Where {number}?" for number in range(len(hits))]
    made = one.refine(questions, hits, None, lambda *done: ticks.append(done))
    assert (sum(count for count, _ in ticks), sum(tokens for _, tokens in ticks)) == (len(hits), made.tokens)
    assert all(context.text.strip() for own in made.contexts for context in own)
    return made


@pytest.fixture
def rate(monkeypatch: pytest.MonkeyPatch) -> Relate:
    """Give texts their scores, 0.5 where none is given; returned is a list of the texts that are then rated."""

    def given(scores: dict[str, float]) -> list[str]:
        rated: list[str] = []

        def relevance(self: Any, pairs: list[tuple[str, str]], tick: Any) -> list[float]:
            rated.extend(text for _, text in pairs)
            tick(len(pairs), 3 * len(pairs))
            return [scores.get(text, 0.5) for _, text in pairs]

        monkeypatch.setattr("vitalfew.tasks.raters.embedded.Embedded.relevance", relevance)
        return rated

    return given


WHOLE = "".join(SENTENCES).strip()
HEAD, TAIL = "Sea one. Mill two. Hill three.", "Town four."


@pytest.mark.parametrize(
    ("score", "action", "kept"),
    [
        (0.8, "correct", [WHOLE]),
        (0.795, "correct", [WHOLE]),
        (0.79, "ambiguous", [WHOLE]),
        (0.005, "ambiguous", [WHOLE]),
        (0.004, "incorrect", []),
    ],
)
def test_the_best_hit_decides_what_is_done(rate: Relate, score: float, action: str, kept: list[str]) -> None:
    rate({WHOLE: score, "Town.": 0.0})
    made = refined(refiner(), [[hit(1, ["Town. "]), hit(2, SENTENCES)]])
    assert [context.text for context in made.contexts[0]] == kept
    actions = {name: made.notes[name] for name in ("correct", "ambiguous", "incorrect")}
    assert actions == {name: name == action for name in actions}
    assert made.notes["empty"] == (not kept)


def test_strips_under_the_threshold_are_dropped(rate: Relate) -> None:
    rate({HEAD: 0.249, TAIL: 0.25})
    made = refined(refiner(), [[hit(2, SENTENCES)]])
    assert [(context.text, context.origin) for context in made.contexts[0]] == [(TAIL, ((2, 41, 52),))]
    assert (made.notes["strips"], made.notes["passed"]) == (2, 1)
    assert refined(refiner(strip_threshold=0.26), [[hit(2, SENTENCES)]]).contexts == [[]]


def test_the_best_strips_stand_in_the_order_of_the_hits(rate: Relate) -> None:
    rate({"Sea one.": 0.6, "Mill two.": 0.7, "Hill three.": 0.9, "Town four.": 0.8})
    hits = [[hit(2, SENTENCES[:2]), hit(1, SENTENCES[2:])]]

    def texts(**chosen: Any) -> list[str]:
        return [each.text for each in refined(refiner(strip_sentences=1, **chosen), hits).contexts[0]]

    assert texts() == ["Sea one. Mill two.", "Hill three. Town four."]
    assert texts(strips=3) == ["Mill two.", "Hill three. Town four."]
    assert texts(strips=1) == ["Hill three."]
    assert texts(max_words=6) == ["Mill two.", "Hill three. Town four."]
    assert texts(max_words=5) == ["Mill", "Hill three. Town four."]
    assert texts(max_words=6, strips=1) == ["Hill three."]
    assert texts(top_k=1) == ["Sea one. Mill two."]


def test_five_strips_are_kept_and_as_many_as_a_budget_takes(rate: Relate) -> None:
    rate({})
    hits = [[hit(number, SENTENCES) for number in range(4)]]
    assert refined(refiner(), hits).notes["passed"] == 5
    assert refined(refiner(max_words=1000), hits).notes["passed"] == 8


def test_an_incorrect_question_has_as_many_strips_as_are_asked_for(rate: Relate) -> None:
    rated = rate({WHOLE: 0.001, HEAD: 0.002, TAIL: 0.003})
    hits = [[hit(2, SENTENCES)]]
    assert refined(refiner(), hits).contexts == [[]]
    assert rated == [WHOLE]  # strips that nobody wants are not rated
    made = refined(refiner(at_least=1), hits)
    assert [context.text for context in made.contexts[0]] == [TAIL]
    assert made.notes["incorrect"] == 1


def test_a_short_hit_is_its_own_strip_and_rated_once(rate: Relate) -> None:
    rated = rate({})
    made = refined(refiner(text="titled"), [[hit(1, SENTENCES[:2]), hit(2, SENTENCES)], []])
    whole = ["Ouse: Sea one. Mill two.", f"Ouse: {WHOLE}"]
    assert sorted(rated) == sorted([*whole, f"Ouse: {HEAD}", f"Ouse: {TAIL}"])
    assert [context.text for context in made.contexts[0]] == whole
    assert made.tokens == 12


@settings(deadline=None, max_examples=60)
@given(PASSAGES, st.sampled_from(CHOICES))
def test_what_is_kept_is_of_the_hits_in_their_order(passages: list[list[str]], chosen: dict[str, Any]) -> None:
    hits = [hit(number, sentences) for number, sentences in enumerate(passages)]
    one = refiner(**chosen)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "vitalfew.tasks.raters.embedded.Embedded.relevance",
            lambda self, pairs, tick: [sum(map(ord, text)) % 7 / 7 for _, text in pairs],
        )
        contexts = one.refine(["Where?"], [hits]).contexts[0]
    words, tokens = (sum(count(each.text) for each in contexts) for count in (count_words, count_tokens))
    assert words <= chosen.get("max_words", words)
    assert tokens <= chosen.get("max_tokens", tokens)
    sources = [context.origin[0][0] for context in contexts]
    assert sources == sorted({*sources})
    for context in contexts:
        own = hits[context.origin[0][0]]
        parts = [own.text[start - 10 : end - 10].strip() for _, start, end in context.origin]
        assert context.text == own.label(one.options) + " ".join(parts)


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"lower must be at most upper, got lower=0\.9 and upper=0\.5"):
        refiner(lower=0.9, upper=0.5)
    with pytest.raises(ValidationError, match="at_least must be at most strips, got at_least=3 and strips=2"):
        refiner(strips=2, at_least=3)


# --- With a tiny evaluator


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.t5_evaluator(tmp_path_factory.mktemp("evaluator"))


def test_a_question_has_the_same_contexts_in_any_company(evaluator: Path) -> None:
    hits = [hit(1, SENTENCES), hit(2, ["The river rises in the hills. ", "Its mill stands. "]), hit(3, ["Town. "])]
    batch = [hits, hits[1:], [], hits[:1]]
    one = refiner(model=str(evaluator), device="cpu", precision="fp32", upper=0.5, lower=0.1, strip_threshold=0.1)
    made = refined(one, batch)
    questions = [f"Where {number}?" for number in range(4)]
    for number in range(4):
        assert one.refine([questions[number]], [batch[number]]).contexts == [made.contexts[number]]
    assert one.refine(questions[::-1], batch[::-1]).contexts[::-1] == made.contexts
    assert sum(made.notes[action] for action in ("correct", "ambiguous", "incorrect")) == 4


def test_odd_hits_are_read_too(evaluator: Path) -> None:
    blank, signs = hit(1, [" ", "\n"]), hit(2, ["!? ", " ", "120 % "])
    long = hit(3, ["The river rises in the hills. " * 60, "Mill two. "])
    rewritten = Hit("", "A river.", 4, 0, 0)
    one = refiner(model=str(evaluator), device="cpu", precision="fp32", upper=0.0, lower=0.0, strip_threshold=0.0)
    made = refined(one, [[blank, signs, long, rewritten], [blank]])
    assert [(context.text, len(context.origin)) for context in made.contexts[0]] == [
        (each.text.strip(), each.start < each.end) for each in (signs, long, rewritten)
    ]
    assert made.contexts[1] == []
    assert (made.notes["correct"], made.notes["incorrect"]) == (1, 1)
    narrow = refiner(text="titled", max_words=3, at_least=1)
    assert refined(narrow, [[hit(5, SENTENCES, "A title of many words")]]).contexts == [[]]


def test_what_is_missing_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"somebody/evaluator is not on this machine.*refine\.model"):
        refiner(model="somebody/evaluator")
