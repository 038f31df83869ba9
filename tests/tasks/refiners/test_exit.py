"""The refiner `exit`: which sentences are kept, in which order, in which budget; and a run on a tiny Gemma."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import tiny_models
from vitalfew.tasks.refiners.base import Hit, Refined
from vitalfew.tasks.refiners.exit import Exit
from vitalfew.tasks.splitters.tokens import count_tokens, count_words

WORDS = ("Yes", "No")
SENTENCES = ["sea sea. ", "mill. ", "hill town. ", "river. "]
SCORES = {"sea sea.": 0.5, "mill.": 0.9, "hill town.": 0.4999, "river.": 0.5}
PASSAGES = st.lists(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=4), max_size=4)
CHOICES: list[dict[str, Any]] = [
    {},
    {"threshold": 0.9},
    {"max_tokens": 7},
    {"max_words": 5, "threshold": 0.5},
    {"text": "titled", "max_words": 6},
    {"top_k": 1},
]


@pytest.fixture(scope="module")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.gemma(tmp_path_factory.mktemp("gemma"), tokens=WORDS)


def hit(passage: int, sentences: list[str], title: str = "Ouse") -> Hit:
    ends = [10 + sum(map(len, sentences[: number + 1])) for number in range(len(sentences))]
    spans = tuple(zip([10, *ends], ends, strict=False))
    return Hit(title, "".join(sentences), passage, 10, ends[-1], spans)


def refiner(model: Path, **chosen: Any) -> Exit:
    return Exit(Exit.Options(refiner="exit", model=str(model), device="cpu", precision="fp32", **chosen))


def refined(one: Exit, hits: list[list[Hit]]) -> Refined:
    ticks: list[tuple[int, int]] = []
    questions = [f"Where {number}?" for number in range(len(hits))]
    made = one.refine(questions, hits, None, lambda *done: ticks.append(done))
    assert (sum(count for count, _ in ticks), sum(tokens for _, tokens in ticks)) == (len(hits), made.tokens)
    assert all(context.text.strip() for own in made.contexts for context in own)
    return made


def scored(prompts: list[tuple[str, str, str]]) -> list[float]:
    return [next(value for text, value in SCORES.items() if f"\n{text}\n" in end) for _, _, end in prompts]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """The model has these scores; what it is asked."""
    prompts: list[tuple[str, str, str]] = []

    def read(self: Any, some: list[tuple[str, str, str]], tick: Any) -> list[float]:
        prompts.extend(some)
        tick(len(some), 3 * len(some))
        return scored(some)

    monkeypatch.setattr("vitalfew.tasks.models.causal.verdict.Verdict.read", read)
    return prompts


@pytest.mark.parametrize(
    ("chosen", "kept"),
    [
        ({}, "sea sea. mill. river."),  # half of the scale is enough
        ({"threshold": 0.6}, "mill."),
        ({"threshold": 0.0}, "sea sea. mill. hill town. river."),
        ({"threshold": 1.0}, ""),
        ({"max_words": 1}, "mill."),
        ({"max_words": 3}, "sea sea. mill."),  # of equal ones the first
        ({"max_words": 5}, "sea sea. mill. hill river."),  # all are candidates, and the last is cut
        ({"max_words": 5, "threshold": 0.5}, "sea sea. mill. river."),
        ({"max_tokens": 2}, "mill."),
    ],
)
@pytest.mark.usefixtures("asked")
def test_sentences_are_kept_by_their_scores(gemma: Path, chosen: dict[str, Any], kept: str) -> None:
    made = refined(refiner(gemma, **chosen), [[hit(3, SENTENCES)]])
    assert [context.text for context in made.contexts[0]] == [kept] * bool(kept)
    assert made.notes["sentences"] == 4
    assert made.notes["empty"] == (not kept)


def test_a_sentence_is_asked_of_with_its_whole_hit(gemma: Path, asked: list[tuple[str, str, str]]) -> None:
    made = refined(refiner(gemma), [[hit(3, SENTENCES[:2]), hit(4, SENTENCES[3:], "")], []])
    assert [body for _, body, _ in asked] == ["Ouse\nsea sea. mill."] * 2 + ["river."]
    assert {start for start, _, _ in asked} == {"Query:\nWhere 0?\nFull context:\n"}
    assert (
        asked[1][2] == '\nSentence:\nmill.\nIs this sentence useful in answering the query? Answer only "Yes" or "No".'
    )
    assert [context.origin for context in made.contexts[0]] == [((3, 10, 25),), ((4, 10, 17),)]
    assert made.contexts[1] == []
    assert made.tokens == 9


@settings(deadline=None, max_examples=60)
@given(PASSAGES, st.sampled_from(CHOICES))
def test_what_is_kept_is_of_the_hits_in_their_order(
    gemma: Path, passages: list[list[str]], chosen: dict[str, Any]
) -> None:
    hits = [hit(number, sentences) for number, sentences in enumerate(passages)]
    one = refiner(gemma, **chosen)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "vitalfew.tasks.models.causal.verdict.Verdict.read", lambda self, prompts, tick: scored(prompts)
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
        assert [*context.origin] == sorted(context.origin)


# --- On a tiny Gemma


def test_a_question_has_the_same_contexts_in_any_company(gemma: Path) -> None:
    hits = [hit(1, SENTENCES), hit(2, ["river. ", "mill. "]), hit(3, ["town. "])]
    batch = [hits, hits[1:], [], hits[:1]]
    one = refiner(gemma, max_words=4)
    contexts = refined(one, batch).contexts
    questions = [f"Where {number}?" for number in range(4)]
    for number in range(4):
        assert one.refine([questions[number]], [batch[number]]).contexts == [contexts[number]]
    backwards = one.refine(questions[::-1], batch[::-1]).contexts
    assert backwards[::-1] == contexts


def test_odd_hits_are_read_too(gemma: Path) -> None:
    blank, signs = hit(1, ["  \n"]), hit(2, ["!? ", "120 % "])
    long = hit(3, ["The river rises in the hills. " * 60, "mill. "])
    rewritten = Hit("", "river.", 4, 0, 0)
    made = refined(refiner(gemma, threshold=0.0, text="titled"), [[blank, signs, long, rewritten], []])
    assert [context.text.split()[0] for context in made.contexts[0]] == ["Ouse:", "Ouse:", "river."]
    assert [len(context.origin) for context in made.contexts[0]] == [1, 1, 0]
    assert made.notes["sentences"] == 5
    # A sentence that is longer than the model is the least of all.
    kept = refined(refiner(gemma, max_words=1), [[long]]).contexts[0]
    assert [context.text for context in kept] == ["mill."]
    title = hit(5, SENTENCES, "A title of many words")
    assert refined(refiner(gemma, text="titled", max_words=3), [[title]]).contexts == [[]]
