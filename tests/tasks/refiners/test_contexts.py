"""What of a passage is one context (`refine.group`), and how far contexts reach (`refine.text`)."""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.evaluating import copied, run
from tests.support.indexing import index, sql
from tests.support.shared import indexed
from vitalfew.configs.evaluation import RefineConfig
from vitalfew.tasks.refiners.base import Context, Hit
from vitalfew.tasks.refiners.sentences import Place, Span, inside, windows
from vitalfew.tasks.registry import make

TEXTS = ["The Ouse rises in the hills. ", "It is long. ", "Its mouth is wide.\n\n", "A mill stands. "]
STARTS = [0, *accumulate(map(len, TEXTS))]


def sentence(passage: int, number: int, score: float = 0.0, title: str = "Ouse") -> Hit:
    return Hit(title, TEXTS[number], passage, STARTS[number], STARTS[number + 1], score=score)


def cut(hits: Sequence[Hit], **options: Any) -> list[Context]:
    [contexts] = make(RefineConfig(text="titled", **options), "refine").refine(["?"], [hits]).contexts
    return list(contexts)


def test_a_passage_is_one_context_with_its_title_once() -> None:
    hits = [sentence(1, 3, 0.9), sentence(2, 0, 0.8), sentence(1, 0, 0.7), sentence(1, 1, 0.6)]
    together = cut(hits)
    assert [context.text for context in together] == [
        "Ouse: The Ouse rises in the hills. It is long. … A mill stands.",
        "Ouse: The Ouse rises in the hills.",
    ]
    assert [context.origin for context in together] == [((1, 0, 41), (1, 61, 76)), ((2, 0, 29),)]
    assert [context.score for context in together] == [0.9, 0.8]
    apart = cut(hits, group="apart")
    assert [context.text for context in apart] == [f"Ouse: {hit.text.strip()}" for hit in hits]
    assert sum(context.tokens for context in together) < sum(context.tokens for context in apart)


# --- Windows and parent passages, of passages of seven sentences of ten characters

SPANS: dict[int, list[Span]] = {
    passage: [(10 * number, 10 * (number + 1)) for number in range(7)] for passage in range(3)
}
HITS = st.lists(
    st.sampled_from([(passage, span) for passage, spans in SPANS.items() for span in spans]), unique=True, max_size=8
)


@settings(max_examples=50)
@given(HITS, st.integers(0, 3))
def test_windows_have_what_is_near_a_hit_once_and_stand_where_their_best_hit_did(hits: list[Place], reach: int) -> None:
    extents = windows(hits, SPANS, reach)
    sentences = [(hits[number][0], each) for number, span in extents for each in inside(SPANS[hits[number][0]], span)]
    assert len(sentences) == len({*sentences})
    assert {*sentences} == {
        (passage, each) for passage, (start, _) in hits for each in SPANS[passage] if abs(each[0] - start) <= reach * 10
    }
    for number, (start, end) in extents:
        passage = hits[number][0]
        within = [place for place, (of, span) in enumerate(hits) if of == passage and start <= span[0] < end]
        assert number == within[0]
    assert [number for number, _ in extents] == sorted({number for number, _ in extents})


def test_contexts_of_an_evaluation_are_the_text_around_their_hits(tmp_path: Path) -> None:
    """Titles are shown as the index was encoded, unless a setting says otherwise."""
    store = copied(indexed(), tmp_path / "store")
    index(store, name="bare", encode={"text": "unit"})
    methods: dict[str, dict[str, Any]] = {
        "window": {"refine": {"text": "window", "window": 1, "titles": False}},
        "wide": {"refine": {"text": "window", "window": 99, "titles": False}},
        "passage": {"refine": {"text": "passage", "titles": False}},
        "titled": {"refine": {"text": "window"}},
        "bare": {"index": "bare", "refine": {"text": "window"}},
        "said": {"index": "bare", "refine": {"text": "window", "titles": True}},
    }
    given = {"index": "test", "retrieve": {"top_k": 6}, "refine": {"group": "apart"}, "generate": None}
    run(store, {**given, "score": {"metrics": ["tokens"]}, "methods": methods})
    rows = sql(
        store,
        "SELECT method, evidence.text, origin[1].start, origin[1].end, passages.text, title FROM evidence "
        "JOIN methods USING (fingerprint) JOIN passages ON passages.passage_id = origin[1].passage_id",
    )
    made: dict[str, list[tuple[Any, ...]]] = {name: [] for name in methods}
    for name, text, start, end, passage, title in sorted(rows):
        made[name].append((text, start, end))
        shown = f"{title}: " if name in ("titled", "said") else ""
        assert text.strip() == shown + passage[start:end].strip(), name
    sizes = {name: sum(len(text) for text, _, _ in own) for name, own in made.items()}
    assert sizes["window"] < sizes["wide"]
    assert made["wide"] == made["passage"]
